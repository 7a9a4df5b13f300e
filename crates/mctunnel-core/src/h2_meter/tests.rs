//! Frames by the thousand, in one piece and byte by byte, through a meter.

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn metered() -> (DuplexStream, Metered<DuplexStream>) {
    let (peer, here) = duplex(1 << 20);
    (peer, Metered::new(here, Limits::default()))
}

/// Sends the preface and so many of a frame; gives the reason for which the reader is stopped, if it is.
async fn flood(one: &[u8], count: usize) -> Option<String> {
    let (mut peer, mut here) = metered();
    let sending = async move {
        peer.write_all(PREFACE).await?;
        for _ in 0..count {
            peer.write_all(one).await?;
        }
        drop(peer);
        io::Result::Ok(())
    };
    let reading = async move { tokio::io::copy(&mut here, &mut tokio::io::sink()).await.err().map(|e| e.to_string()) };
    tokio::join!(sending, reading).1
}

#[tokio::test(start_paused = true)]
async fn t38_each_kind_of_flood_ends_the_connection_with_its_reason() {
    for (what, one, allowed, reason) in [
        ("rapid reset", frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]), 2_000, "cut requests"),
        ("pings", frame(PING, 0, 0, &[7; 8]), 5_000, "PING"),
        ("settings", frame(SETTINGS, 0, 0, &[]), 50, "SETTINGS"),
        ("settings with content", frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]), 50, "SETTINGS"),
        ("empty data", frame(DATA, 0, 1, &[]), 1_000, "carry nothing"),
        ("data that is padding", frame(DATA, PADDED, 1, &[3, 0, 0, 0]), 1_000, "carry nothing"),
        ("priorities", frame(2, 0, 1, &[0; 5]), 1_000, "carry nothing"),
        ("unknown frames", frame(0xfa, 0, 1, &[0; 5]), 1_000, "carry nothing"),
        ("window updates", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]), 5_000, "WINDOW_UPDATE"),
    ] {
        assert_eq!(flood(&one, allowed).await, None, "{what}");
        let stopped = flood(&one, allowed + 1).await.unwrap_or_else(|| panic!("{what} was not stopped"));
        assert!(stopped.contains(reason), "{what}: {stopped}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_carries_something_is_not_counted() {
    for one in [
        frame(DATA, 0, 1, &[1]),
        frame(DATA, END_STREAM_OR_ACK, 1, &[]),
        frame(DATA, PADDED, 1, &[1; 300]),
        frame(HEADERS, 5, 1, &[0x82]),
        // A payload that looks like frames.
        frame(DATA, 0, 1, &frame(PING, 0, 0, &[0; 8]).repeat(100)),
    ] {
        assert_eq!(flood(&one, 20_000).await, None, "{one:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_an_average_and_a_burst() {
    let (mut peer, mut here) = metered();
    peer.write_all(PREFACE).await.unwrap();
    let ping = frame(PING, 0, 0, &[7; 8]);
    let mut sink = vec![0; 1 << 20];
    for _ in 0..60 {
        peer.write_all(&ping.repeat(1_000)).await.unwrap();
        assert!(here.read(&mut sink).await.is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_download_gives_reason_for_window_updates() {
    let (mut peer, mut here) = metered();
    peer.write_all(PREFACE).await.unwrap();
    let (data, update) = (frame(DATA, 0, 1, &[0; 16]), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 16]));
    let mut sink = vec![0; 1 << 20];
    for _ in 0..20_000 {
        // In pieces, as a socket takes them.
        let (front, rest) = data.split_at(5);
        let slices = [IoSlice::new(front), IoSlice::new(rest)];
        assert_eq!(here.write_vectored(&slices).await.unwrap(), if here.is_write_vectored() { 25 } else { 5 });
        if !here.is_write_vectored() {
            here.write_all(rest).await.unwrap();
        }
        peer.read_exact(&mut sink[..25]).await.unwrap();
        peer.write_all(&update.repeat(2)).await.unwrap();
        here.read_exact(&mut sink[..26]).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn t38_requests_that_make_us_reset_them_are_counted_by_the_reason() {
    for (reason, allowed, said) in [(1_u32, 200, "made us refuse"), (7, 200, "made us refuse"), (2, 2_000, "end early")]
    {
        let (mut peer, mut here) = metered();
        let reset = frame(RST_STREAM, 0, 1, &reason.to_be_bytes());
        peer.write_all(PREFACE).await.unwrap();
        let mut sink = vec![0; 1 << 20];
        for sent in 0..=allowed {
            assert!(here.read(&mut sink).await.is_ok(), "after {sent}");
            here.write_all(&reset).await.unwrap();
            peer.write_all(&frame(HEADERS, 5, 1, &[0x82])).await.unwrap();
        }
        let stopped = here.read(&mut sink).await.unwrap_err().to_string();
        assert!(stopped.contains(said), "{reason}: {stopped}");
    }
}

#[tokio::test(start_paused = true)]
async fn t38_who_asks_and_lets_nothing_be_answered_is_cut_in_time() {
    let no_window = frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0]);
    let request = frame(HEADERS, 5, 1, &[0x82]);
    let mut sink = vec![0; 1000];

    let (mut peer, mut here) = metered();
    peer.write_all(&[PREFACE, &no_window, &request].concat()).await.unwrap();
    assert!(here.read(&mut sink).await.is_ok());
    let begin = Instant::now();
    let stopped = here.read(&mut sink).await.unwrap_err().to_string();
    assert!(stopped.contains("let nothing be answered"), "{stopped}");
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());

    // A window that comes later is a window.
    for later in
        [frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]), frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]), no_window.clone()]
    {
        let grants = later != no_window;
        let (mut peer, mut here) = metered();
        peer.write_all(&[PREFACE, &no_window, &request, &later].concat()).await.unwrap();
        assert!(here.read(&mut sink).await.is_ok());
        let waited = tokio::time::timeout(Duration::from_secs(60), here.read(&mut sink)).await;
        assert_eq!(waited.is_err(), grants, "{later:?}");
    }

    // Nor is anybody cut who asks for nothing.
    let (mut peer, mut here) = metered();
    peer.write_all(&[PREFACE, &no_window].concat()).await.unwrap();
    assert!(here.read(&mut sink).await.is_ok());
    assert!(tokio::time::timeout(Duration::from_secs(60), here.read(&mut sink)).await.is_err());
}

#[test]
fn frames_are_found_however_they_are_cut() {
    let bytes = [
        PREFACE,
        &frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 1, 0, 0, 4, 0, 1, 0, 0]),
        &frame(DATA, 1, 0x8000_0005, &[9; 300]),
        &frame(RST_STREAM, 0, 7, &[0, 0, 0, 11]),
        &frame(PING, 1, 0, &[0; 8]),
    ]
    .concat();
    let expected = [
        Seen::Frame { kind: SETTINGS, flags: 0, stream: 0, length: 12 },
        Seen::Setting { id: 3, value: 256 },
        Seen::Setting { id: 4, value: 65_536 },
        Seen::Frame { kind: DATA, flags: 1, stream: 5, length: 300 },
        Seen::Frame { kind: RST_STREAM, flags: 0, stream: 7, length: 4 },
        Seen::Reason(11),
        Seen::Frame { kind: PING, flags: 1, stream: 0, length: 8 },
    ];
    for size in [1, 2, 5, 8, 9, 13, 100, 10_000] {
        let (mut scanner, mut seen) = (Scanner::behind_preface(), Vec::new());
        bytes.chunks(size).for_each(|chunk| scanner.scan(chunk, |one| seen.push(one)));
        assert_eq!(seen, expected, "in pieces of {size}");
    }
}
