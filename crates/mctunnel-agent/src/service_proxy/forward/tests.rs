//! A kept connection whose target closes it while the next request is on its way: a request of which nothing was sent gets a new one.

use super::*;
use crate::{pinned::PinnedTargets, service_proxy::ServiceProxyConfig};
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream as Socket},
    sync::mpsc,
    thread,
};
use tokio::io::AsyncReadExt as _;

fn asking() -> Request<RequestBody> {
    Request::get("/x").header("host", "target").body(RequestBody::new(None)).unwrap()
}

/// Answers one request.
fn answer_one(socket: &mut Socket) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte).unwrap();
        head.extend_from_slice(&byte);
    }
    socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
}

#[tokio::test]
async fn a_request_that_meets_the_end_of_its_connection_gets_a_new_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // What is heard first: nobody looks at the connection between that and the request.
    let bells = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut bell = TcpStream::connect(bells.local_addr().unwrap()).await.unwrap();
    let mut rope = bells.accept().unwrap().0;
    let (close, closing) = mpsc::channel();
    let (tell, closed) = mpsc::channel();
    let target = thread::spawn(move || {
        let mut first = listener.accept().unwrap().0;
        answer_one(&mut first);
        closing.recv().unwrap();
        rope.write_all(b"!").unwrap();
        drop(first);
        tell.send(()).unwrap();
        let mut second = listener.accept().unwrap().0;
        answer_one(&mut second);
    });
    let authority = "target".to_owned();
    let located = Located { addresses: vec![address], preferred: 0, authority, tls: None, pinned: true };
    let proxy = ServiceProxy::new(Arc::new(PinnedTargets::new()), ServiceProxyConfig::default());
    let (_, taken) = send(&proxy, &located, Speak::Http1, asking()).await.unwrap();
    proxy.pool.give_back(taken).await;
    let again = async {
        bell.read_u8().await.unwrap();
        send(&proxy, &located, Speak::Http1, asking()).await
    };
    // Both have happened before this thread looks at either.
    let end = async {
        close.send(()).unwrap();
        closed.recv().unwrap();
    };
    let (again, ()) = tokio::join!(again, end);
    let (response, taken) = again.unwrap();
    assert_eq!((response.status(), taken.reused), (StatusCode::OK, false));
    target.join().unwrap();
}
