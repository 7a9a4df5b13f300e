//! Nothing is lost, cut short or sent too early.

use crate::rig::{PATIENCE, Rig, Target, connect, echo};
use std::io;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    task::JoinSet,
    time::timeout,
};

/// Counts what it got until the end, and only then answers: the half-close must arrive, and the way back must still be open.
async fn count_then_answer(mut socket: TcpStream) {
    let mut all = Vec::new();
    if socket.read_to_end(&mut all).await.is_ok() {
        let _ = socket.write_all(format!("{} {}", all.len(), sum(&all)).as_bytes()).await;
    }
}

const GREETING: &str = "220 ready\r\n";

/// Speaks first, as SSH and SMTP servers do, and then tells what it reads and how that ended. A mute one ends its own
/// direction before.
async fn greet_then_tell(mut socket: TcpStream, mute: bool, tell: mpsc::Sender<io::Result<Vec<u8>>>) {
    let _ = socket.write_all(GREETING.as_bytes()).await;
    if mute {
        let _ = socket.shutdown().await;
    }
    let mut all = Vec::new();
    let ended = socket.read_to_end(&mut all).await;
    // Whoever is gone by then is no reason for anything to break.
    let _ = socket.write_all(b"250 taken\r\n").await;
    let _ = tell.send(ended.map(|_| all)).await;
}

/// A target that greets, and what it hears on each connection.
async fn greeting(mute: bool) -> (Target, mpsc::Receiver<io::Result<Vec<u8>>>) {
    let (tell, heard) = mpsc::channel(1);
    (Target::start(move |socket| greet_then_tell(socket, mute, tell.clone())).await, heard)
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, b| sum.wrapping_mul(31).wrapping_add(u64::from(*b)))
}

fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[0]
        })
        .collect()
}

#[tokio::test]
async fn uploads_of_four_mebibytes_then_close_are_never_cut_short() {
    let rig = Rig::start().await;
    let target = Target::start(count_then_answer).await;
    let _agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
    let upload = content(1, 4 << 20);
    let expected = format!("{} {}", upload.len(), sum(&upload));
    let mut cut_short = 0;
    for _ in 0..200 {
        let mut socket = rig.open("c1", &target.address).await.expect("open");
        socket.write_all(&upload).await.expect("written");
        socket.shutdown().await.expect("half-closed");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.expect("answered after the half-close");
        cut_short += u32::from(answer != expected);
    }
    assert_eq!(cut_short, 0, "of 200");
}

#[tokio::test]
async fn uploads_of_four_mebibytes_whose_client_closes_at_once_arrive_whole() {
    let rig = Rig::start().await;
    let (target, mut heard) = greeting(false).await;
    let _agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
    let upload = content(2, 4 << 20);
    let (mut cut_short, mut unclean) = (0, 0);
    for _ in 0..200 {
        let mut socket = rig.open("c1", &target.address).await.expect("open");
        // What the target says is read first: a system that closes with something unread sends a reset instead of the rest.
        let mut greeting = [0; GREETING.len()];
        socket.read_exact(&mut greeting).await.expect("greeted");
        socket.write_all(&upload).await.expect("written");
        drop(socket);
        match timeout(PATIENCE, heard.recv()).await.expect("the target sees the end").expect("it runs") {
            Ok(got) => cut_short += u32::from(got != upload),
            Err(_) => unclean += 1,
        }
    }
    assert_eq!((cut_short, unclean), (0, 0), "of 200");
}

#[tokio::test]
async fn a_server_that_speaks_first_is_heard_after_the_200_and_half_close_works_from_its_side() {
    const TEXT: &[u8] = b"the other direction is still open";
    let rig = Rig::start().await;
    let (target, mut heard) = greeting(true).await;
    let _agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
    for round in 0..200 {
        // `connect` reads byte by byte to the end of the head: a byte of the target before the 200 would break it.
        let mut socket = rig.open("c1", &target.address).await.expect("open");
        let mut greeting = String::new();
        socket.read_to_string(&mut greeting).await.expect("the server's clean end");
        assert_eq!(greeting, GREETING);
        socket.write_all(TEXT).await.expect("written");
        socket.shutdown().await.expect("closed");
        let got = timeout(PATIENCE, heard.recv()).await.expect("the target sees the end").expect("it runs");
        assert_eq!(got.expect("a clean end"), TEXT, "round {round}");
    }
}

#[tokio::test]
async fn sixty_four_streams_of_any_size_arrive_equal_both_ways() {
    let rig = Rig::start().await;
    let target = Target::start(echo).await;
    let _agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
    let mut streams = JoinSet::new();
    for seed in 0..64_u64 {
        let (proxy, target) = (rig.connect.clone(), target.address.clone());
        streams.spawn(async move {
            let size = usize::try_from(seed * seed * 701 % 3_000_000).expect("small");
            let sent = content(seed, size);
            let socket = connect(&proxy, "c1", &target).await.expect("open");
            let (mut read, mut write) = socket.into_split();
            let mut back = Vec::new();
            let (written, got) = tokio::join!(
                async {
                    write.write_all(&sent).await?;
                    write.shutdown().await
                },
                read.read_to_end(&mut back)
            );
            written.expect("written");
            got.expect("read to a clean end");
            assert!(back == sent, "stream {seed}: {} of {} bytes", back.len(), sent.len());
        });
    }
    while let Some(result) = streams.join_next().await {
        result.expect("every stream is exact");
    }
}

#[tokio::test]
async fn refusals_carry_the_reason_in_the_status_line() {
    let rig = Rig::start().await;
    let target = Target::start(echo).await;
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        listener.local_addr().expect("an address").to_string()
    };
    rig.add("away").await;
    let _agent = rig.agent(&rig.add("c1").await, &[&target.address, &closed]).await;
    for (cluster, target, status, reason) in [
        ("nowhere", target.address.as_str(), "404", "MCT-OPEN-UNKNOWN-CLUSTER"),
        ("c1", "127.0.0.1:1", "403", "MCT-OPEN-NOT-ALLOWED"),
        ("c1", "10.0.0.1:443", "403", "MCT-OPEN-NOT-ALLOWED"),
        ("c1", closed.as_str(), "502", "MCT-OPEN-TARGET-REFUSED"),
        ("away", target.address.as_str(), "503", "MCT-OPEN-NO-TUNNEL"),
    ] {
        let line = rig.open(cluster, target).await.expect_err("refused");
        assert!(
            line.starts_with(&format!("HTTP/1.1 {status} ")) && line.contains(reason),
            "{cluster} {target}: {line}"
        );
    }
}

const REFUSAL: &[u8] = b"413 too large\r\n";

/// Answers before it has read all, and closes: the system makes that a reset, as with an HTTP server that refuses an upload.
async fn refuse_unread(mut socket: TcpStream) {
    let _ = socket.read_u8().await;
    let _ = socket.write_all(REFUSAL).await;
}

#[tokio::test]
async fn what_a_target_said_before_it_reset_the_connection_arrives_and_the_end_is_not_clean() {
    let rig = Rig::start().await;
    let target = Target::start(refuse_unread).await;
    let _agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
    let (mut unheard, mut clean) = (0, 0);
    for round in 0..200_usize {
        let mut socket = rig.open("c1", &target.address).await.expect("open");
        // A few bytes that nobody reads, or more than the target ever takes.
        let upload = vec![7; if round.is_multiple_of(2) { 10 } else { 1 << 20 }];
        let written = socket.write_all(&upload).await;
        let mut heard = Vec::new();
        let ended = socket.read_to_end(&mut heard).await;
        unheard += u32::from(heard != REFUSAL);
        // Whoever was told by a write is not told again by a read.
        clean += u32::from(written.is_ok() && ended.is_ok());
    }
    assert_eq!((unheard, clean), (0, 0), "of 200");
}
