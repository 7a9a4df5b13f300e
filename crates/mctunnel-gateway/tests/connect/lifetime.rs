//! How a gateway stops: what is queued is served, what is open goes on, what is left is cut.

use crate::rig::{ESTABLISHED, PATIENCE, REQUEST, Rig, read_some};
use mctunnel_core::{Happening, OpenError, OpenRequest};
use mctunnel_gateway::ConnectConfig;
use parking_lot::Mutex;
use std::future::{Ready, ready};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// An opener that accepts everything and keeps the far ends open.
fn accepting() -> impl Fn(OpenRequest) -> Ready<Result<DuplexStream, OpenError>> + Send + Sync + 'static {
    let far_ends = Mutex::new(Vec::new());
    move |_| {
        let (near, far) = duplex(1024);
        far_ends.lock().push(far);
        ready(Ok(near))
    }
}

#[tokio::test]
async fn clients_in_the_queue_are_served_before_the_listener_closes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let mut rig = Rig::idle(ConnectConfig::default(), accepting(), listener.local_addr().expect("bound"));
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = rig.connect().await;
        client.write_all(REQUEST).await.expect("sent");
        clients.push(client);
    }
    // Stopped before it began: all it may do is serve the queue.
    rig.stop.cancel();
    rig.serve(listener);
    timeout(PATIENCE, rig.serving.join_next()).await.expect("serve returns");
    assert!(TcpStream::connect(rig.address).await.is_err(), "the listener is closed");
    for client in &mut clients {
        assert_eq!(read_some(client, ESTABLISHED.len()).await, ESTABLISHED);
    }
    assert_eq!(rig.gateway.connections(), 100);
}

#[tokio::test]
async fn open_connections_outlive_the_listener_until_they_end() {
    let mut rig = Rig::start(ConnectConfig::default(), accepting()).await;
    let mut client = rig.connect().await;
    client.write_all(REQUEST).await.expect("sent");
    read_some(&mut client, ESTABLISHED.len()).await;
    rig.stop.cancel();
    timeout(PATIENCE, rig.serving.join_next()).await.expect("serve returns");
    let mut drained = std::pin::pin!(rig.gateway.drained());
    assert!(is_pending(drained.as_mut()).await, "a connection is left");
    client.set_zero_linger().expect("an option");
    drop(client);
    timeout(PATIENCE, drained).await.expect("drained");
    assert_eq!(rig.gateway.connections(), 0);
}

async fn is_pending(mut future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn what_is_left_can_be_cut_and_is_reported() {
    let rig = Rig::start(ConnectConfig::default(), accepting()).await;
    let mut client = rig.connect().await;
    client.write_all(REQUEST).await.expect("sent");
    read_some(&mut client, ESTABLISHED.len()).await;
    rig.gateway.cut();
    timeout(PATIENCE, rig.gateway.drained()).await.expect("drained");
    let end = timeout(PATIENCE, client.read_u8()).await.expect("an end");
    let end = end.expect_err("no byte after the cut");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset, "a cut is never a clean end");
    let happenings = rig.happenings.lock();
    assert!(
        matches!(happenings.as_slice(), [_, Happening::StreamEnded { error: Some(error), .. }] if error.contains("cut")),
        "{happenings:?}"
    );
}
