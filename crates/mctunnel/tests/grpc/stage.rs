//! Client, hub with a gateway, agent and server, ready for calls.

use crate::{
    far::Far,
    near::Near,
    rig::{Rig, RunningAgent},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::task::AbortOnDropHandle;

/// Ends when dropped.
pub(crate) struct Stage {
    pub(crate) near: Near,
    pub(crate) far: Far,
    pub(crate) agent: RunningAgent,
    pub(crate) rig: Rig,
}

impl Stage {
    pub(crate) async fn set() -> Self {
        Self::with(Far::start().await).await
    }

    pub(crate) async fn with(far: Far) -> Self {
        let rig = Rig::start_tls().await;
        let agent = rig.agent("cluster-a", far.address).await;
        let near = Near::connect(&rig).await;
        Self { near, far, agent, rig }
    }

    /// With a wire between agent and hub; whoever drops it cuts it.
    pub(crate) async fn with_a_wire() -> (Self, AbortOnDropHandle<()>) {
        let (rig, far) = (Rig::start_tls().await, Far::start().await);
        let mut bundle = rig.bundle("cluster-a");
        let (listener, hub) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), bundle.hub);
        bundle.hub = listener.local_addr().unwrap().to_string();
        let wire = AbortOnDropHandle::new(tokio::task::spawn(async move {
            let mut pairs = JoinSet::new();
            while let Ok((mut agent, _)) = listener.accept().await {
                let mut hub = TcpStream::connect(&hub).await.unwrap();
                pairs.spawn(async move {
                    let _ = copy_bidirectional(&mut agent, &mut hub).await;
                });
            }
        }));
        let agent = rig.run(&bundle, far.address).await;
        let near = Near::connect(&rig).await;
        (Self { near, far, agent, rig }, wire)
    }
}
