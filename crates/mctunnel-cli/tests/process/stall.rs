//! A reader that never reads and a destination that never reads cost a bounded amount of memory, and nothing once they are gone.

use crate::{
    raw_h2::connect,
    rig::{Rig, Target, echo, exchange, text, until},
};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};
use tokio_rustls::client::TlsStream;

const STALLED: u64 = 64;

/// How long the thousand stop reading: a moment as a rule, a minute by `make stalled`.
fn lasting() -> Duration {
    let told = std::env::var("STALL_SECONDS").ok();
    Duration::from_secs(told.map_or(5, |seconds| seconds.parse().expect("seconds")))
}

/// Sends without end.
async fn flood(mut socket: TcpStream) {
    let chunk = vec![1; 256 * 1024];
    while socket.write_all(&chunk).await.is_ok() {}
}

/// Accepts and never reads.
async fn deaf(socket: TcpStream) {
    std::future::pending::<()>().await;
    drop(socket);
}

async fn all_ended(rig: &Rig) -> Option<()> {
    (rig.metric("mctunnel_streams_open{cluster=\"c1\"}").await == Some(0.0)).then_some(())
}

#[tokio::test]
async fn t42_stalled_streams_cost_at_most_a_mebibyte_each_and_nothing_once_closed() {
    let rig = Rig::start().await;
    let (flooding, deaf, echoing) = (Target::start(flood).await, Target::start(deaf).await, Target::start(echo).await);
    let allow = [flooding.address.as_str(), &deaf.address, &echoing.address];
    let agent = rig.agent(&rig.add("c1").await, &allow).await;
    for _ in 0..200 {
        exchange(&rig.connect, "c1", &echoing.address, b"warm").await.expect("served");
    }
    until("the first streams to end", async || all_ended(&rig).await).await;
    let before = [rig.hub.resident(), agent.resident()];
    let open_before = [rig.hub.descriptors(), agent.descriptors()];
    let mut held = Vec::new();
    for _ in 0..STALLED {
        // Nobody reads what the target floods.
        held.push(rig.open("c1", &flooding.address).await.expect("open"));
        // The target does not read what we send: fill every buffer on the way.
        let socket = rig.open("c1", &deaf.address).await.expect("open");
        let chunk = vec![2; 256 * 1024];
        until("the way to be full", async || match socket.try_write(&chunk) {
            Ok(_) => None,
            Err(_) => Some(()),
        })
        .await;
        held.push(socket);
    }
    // Others do not notice, in either direction.
    for _ in 0..100 {
        exchange(&rig.connect, "c1", &echoing.address, &[7; 100_000]).await.expect("served beside the stalled");
    }
    let stalled = [rig.hub.resident(), agent.resident()];
    for (before, stalled) in before.iter().zip(stalled) {
        let each = stalled.saturating_sub(*before) / (2 * STALLED);
        assert!(each <= 1024, "{each} KiB for each stalled stream");
    }
    drop((held, flooding, deaf));
    until("streams, memory and descriptors to be as before", async || {
        all_ended(&rig).await?;
        let now = [rig.hub.resident(), agent.resident()];
        let open = [rig.hub.descriptors(), agent.descriptors()];
        let memory_is_back = now.iter().zip(before).all(|(now, before)| *now <= before + before / 2 + 8 * 1024);
        (memory_is_back && open.iter().zip(open_before).all(|(now, before)| *now <= before)).then_some(())
    })
    .await;
    let mut socket = rig.open("c1", &echoing.address).await.expect("open");
    socket.write_all(b"!").await.expect("written");
    assert_eq!(socket.read_u8().await.expect("still alive"), b'!');
}

/// Answers a request with a body without end.
pub(crate) async fn endless(mut socket: TcpStream) {
    // Its own kernel would hold megabytes of each, and here it is the kernel of all: out of memory it slows everybody down.
    socket2::SockRef::from(&socket).set_send_buffer_size(64 * 1024).expect("a smaller buffer");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && socket.read_buf(&mut head).await.is_ok_and(|read| read > 0) {}
    if socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n").await.is_ok() {
        flood(socket).await;
    }
}

/// A client that has been answered by the service `default/body`, and has read no more than that.
pub(crate) async fn answered(rig: &Rig, gateway: &str) -> TlsStream<TcpStream> {
    let path = "/c1/api/v1/namespaces/default/services/http:body:80/proxy-service/";
    let mut client = connect(rig, gateway, "http/1.1", "localhost", None).await;
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.write_all(head.as_bytes()).await.expect("sent");
    client.flush().await.expect("sent");
    let mut answer = [0; 12];
    client.read_exact(&mut answer).await.expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 200");
    client
}

#[tokio::test]
async fn t42_a_thousand_clients_that_stop_reading_an_endless_body_cost_300_mebibytes_at_most_and_nothing_once_gone() {
    const CLIENTS: u64 = 1000;
    let rig = Rig::start().await;
    let body = Target::start(endless).await;
    let (service, pin) = ("--allow-service=default/body", format!("--pin-service=default/body:80={}", body.address));
    let agent = rig.agent_with(&rig.add("c1").await, &[service, &pin]).await;
    let gateway = text(&rig.hub.ready, "gateway");
    drop(answered(&rig, &gateway).await);
    let gone = async || (rig.metric("mctunnel_streams_open{cluster=\"c1\"}").await == Some(0.0)).then_some(());
    until("the first to be gone", gone).await;
    let before = [rig.hub.resident(), agent.resident()];
    let mut stalled = Vec::new();
    for _ in 0..CLIENTS {
        stalled.push(answered(&rig, &gateway).await);
    }
    let mut most = [0, 0];
    let end = Instant::now() + lasting();
    while Instant::now() < end {
        for (most, now) in most.iter_mut().zip([rig.hub.resident(), agent.resident()]) {
            *most = now.max(*most);
        }
        // tidy: sleep because memory is looked at now and then
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("before {before:?} KiB, at most {most:?} KiB (hub, agent) with {CLIENTS} stalled clients");
    let [of_hub, of_agent] = [most[0] - before[0], most[1] - before[1]];
    assert!(of_hub <= 300 * 1024, "the hub has +{of_hub} KiB");
    assert!(of_agent <= 1024 * CLIENTS, "the agent, which has the target's side as well, has +{of_agent} KiB");
    drop(stalled);
    until("them to be gone", gone).await;
    // A tenth of what a process has that has just begun is a mebibyte or two, which the allocator keeps ready for each thread once it has
    // been busy; hence 8 MiB beside it, 8 KiB for each client that was there.
    until("the memory to be as before", async || {
        let now = [rig.hub.resident(), agent.resident()];
        now.iter().zip(before).all(|(now, before)| *now <= before + before / 10 + 8 * 1024).then_some(())
    })
    .await;
    println!("after: {:?} KiB", [rig.hub.resident(), agent.resident()]);
}
