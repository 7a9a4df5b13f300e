//! Bodies of every kind, both ways at once, over HTTP/1.1 and HTTP/2, and trailers.

use crate::rig::{Rig, Target, ok};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{convert::Infallible, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn expect_100_continue_is_answered() {
    let target = Target::start(|request| ok(&request.len().to_string())).await;
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let mut client = rig.client().await;
    client.send("POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n").await;
    client.until("HTTP/1.1 100 Continue\r\n\r\n").await;
    client.send("hello").await;
    assert!(client.answer().await.0.starts_with("http/1.1 200"));
    assert!(target.seen.lock()[0].ends_with("hello"));
}

#[tokio::test]
async fn head_and_empty_answers_have_no_body() {
    let target = Target::start(|request| match request {
        r if r.starts_with("HEAD") => b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n".to_vec(),
        r if r.contains("/304") => b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n".to_vec(),
        _ => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
    })
    .await;
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let mut client = rig.client().await;
    client.send("HEAD /cluster-a/x HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    assert!(client.until("\r\n\r\n").await.to_ascii_lowercase().contains("content-length: 1234"));
    client.send("GET /cluster-a/304 HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    assert!(client.until("\r\n\r\n").await.starts_with("HTTP/1.1 304"));
    client.send("DELETE /cluster-a/x HTTP/1.1\r\nHost: hub\r\n\r\n").await;
    assert!(client.until("\r\n\r\n").await.starts_with("HTTP/1.1 204"));
    // The target's connection was kept for all three.
    assert_eq!((target.seen.lock().len(), *target.connections.lock()), (3, 1));
}

/// The next bytes, as many as are expected.
async fn receive(socket: &mut TcpStream, expected: &[u8]) {
    let mut received = vec![0; expected.len()];
    timeout(LIMIT, socket.read_exact(&mut received)).await.expect("bytes").unwrap();
    assert_eq!(received, expected);
}

#[tokio::test]
async fn compressed_bodies_pass_byte_for_byte_both_ways() {
    // Of a length that is known, and of one that is not; none of it is text.
    let packed: Vec<u8> = [0x1f, 0x8b, 0x08].into_iter().chain((0..=255).rev()).collect();
    let chunked = [format!("{:x}\r\n", packed.len()).as_bytes(), &packed, b"\r\n0\r\n\r\n"].concat();
    let rig = Rig::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _agent = rig.agent("cluster-a", listener.local_addr().unwrap()).await;
    for (framing, body) in
        [(format!("Content-Length: {}", packed.len()), &packed), ("Transfer-Encoding: chunked".to_owned(), &chunked)]
    {
        let mut client = TcpStream::connect(rig.gateway).await.unwrap();
        let head = format!("POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nContent-Encoding: gzip\r\n{framing}\r\n\r\n");
        client.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        let mut target = timeout(LIMIT, listener.accept()).await.expect("a request").unwrap().0;
        assert!(head_of(&mut target).await.contains("\r\ncontent-encoding: gzip\r\n"));
        receive(&mut target, body).await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n{framing}\r\n\r\n");
        target.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        assert!(head_of(&mut client).await.contains("\r\ncontent-encoding: gzip\r\n"));
        receive(&mut client, body).await;
    }
}

/// A head, and not a byte more.
pub(crate) async fn head_of(socket: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(timeout(LIMIT, socket.read_u8()).await.expect("a head").unwrap());
    }
    String::from_utf8(head).unwrap().to_ascii_lowercase()
}

#[tokio::test]
async fn trailers_pass_over_http1() {
    let target = Target::start(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n3\r\nabc\r\n0\r\nx-sum: 7\r\n\r\n"
            .to_vec()
    })
    .await;
    let rig = Rig::start().await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let mut client = rig.client().await;
    client.send("GET /cluster-a/x HTTP/1.1\r\nHost: hub\r\nTE: trailers\r\nConnection: TE\r\n\r\n").await;
    let answer = client.until("0\r\nx-sum: 7\r\n\r\n").await;
    assert!(answer.contains("abc"), "{answer}");
}

/// A server for HTTP/2 that sends each body back, with a trailer.
pub(crate) async fn echo_http2() -> (std::net::SocketAddr, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::task::spawn(async move {
        let mut clients = tokio::task::JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            clients.spawn(async move {
                let echo = service_fn(|request: Request<Incoming>| async move {
                    let path = request.uri().path().to_owned();
                    let mut response = Response::new(request.into_body().with_trailers(async {
                        let mut trailers = HeaderMap::new();
                        trailers.insert("grpc-status", HeaderValue::from_static("0"));
                        Some(Ok(trailers))
                    }));
                    response.headers_mut().insert("x-path", path.parse().unwrap());
                    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
                    Ok::<_, Infallible>(response)
                });
                let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = http2.serve_connection(TokioIo::new(socket), echo).await;
            });
        }
    });
    (address, AbortOnDropHandle::new(serving))
}

/// A gateway with TLS, for clients that want HTTP/2.
pub(crate) async fn http2_client<B>(rig: &Rig) -> (hyper::client::conn::http2::SendRequest<B>, AbortOnDropHandle<()>)
where
    B: hyper::body::Body<Data = Bytes, Error = Infallible> + Send + Unpin + 'static,
{
    let tls = rig.trusting_client();
    let socket = TcpStream::connect(rig.gateway).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let stream = tls.connect(name, socket).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let task = tokio::task::spawn(async move {
        let _ = connection.await;
    });
    (sender, AbortOnDropHandle::new(task))
}

#[tokio::test]
async fn http2_clients_have_many_requests_on_one_connection() {
    let rig = Rig::start_tls().await;
    let (a, b) = (Target::named("A").await, Target::named("B").await);
    let _agents = [rig.agent("cluster-a", a.address).await, rig.agent("cluster-b", b.address).await];
    let (sender, _connection) = http2_client::<Full<Bytes>>(&rig).await;
    let requests = (0..200).map(|n| {
        let mut sender = sender.clone();
        async move {
            let (cluster, name) = if n % 2 == 0 { ("cluster-a", "A") } else { ("cluster-b", "B") };
            let request = Request::get(format!("https://localhost/{cluster}/{n}")).body(Full::default()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(&body[..], name.as_bytes());
        }
    });
    futures_util::future::join_all(requests).await;
    assert_eq!((a.seen.lock().len(), b.seen.lock().len()), (100, 100));
}
