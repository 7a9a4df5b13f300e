//! How often a request crosses the wire between hub and agent, shown by a wire that carries one direction at a time: what
//! needs one crossing more never arrives. No clock is involved.

use crate::rig::{Client, Rig, ok};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::{Duration, timeout},
};
use tokio_util::task::AbortOnDropHandle;

#[tokio::test]
async fn the_first_request_to_a_cluster_takes_one_round_trip() {
    let rig = Rig::start().await;
    let service = "/api/v1/namespaces/default/services/web/proxy-service/x";
    for (cluster, path) in [("api", "/version"), ("service", service)] {
        let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let wire = Wire::start(rig.hub_address).await;
        let mut bundle = rig.bundle(cluster);
        bundle.hub = wire.address.to_string();
        let _agent = rig.run(&bundle, target.local_addr().unwrap()).await;

        // There: nothing of the agent arrives any more, so the hub must send all of the request unasked.
        wire.from_agent.send_replace(Carried::Held);
        let mut client = rig.client().await;
        client.send(format!("GET /{cluster}{path} HTTP/1.1\r\nHost: hub\r\n\r\n")).await;
        let (socket, _) = timeout(PATIENCE, target.accept()).await.expect("the request, in one crossing").unwrap();
        let mut target = Client::new(socket);
        timeout(PATIENCE, target.until("\r\n\r\n")).await.expect("the whole head in one crossing");

        // And back: the hub has said its last.
        wire.from_hub.send_replace(Carried::Held);
        wire.from_agent.send_replace(Carried::Passed);
        target.send(ok("first")).await;
        let (_, body) = timeout(PATIENCE, client.answer()).await.expect("an answer in one crossing");
        assert_eq!(body, "first", "{cluster}");
    }
}

/// So long that only what never comes is not there.
const PATIENCE: Duration = Duration::from_secs(10);

// === Wire ===

/// Passes one connection from an agent on to the hub; each direction can be held.
struct Wire {
    address: SocketAddr,
    from_agent: watch::Sender<Carried>,
    from_hub: watch::Sender<Carried>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carried {
    Passed,
    Held,
}

impl Wire {
    async fn start(hub: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (from_agent, up) = watch::channel(Carried::Passed);
        let (from_hub, down) = watch::channel(Carried::Passed);
        let task = tokio::task::spawn(async move {
            let (agent, _) = listener.accept().await.unwrap();
            let hub = TcpStream::connect(hub).await.unwrap();
            let ((agent_read, agent_write), (hub_read, hub_write)) = (agent.into_split(), hub.into_split());
            tokio::join!(pass(agent_read, hub_write, up), pass(hub_read, agent_write, down));
        });
        Self { address, from_agent, from_hub, _task: AbortOnDropHandle::new(task) }
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut carried: watch::Receiver<Carried>) {
    let mut bytes = Vec::with_capacity(64 * 1024);
    while let Ok(1..) = from.read_buf(&mut bytes).await {
        let passed = carried.wait_for(|carried| *carried == Carried::Passed).await.is_ok();
        if !passed || to.write_all(&bytes).await.is_err() {
            return;
        }
        bytes.clear();
    }
}
