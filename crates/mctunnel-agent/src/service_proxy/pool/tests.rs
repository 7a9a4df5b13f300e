//! Taking connections: how many are dialled at once, and what happens when an address does not answer.

use super::*;
use crate::service_proxy::load::DIALS_AT_ONCE;
use mctunnel_core::Roots;
use std::time::Duration;
use std::{future::Future as _, pin::pin, task::Context};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
};

/// A target that accepts connections and never answers: dials to it stay under way.
#[tokio::test]
async fn a_burst_dials_a_few_connections_at_once_and_the_rest_wait_their_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = Some(ExpectedPeer { name: "target".to_owned(), roots: Roots::Unchecked });
    let addresses = vec![listener.local_addr().unwrap()];
    let located = Arc::new(Located { addresses, preferred: 0, authority: "target".to_owned(), tls, pinned: true });
    let pool = Arc::new(Pool::new(ServiceProxyConfig::default()));
    let mut burst = JoinSet::new();
    for _ in 0..100 {
        let (pool, located) = (Arc::clone(&pool), Arc::clone(&located));
        burst.spawn(async move { pool.take(&located, Speak::Http1, false).await.is_ok() });
    }
    let mut under_way = Vec::new();
    for _ in 0..DIALS_AT_ONCE {
        under_way.push(listener.accept().await.unwrap());
    }
    // Everybody had a turn; nobody else is at the door.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(pin!(listener.accept()).as_mut().poll(&mut context).is_pending());
    // One that ends makes room for the next.
    under_way.pop();
    listener.accept().await.unwrap();
    assert_eq!(burst.join_next().await.unwrap().ok(), Some(false));
}

#[tokio::test]
async fn a_silent_address_keeps_nobody_from_the_next_and_is_avoided_from_then_on() {
    let (silent, _held) = silent().await;
    for speak in [Speak::Http1, Speak::Http2] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (first, second) = (silent.local_addr().unwrap(), listener.local_addr().unwrap());
        let (addresses, authority) = (vec![first, second], "target".to_owned());
        let located = Located { addresses, preferred: 1, authority, tls: None, pinned: true };
        // Longer than this test may take.
        let config = ServiceProxyConfig { dial_timeout: Duration::from_secs(600), ..ServiceProxyConfig::default() };
        let pool = Arc::new(Pool::new(config));
        assert_eq!(pool.loads.in_order(&located), [first, second]);
        let (taken, _peer) = tokio::join!(pool.take(&located, speak, false), greeted(&listener));
        assert_eq!(taken.map(|taken| taken.address()).map_err(|attempt| attempt.address), Ok(second), "{speak:?}");
        // The dial that was given up ends when its task is next looked at.
        while pool.loads.in_order(&located) != [second, first] {
            tokio::task::yield_now().await;
        }
    }
}

/// Accepts a connection and says what a server of HTTP/2 says first; one of HTTP/1.1 is not listened to here.
async fn greeted(listener: &TcpListener) -> TcpStream {
    let (mut socket, _) = listener.accept().await.unwrap();
    socket.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    socket
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
