//! What the agent reports of an exchange: the bytes of its bodies, both ways.

use crate::rig::{Rig, RunningAgent, Target, get, ok};
use mctunnel::core::Happening;
use tokio::{io::AsyncReadExt as _, io::AsyncWriteExt as _, net::TcpListener};

/// Bytes up and down of each exchange that has ended.
async fn ended(agent: &RunningAgent, count: usize) -> Vec<(u64, u64)> {
    loop {
        let happenings = agent.happenings.lock().clone();
        let ended = happenings.iter().filter_map(|happening| {
            let Happening::StreamEnded { bytes_up, bytes_down, .. } = happening else { return None };
            Some((*bytes_up, *bytes_down))
        });
        let ended: Vec<_> = ended.collect();
        if ended.len() >= count {
            return ended;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn bodies_are_counted_both_ways() {
    let rig = Rig::start().await;
    let target = Target::start(|_| ok("answer")).await;
    let agent = rig.agent("cluster-a", target.address).await;
    let post = "POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n";
    rig.once(&format!("{post}Content-Length: 12\r\n\r\nhello, world")).await;
    assert_eq!(ended(&agent, 1).await, [(12, 6)]);
    rig.once(&format!("{post}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")).await;
    assert_eq!(ended(&agent, 2).await[1], (7, 6));
    rig.once(&get("/cluster-a/x")).await;
    assert_eq!(ended(&agent, 3).await[2], (0, 6));
}

#[tokio::test]
async fn upgraded_bytes_are_counted_both_ways() {
    let rig = Rig::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let agent = rig.agent("cluster-a", listener.local_addr().unwrap()).await;
    let mut client = rig.client().await;
    client.send("GET /cluster-a/x HTTP/1.1\r\nHost: hub\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").await;
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.unwrap());
    }
    socket.write_all(b"HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").await.unwrap();
    client.until("\r\n\r\n").await;
    client.send("12345").await;
    let mut got = [0; 5];
    socket.read_exact(&mut got).await.unwrap();
    socket.write_all(b"abc").await.unwrap();
    client.until("abc").await;
    drop((client, socket));
    assert_eq!(ended(&agent, 1).await, [(5, 3)]);
}
