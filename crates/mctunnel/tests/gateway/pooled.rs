//! Connections to targets that are kept for the next request: used again, given up when the target closes them, and no request that
//! may have arrived is sent twice.

use crate::rig::{CUT, Client, Rig, Target, get, ok};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_kept_connection_is_used_again() {
    let (rig, target) = (Rig::start().await, Target::named("A").await);
    let _agent = rig.agent("cluster-a", target.address).await;
    for _ in 0..20 {
        assert!(rig.once(&get("/cluster-a/x")).await.ends_with('A'));
    }
    assert_eq!(*target.connections.lock(), 1);
}

#[tokio::test]
async fn a_target_that_closes_without_a_word_loses_no_request() {
    let rig = Rig::start().await;
    let target = Target::start(|_| [&*ok("A"), CUT].concat()).await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let mut client = rig.client().await;
    for number in 0..100 {
        client.send(format!("GET /cluster-a/{number} HTTP/1.1\r\nHost: hub\r\n\r\n")).await;
        let (head, body) = client.answer().await;
        assert!(head.starts_with("http/1.1 200") && body == "A", "{number}: {head}{body}");
    }
    assert_eq!(target.seen.lock().len(), 100);
}

#[tokio::test]
async fn a_request_that_may_have_arrived_is_not_sent_again() {
    let rig = Rig::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _agent = rig.agent("cluster-a", listener.local_addr().unwrap()).await;
    for method in ["POST", "GET"] {
        let mut client = rig.client().await;
        client.send("GET /cluster-a/first HTTP/1.1\r\nHost: hub\r\n\r\n").await;
        let (socket, _) = listener.accept().await.unwrap();
        let mut target = Client::new(socket);
        target.until("\r\n\r\n").await;
        target.send(ok("A")).await;
        assert_eq!(client.answer().await.1, "A");
        // On the same connection, which the agent believes to be good.
        client.send(format!("{method} /cluster-a/once HTTP/1.1\r\nHost: hub\r\nContent-Length: 5\r\n\r\nhello")).await;
        target.until("\r\n\r\n").await;
        target.reset();
        let (head, body) = client.answer().await;
        assert!(head.starts_with("http/1.1 502") && body.contains("MCT-OPEN-TARGET-UNREACHABLE"), "{head}{body}");
    }
    // What comes next on a new connection is the next request.
    let mut next = rig.client().await;
    next.send("GET /cluster-a/next HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    let mut target = Client::new(listener.accept().await.unwrap().0);
    assert!(target.until("\r\n\r\n").await.starts_with("GET /next "), "a request was sent twice");
}
