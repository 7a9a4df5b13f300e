//! WebSocket over HTTP/2 (RFC 8441), to a target that knows it over HTTP/1.1 only: the same bytes, and the same ends.

use crate::{
    held::Names,
    rig::{Rig, RunningAgent, Target},
    upgrades::{POD, only_get_pods},
};
use bytes::Bytes;
use h2::{RecvStream, SendStream, client::SendRequest};
use http::{Method, Request, Response, StatusCode, Version};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

/// A client that sees what HTTP/2 has, and the task of its connection.
pub(crate) async fn h2_client(rig: &Rig) -> (SendRequest<Bytes>, AbortOnDropHandle<Result<(), h2::Error>>) {
    let socket = TcpStream::connect(rig.gateway).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let stream = rig.trusting_client().connect(name, socket).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    (client, AbortOnDropHandle::new(tokio::task::spawn(connection)))
}

/// A gateway, an agent, and a client with one connection.
struct Stage {
    client: SendRequest<Bytes>,
    target: TcpListener,
    agent: RunningAgent,
    _connection: AbortOnDropHandle<Result<(), h2::Error>>,
    _rig: Rig,
}

impl Stage {
    async fn set() -> Self {
        let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let rig = Rig::start_tls().await;
        let agent = rig.agent("cluster-a", target.local_addr().unwrap()).await;
        let (client, _connection) = h2_client(&rig).await;
        // The gateway says in its settings that it knows extended CONNECT.
        while !client.is_extended_connect_protocol_enabled() {
            tokio::task::yield_now().await;
        }
        Self { client, target, agent, _connection, _rig: rig }
    }

    fn ask(&mut self, protocol: &str) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
        let mut request = Request::new(());
        *request.method_mut() = Method::CONNECT;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = "https://localhost/cluster-a/exec?command=ls".parse().unwrap();
        request.headers_mut().insert("sec-websocket-version", "13".parse().unwrap());
        request.headers_mut().insert("sec-websocket-protocol", "v5.channel.k8s.io".parse().unwrap());
        request.extensions_mut().insert(h2::ext::Protocol::from(protocol));
        self.client.send_request(request, false).unwrap()
    }

    /// The target's side of the next request, and the request's head.
    async fn accept(&self) -> (TcpStream, String) {
        let (mut socket, _) = timeout(LIMIT, self.target.accept()).await.expect("a request").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            assert!(socket.read_buf(&mut head).await.unwrap() > 0, "the head ended early");
        }
        (socket, String::from_utf8(head).unwrap())
    }

    /// Has the target answer with this head, and what else is written right behind it.
    async fn answered(&mut self, answer: &str) -> (Response<RecvStream>, SendStream<Bytes>, TcpStream) {
        let (response, send) = self.ask("websocket");
        let (mut socket, _) = self.accept().await;
        socket.write_all(answer.as_bytes()).await.unwrap();
        (timeout(LIMIT, response).await.expect("an answer").unwrap(), send, socket)
    }
}

const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n";

/// Exactly so many bytes.
async fn receive(body: &mut RecvStream, count: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < count {
        let data = timeout(LIMIT, body.data()).await.expect("bytes").expect("more bytes").unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        bytes.extend_from_slice(&data);
    }
    assert_eq!(bytes.len(), count);
    bytes
}

/// How the client's side ends: well, or with an error.
async fn end(body: &mut RecvStream) -> Result<(), h2::Error> {
    while let Some(data) = timeout(LIMIT, body.data()).await.expect("an end").transpose()? {
        assert!(data.is_empty(), "more bytes: {data:?}");
    }
    Ok(())
}

#[tokio::test]
async fn bytes_pass_both_ways_and_each_side_ends_alone() {
    let mut stage = Stage::set().await;
    let (response, mut send) = stage.ask("websocket");
    let (mut target, head) = stage.accept().await;
    assert!(head.starts_with("GET /exec?command=ls HTTP/1.1\r\n"), "{head}");
    for line in [
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-protocol: v5.channel.k8s.io",
    ] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line} in {head}");
    }
    let key = head.split("sec-websocket-key: ").nth(1).and_then(|rest| rest.lines().next()).expect("a key");
    assert!(key.len() == 24 && key.ends_with("=="), "{key}");

    target.write_all(format!("{SWITCHING}early").as_bytes()).await.unwrap();
    let response = timeout(LIMIT, response).await.expect("an answer").unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
    for name in ["connection", "upgrade", "sec-websocket-accept", "content-length"] {
        assert!(!response.headers().contains_key(name), "{name} means nothing over HTTP/2");
    }
    let mut body = response.into_body();
    assert_eq!(receive(&mut body, 5).await, b"early");

    // Both ways at once, more than any window holds.
    let sent: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).step_by(3).collect();
    send.send_data(Bytes::from(sent.clone()), false).unwrap();
    let (mut read, mut write) = target.split();
    let mut received = vec![0; sent.len()];
    let (wrote, read, back) =
        tokio::join!(write.write_all(&sent), read.read_exact(&mut received), receive(&mut body, sent.len()));
    wrote.unwrap();
    read.unwrap();
    assert!(received == sent && back == sent);

    // The client has said all; the target has not.
    send.send_data(Bytes::from_static(b"bye"), true).unwrap();
    let mut rest = Vec::new();
    timeout(LIMIT, target.read_to_end(&mut rest)).await.expect("an end").unwrap();
    assert_eq!(rest, b"bye");
    target.write_all(b"last words").await.unwrap();
    drop(target);
    assert_eq!(receive(&mut body, 10).await, b"last words");
    end(&mut body).await.unwrap();
}

#[tokio::test]
async fn the_targets_refusal_is_the_answer_and_the_connection_goes_on() {
    let mut stage = Stage::set().await;
    for status in [302, 400, 403, 503] {
        let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope");
        let (response, _send, _target) = stage.answered(&answer).await;
        assert_eq!(response.status(), status);
        let mut body = response.into_body();
        assert_eq!(receive(&mut body, 4).await, b"nope");
        end(&mut body).await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_is_not_an_upgrade_is_not_taken_for_one() {
    let mut stage = Stage::set().await;
    for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "HTTP/1.1 204 No Content\r\n\r\n"] {
        let (response, _send, _target) = stage.answered(answer).await;
        assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    }
}

#[tokio::test]
async fn only_websocket_is_spoken_so() {
    let mut stage = Stage::set().await;
    for protocol in ["connect-udp", "spdy", "WebSocket", "h2c"] {
        let (response, _send) = stage.ask(protocol);
        let response = timeout(LIMIT, response).await.expect("an answer").unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{protocol}");
    }
}

#[tokio::test]
async fn t10_a_websocket_into_a_pod_is_not_reading_it() {
    let rig =
        Rig::start_tls_with(|adapter| adapter.authenticate(Arc::new(Names)).authorize(Arc::new(only_get_pods()))).await;
    let target = Target::named("pod").await;
    let _agent = rig.speaking_agent("cluster-a", target.address).await;
    let (mut client, _connection) = h2_client(&rig).await;
    while !client.is_extended_connect_protocol_enabled() {
        tokio::task::yield_now().await;
    }
    let mut ask = async |path: &str, protocol: Option<h2::ext::Protocol>| {
        let mut request = Request::get(format!("https://localhost{path}")).header("authorization", "Bearer alice");
        if let Some(protocol) = protocol {
            request = request.method(Method::CONNECT).header("sec-websocket-version", "13").extension(protocol);
        }
        let request = request.version(Version::HTTP_2).body(()).unwrap();
        timeout(LIMIT, client.send_request(request, true).unwrap().0).await.expect("an answer").unwrap().status()
    };
    assert_eq!(ask(POD, None).await, StatusCode::OK, "alice may read it");
    for way in ["exec?command=sh&stdin=true", "attach", "portforward?ports=80"] {
        let path = format!("{POD}/{way}");
        for protocol in [None, Some(h2::ext::Protocol::from("websocket"))] {
            assert_eq!(ask(&path, protocol.clone()).await, StatusCode::FORBIDDEN, "{way} {protocol:?}");
        }
    }
    let console = format!("{POD}/console");
    assert_eq!(ask(&console, Some(h2::ext::Protocol::from("websocket"))).await, StatusCode::FORBIDDEN);
    assert_eq!(target.seen.lock().len(), 1, "one of them reached the target");
    assert_eq!(ask(&console, None).await, StatusCode::OK, "without an upgrade it is read like any other");
}

#[tokio::test]
async fn an_agent_that_is_lost_is_a_reset() {
    let mut stage = Stage::set().await;
    let (response, _send, _target) = stage.answered(&format!("{SWITCHING}early")).await;
    let mut body = response.into_body();
    assert_eq!(receive(&mut body, 5).await, b"early");
    stage.agent.kill();
    let error = end(&mut body).await.expect_err("the client took it for a clean end");
    assert!(error.is_reset() && error.is_remote(), "{error}");
}

#[tokio::test]
async fn a_client_that_resets_is_a_reset_at_the_target() {
    let mut stage = Stage::set().await;
    // What tells of a reset and what reads like an end come to different tasks, in any order.
    for reason in [h2::Reason::CANCEL, h2::Reason::NO_ERROR, h2::Reason::INTERNAL_ERROR].repeat(10) {
        let (response, mut send, mut target) = stage.answered(SWITCHING).await;
        assert_eq!(response.status(), StatusCode::OK);
        send.send_data(Bytes::from_static(b"half"), false).unwrap();
        let mut half = [0; 4];
        target.read_exact(&mut half).await.unwrap();
        send.send_reset(reason);
        let ended = timeout(LIMIT, target.read_u8()).await.expect("an end").unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::ConnectionReset, "{reason:?}");
    }
}
