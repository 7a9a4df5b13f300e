//! The guard on a connection: what a reader gets, and what is held in memory meanwhile.

use super::*;
use std::io::ErrorKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

const GET: &[u8] = b"GET /c HTTP/1.1\r\nHost: h\r\n\r\n";
const POST: &[u8] = b"POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";

fn guarded() -> (DuplexStream, Guarded<DuplexStream>) {
    let (client, server) = duplex(1 << 20);
    (client, Guarded::new(server, Arc::new(GuardConfig::default())))
}

/// What one read gives, with room for so many bytes; `None` if it would wait.
async fn read(guarded: &mut Guarded<DuplexStream>, room: usize) -> Option<io::Result<Vec<u8>>> {
    let mut bytes = vec![0; room];
    tokio::select! {
        biased;
        outcome = tokio::task::unconstrained(guarded.read(&mut bytes)) => Some(outcome.map(|length| {
            bytes.truncate(length);
            bytes
        })),
        () = std::future::ready(()) => None,
    }
}

#[tokio::test]
async fn an_idle_connection_holds_no_memory() {
    let (mut client, mut guarded) = guarded();
    let (one, two) = GET.split_at(10);
    client.write_all(one).await.unwrap();
    assert!(read(&mut guarded, 8192).await.is_none(), "nothing of an incomplete head is passed on");
    assert!(guarded.held.capacity() > 0);
    client.write_all(two).await.unwrap();
    assert_eq!(read(&mut guarded, 8192).await.unwrap().unwrap(), GET);
    assert_eq!(guarded.held.capacity(), 0);
    client.write_all(GET).await.unwrap();
    assert_eq!(read(&mut guarded, 8192).await.unwrap().unwrap(), GET);
    assert!(read(&mut guarded, 8192).await.is_none());
    assert_eq!(guarded.held.capacity(), 0, "a head that comes whole is not copied");
}

#[tokio::test]
async fn bodies_are_not_held() {
    let (mut client, mut guarded) = guarded();
    client.write_all(POST).await.unwrap();
    client.write_all(&[b'x'; 99_999]).await.unwrap();
    let mut length = 0;
    while let Some(bytes) = read(&mut guarded, 10_000).await {
        length += bytes.unwrap().len();
        assert_eq!(guarded.held.capacity(), 0);
    }
    assert_eq!(length, POST.len() + 99_999);
    client.write_all(b"xGET").await.unwrap();
    assert_eq!(read(&mut guarded, 100).await.unwrap().unwrap(), b"x");
    assert_eq!(guarded.held, b"GET"[..]);
}

#[tokio::test]
async fn t07_requests_in_one_read_are_passed_on_in_any_room() {
    for room in [1, 2, 7, 100, 8192] {
        let (mut client, mut guarded) = guarded();
        let text = [GET, b"POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", GET].concat();
        client.write_all(&text).await.unwrap();
        client.shutdown().await.unwrap();
        let mut got = Vec::new();
        loop {
            match read(&mut guarded, room).await.unwrap().unwrap() {
                bytes if bytes.is_empty() => break,
                bytes => got.extend(bytes),
            }
        }
        assert_eq!(got, text, "{room}");
    }
}

#[tokio::test]
async fn t15_a_refused_head_is_replaced_and_nothing_behind_it_is_read() {
    for room in [1, 10, 8192] {
        let (mut client, mut guarded) = guarded();
        let refused = guarded.refused();
        client.write_all(&[GET, b"GET * HTTP/1.1\r\nHost: h\r\n\r\n", GET].concat()).await.unwrap();
        let mut got = Vec::new();
        while let Some(bytes) = read(&mut guarded, room).await {
            got.extend(bytes.unwrap());
        }
        assert_eq!(got, [GET, REFUSED].concat(), "{room}");
        assert_eq!(refused.take(), Some(BadHead::Target(crate::http::BadTarget::NotAPath)));
        assert_eq!(refused.take(), None);
        client.write_all(GET).await.unwrap();
        client.shutdown().await.unwrap();
        assert!(read(&mut guarded, room).await.is_none(), "the server is not told of an end, and answers");
        assert_eq!(guarded.held.capacity(), 0);
    }
}

#[tokio::test]
async fn what_follows_a_refused_head_is_read_up_to_a_limit() {
    let (mut client, mut guarded) = guarded();
    client.write_all(b"\0").await.unwrap();
    assert_eq!(read(&mut guarded, 100).await.unwrap().unwrap(), REFUSED);
    client.write_all(&vec![b'x'; MAX_DISCARD + 1000]).await.unwrap();
    for _ in 0..10 {
        assert!(read(&mut guarded, 1000).await.is_none());
    }
    client.shutdown().await.unwrap();
    let (mut io, held) = guarded.into_parts();
    let mut left = Vec::new();
    io.read_to_end(&mut left).await.unwrap();
    assert!((1..=1000).contains(&left.len()), "{}", left.len());
    assert_eq!(held, "");
}

#[tokio::test(start_paused = true)]
async fn a_refused_client_has_a_second_to_stop_sending() {
    let (mut client, mut guarded) = guarded();
    client.write_all(b"\0").await.unwrap();
    assert_eq!(read(&mut guarded, 100).await.unwrap().unwrap(), REFUSED);
    let begin = tokio::time::Instant::now();
    guarded.shutdown().await.unwrap();
    assert_eq!(begin.elapsed().as_secs(), LINGER.as_secs());
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "the client was told of the end before");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_client_that_is_done() {
    for text in [GET, b"\0"] {
        let (mut client, mut guarded) = guarded();
        client.write_all(text).await.unwrap();
        read(&mut guarded, 100).await.unwrap().unwrap();
        if text != GET {
            drop(client);
        }
        let begin = tokio::time::Instant::now();
        guarded.shutdown().await.unwrap();
        assert!(begin.elapsed().is_zero());
    }
}

#[tokio::test]
async fn t15_a_bad_body_is_an_error_behind_what_was_good() {
    let (mut client, mut guarded) = guarded();
    let head = b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write_all(&[&head[..], b"3\r\nabcX\r\n0\r\n\r\n", GET].concat()).await.unwrap();
    assert_eq!(read(&mut guarded, 8192).await.unwrap().unwrap(), [&head[..], b"3\r\nabc"].concat());
    for _ in 0..2 {
        let error = read(&mut guarded, 8192).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.get_ref().unwrap().is::<BadBody>());
    }
    assert_eq!(guarded.refused().take(), None);
}

#[tokio::test]
async fn an_end_is_passed_on_wherever_it_comes() {
    for text in [&b""[..], b"GET /c HT", GET, &POST[..POST.len()]] {
        let (mut client, mut guarded) = guarded();
        client.write_all(text).await.unwrap();
        drop(client);
        let mut got = Vec::new();
        guarded.read_to_end(&mut got).await.unwrap();
        assert!(got.is_empty() || got == text);
    }
}

#[tokio::test]
async fn t01_names_that_a_front_proxy_may_send_change_on_connections_that_are_open() {
    let (mut client, server) = duplex(1 << 20);
    let shared = SharedGuard::from(GuardConfig::default());
    let mut guarded = Guarded::new(server, shared.clone());
    let request = b"GET /c HTTP/1.1\r\nHost: h\r\nX-Remote-User: alice\r\n\r\n";
    shared.set_forwarded(vec!["x-remote-user".to_owned()], Vec::new());
    client.write_all(request).await.unwrap();
    assert_eq!(read(&mut guarded, 8192).await.unwrap().unwrap(), request);
    shared.set_forwarded(vec!["x-corp-user".to_owned()], Vec::new());
    client.write_all(request).await.unwrap();
    assert_eq!(read(&mut guarded, 8192).await.unwrap().unwrap(), REFUSED);
    let reason = guarded.refused().take();
    assert_eq!(reason, Some(BadHead::ReservedHeader("a name beginning with X-Remote-")));
}
