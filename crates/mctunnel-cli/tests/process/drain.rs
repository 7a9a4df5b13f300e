//! Stopping on purpose loses nobody.

use crate::rig::{Rig, Target, echo, exchange_with, start_hub, text};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};

/// Short exchanges from eight clients until told to stop.
pub(crate) struct Load {
    done: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    clients: JoinSet<Vec<String>>,
}

impl Load {
    fn start(proxy: &str, target: &str) -> Self {
        Self::start_with(proxy, target, "")
    }

    /// With these lines in the head of each CONNECT.
    pub(crate) fn start_with(proxy: &str, target: &str, lines: &str) -> Self {
        let done = Arc::new(AtomicUsize::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for _ in 0..8 {
            let (done, stop) = (Arc::clone(&done), Arc::clone(&stop));
            let (proxy, target, lines) = (proxy.to_owned(), target.to_owned(), lines.to_owned());
            clients.spawn(async move {
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Err(error) = exchange_with(&proxy, "c1", &target, b"a short exchange", &lines).await {
                        failed.push(error);
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
                failed
            });
        }
        Self { done, stop, clients }
    }

    pub(crate) async fn reach(&self, count: usize) {
        crate::rig::until("the load to go on", async || (self.done.load(Ordering::Relaxed) >= count).then_some(()))
            .await;
    }

    pub(crate) async fn finish(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.clients.join_all().await.concat();
        (self.done.load(Ordering::Relaxed), failed)
    }
}

#[tokio::test]
async fn t47_rolling_the_agent_fails_none_of_ten_thousand_exchanges() {
    let rig = Rig::start().await;
    let target = Target::start(echo).await;
    let join = rig.add("c1").await;
    let mut agent = rig.agent(&join, &[&target.address]).await;
    let load = Load::start(&rig.connect, &target.address);
    for round in 1..=2 {
        load.reach(round * 3_500).await;
        let next = rig.agent(&join, &[&target.address]).await;
        agent.signal("TERM").await;
        assert!(agent.wait().await.success(), "a drained agent ends with success");
        agent = next;
    }
    load.reach(10_500).await;
    let (done, failed) = load.finish().await;
    assert!(failed.is_empty(), "{} of {done} failed: {:?}", failed.len(), failed.first());
}

#[tokio::test]
async fn t47_handing_over_to_a_second_hub_fails_none_of_ten_thousand_exchanges() {
    // Both hubs listen on the same ports; the second waits for the agent to move instead of failing.
    let flags = ["--reuse-port", "--tunnel-wait", "10s"];
    let mut rig = Rig::start_with("127.0.0.1:0", "127.0.0.1:0", &flags).await;
    let target = Target::start(echo).await;
    let _agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
    let load = Load::start(&rig.connect, &target.address);
    for round in 1..=2 {
        load.reach(round * 3_500).await;
        let ready = format!("hub-{round}.ready");
        let next = start_hub(rig.dir.path(), &ready, &rig.tunnel, &rig.connect, &flags).await;
        rig.admin = text(&next.ready, "admin");
        rig.hub.signal("TERM").await;
        assert!(rig.hub.wait().await.success(), "a drained hub ends with success");
        rig.hub = next;
    }
    load.reach(10_500).await;
    let (done, failed) = load.finish().await;
    assert!(failed.is_empty(), "{} of {done} failed: {:?}", failed.len(), failed.first());
}

#[tokio::test]
async fn the_first_sigterm_waits_for_a_stream_and_the_second_does_not() {
    for second in [false, true] {
        let mut rig = Rig::start().await;
        let target = Target::start(echo).await;
        let mut agent = rig.agent(&rig.add("c1").await, &[&target.address]).await;
        let mut socket = rig.open("c1", &target.address).await.expect("open");
        rig.hub.signal("TERM").await;
        agent.signal("TERM").await;
        for i in 0..50_u8 {
            socket.write_u8(i).await.expect("still open");
            assert_eq!(socket.read_u8().await.expect("still served"), i);
        }
        if second {
            rig.hub.signal("TERM").await;
            assert!(socket.read_u8().await.is_err(), "cut");
        } else {
            socket.shutdown().await.expect("our end");
            assert!(socket.read_u8().await.is_err(), "its end");
            drop(socket);
            assert!(agent.wait().await.success());
        }
        let status = rig.hub.wait().await;
        assert_eq!(status.success(), !second, "{status}");
    }
}
