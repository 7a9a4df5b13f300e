//! Which endpoint of a service a request goes to, and where it goes when that one does not answer.

use crate::rig::{Rig, Target, get};
use mctunnel::core::{Locate, LocateError, Located, Target as Wanted};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::timeout,
};

const WEB: &str = "/cluster-a/api/v1/namespaces/default/services/web/proxy-service/";

/// One endpoint in the agent's zone, one in another.
struct NearAndFar(SocketAddr, SocketAddr);

impl Locate for NearAndFar {
    async fn locate(&self, _: &Wanted) -> Result<Located, LocateError> {
        let (addresses, authority) = (vec![self.0, self.1], "web.default.svc:80".to_owned());
        Ok(Located { addresses, preferred: 1, authority, tls: None, pinned: true })
    }
}

async fn answers(near: SocketAddr, far: SocketAddr, times: usize) -> Vec<String> {
    let rig = Rig::start().await;
    let _agent = rig.agent_asking("cluster-a", Arc::new(NearAndFar(near, far))).await;
    let mut answers = Vec::new();
    for _ in 0..times {
        let answer = rig.once(&get(WEB)).await;
        answers.push(answer.rsplit("\r\n").next().unwrap_or_default().to_owned());
    }
    answers
}

#[tokio::test]
async fn requests_go_to_the_near_endpoint() {
    let (near, far) = (Target::named("near").await, Target::named("far").await);
    assert_eq!(answers(near.address, far.address, 6).await, ["near"; 6]);
}

#[tokio::test]
async fn requests_go_to_the_far_endpoint_when_the_near_one_refuses() {
    // Held but not listened on, so that nothing else can take it.
    let near = TcpSocket::new_v4().unwrap();
    near.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let far = Target::named("far").await;
    assert_eq!(answers(near.local_addr().unwrap(), far.address, 4).await, ["far"; 4]);
}

#[tokio::test]
async fn requests_go_to_the_far_endpoint_when_the_near_one_is_silent() {
    let (silent, _held) = silent().await;
    let far = Target::named("far").await;
    assert_eq!(answers(silent.local_addr().unwrap(), far.address, 4).await, ["far"; 4]);
}

/// A listener whose queue is full drops what comes after: the system's own way not to answer.
async fn silent() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let (address, mut held) = (listener.local_addr().unwrap(), Vec::new());
    while let Ok(Ok(stream)) = timeout(Duration::from_millis(100), TcpStream::connect(address)).await {
        held.push(stream);
    }
    (listener, held)
}
