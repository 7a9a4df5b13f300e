//! Requests that are opened: when the 200 comes, and that no byte is lost around it.

use crate::rig::{ESTABLISHED, PATIENCE, REQUEST, Rig, read_all, read_some};
use mctunnel_core::{Happening, OpenError};
use mctunnel_gateway::ConnectConfig;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::{mpsc, oneshot},
    time::timeout,
};

/// A gateway whose opener accepts everything at once; the far ends come out of the channel.
async fn accepting(config: ConnectConfig) -> (Rig, mpsc::Receiver<DuplexStream>) {
    let (far_ends, targets) = mpsc::channel(16);
    let rig = Rig::start(config, move |_| {
        let (near, far) = duplex(64 * 1024);
        far_ends.try_send(far).expect("room");
        std::future::ready(Ok(near))
    })
    .await;
    (rig, targets)
}

#[tokio::test]
async fn the_200_comes_after_the_open_and_the_targets_first_bytes_right_behind_it() {
    let (answer, pending) = oneshot::channel::<Result<DuplexStream, OpenError>>();
    let pending = Mutex::new(Some(pending));
    let rig = Rig::start(ConnectConfig::default(), move |_| {
        let pending = pending.lock().take().expect("one request");
        async { pending.await.expect("an answer") }
    })
    .await;
    let mut client = rig.connect().await;
    client.write_all(REQUEST).await.expect("sent");
    while rig.requests.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    // However long nothing is said, not a byte comes (the clock jumps over the wait).
    tokio::time::pause();
    let early = timeout(std::time::Duration::from_secs(5), client.read_u8()).await;
    assert!(early.is_err(), "{early:?} came before the target answered");
    tokio::time::resume();
    let (near, mut far) = duplex(1024);
    far.write_all(b"220 ready\r\n").await.expect("room");
    answer.send(Ok(near)).expect("the gateway waits");
    assert_eq!(read_some(&mut client, ESTABLISHED.len() + 11).await, format!("{ESTABLISHED}220 ready\r\n"));
}

#[tokio::test]
async fn bytes_behind_the_head_come_first_and_in_order() {
    let (rig, mut targets) = accepting(ConnectConfig::default()).await;
    for size in [1, 900, 1024, 15_000, 16_384, 50_000] {
        let sent: String = (0..size).map(|n| char::from(b'a' + u8::try_from(n % 23).expect("small"))).collect();
        let mut client = rig.connect().await;
        let whole = [REQUEST, sent.as_bytes()].concat();
        client.write_all(&whole).await.expect("sent");
        let mut far = timeout(PATIENCE, targets.recv()).await.expect("opened").expect("opened");
        assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
        client.write_all(b"the end").await.expect("sent");
        client.shutdown().await.expect("ended");
        let mut arrived = String::new();
        timeout(PATIENCE, far.read_to_string(&mut arrived)).await.expect("an end").expect("text");
        assert!(arrived == sent + "the end", "{size} bytes arrived as {}", arrived.len());
        let first = rig.requests.lock().pop().expect("a request").first_bytes;
        assert!(!first.is_empty() && first.len() <= 16 * 1024, "{} first bytes", first.len());
    }
}

#[tokio::test]
async fn a_head_may_come_byte_by_byte() {
    let (rig, _targets) = accepting(ConnectConfig::default()).await;
    let mut client = rig.connect().await;
    client.set_nodelay(true).expect("an option");
    for byte in REQUEST {
        client.write_all(&[*byte]).await.expect("sent");
        tokio::task::yield_now().await;
    }
    assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
}

#[tokio::test]
async fn the_opener_gets_what_was_asked_for() {
    let mut config = ConnectConfig::default();
    config.wait_for_tunnel = std::time::Duration::from_secs(3);
    let (rig, _targets) = accepting(config.clone()).await;
    for head in [
        "CONNECT 127.0.0.1.cluster-a.mctunnel:7001 HTTP/1.1\r\nHost: x\r\n\r\n",
        "CONNECT 127.0.0.1:7001 HTTP/1.0\r\nX-Mctunnel-Cluster: cluster-a\r\n\r\n",
    ] {
        let mut client = rig.connect().await;
        client.write_all(head.as_bytes()).await.expect("sent");
        assert_eq!(read_some(&mut client, ESTABLISHED.len()).await, ESTABLISHED);
        let request = rig.requests.lock().pop().expect("a request");
        assert_eq!(request.destination.to_string(), "127.0.0.1:7001 in cluster-a");
        assert_eq!((request.timeout, request.wait_for_tunnel), (config.open_timeout, config.wait_for_tunnel));
        assert!(request.first_bytes.is_empty());
    }
}

#[tokio::test]
async fn a_client_that_ended_its_side_early_still_gets_its_answer() {
    let (rig, mut targets) = accepting(ConnectConfig::default()).await;
    let mut client = rig.connect().await;
    client.write_all(&[REQUEST, b"question"].concat()).await.expect("sent");
    client.shutdown().await.expect("ended");
    let mut far = timeout(PATIENCE, targets.recv()).await.expect("opened").expect("opened");
    let mut question = String::new();
    far.read_to_string(&mut question).await.expect("text");
    assert_eq!(question, "question");
    far.write_all(b"answer").await.expect("room");
    drop(far);
    assert_eq!(read_all(&mut client).await, format!("{ESTABLISHED}answer"));
    assert_eq!(ended(&rig).await, (8, 6, None));
}

/// Waits until the one stream is reported as ended.
async fn ended(rig: &Rig) -> (u64, u64, Option<String>) {
    timeout(PATIENCE, rig.gateway.drained()).await.expect("no connection left");
    let happenings = rig.happenings.lock();
    let [
        Happening::StreamOpened { cluster: opened, target, .. },
        Happening::StreamEnded { cluster, bytes_up, bytes_down, error, .. },
    ] = happenings.as_slice()
    else {
        panic!("opened and ended, not {happenings:?}");
    };
    assert_eq!((opened.as_str(), cluster.as_str(), target.as_str()), ("c1", "c1", "db:1"));
    (*bytes_up, *bytes_down, error.clone())
}

#[tokio::test]
async fn a_client_that_resets_takes_its_open_back() {
    /// Tells when it is dropped.
    struct Dropped(Arc<tokio::sync::Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let dropped = Arc::new(tokio::sync::Notify::new());
    let noticed = Arc::clone(&dropped);
    let rig = Rig::start(ConnectConfig::default(), move |_| {
        let guard = Dropped(Arc::clone(&noticed));
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    })
    .await;
    let mut client = rig.connect().await;
    client.write_all(REQUEST).await.expect("sent");
    while rig.requests.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    client.set_zero_linger().expect("an option");
    drop(client);
    // Well before the open would time out.
    timeout(std::time::Duration::from_secs(5), dropped.notified()).await.expect("the open was taken back");
    timeout(PATIENCE, rig.gateway.drained()).await.expect("no connection left");
    let happenings = rig.happenings.lock();
    let code = "MCT-CONNECT-CLIENT-GONE";
    assert!(
        matches!(happenings.as_slice(), [Happening::StreamRefused { code: seen, .. }] if *seen == code),
        "{happenings:?}"
    );
}
