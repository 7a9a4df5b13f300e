//! Bodies that break off or break the rules, through hub and agent: the target sees a request that was cut, and never a whole one.

use crate::{
    held::Names,
    rig::{Client, Rig, get},
    websocket_http2::h2_client,
};
use bytes::Bytes;
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, time::timeout};

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

/// What comes behind a whole first chunk, and is refused where it stands.
const BROKEN: [&str; 20] = [
    "zz\r\nhello\r\n0\r\n\r\n",
    "\r\n0\r\n\r\n",
    "-5\r\nhello\r\n0\r\n\r\n",
    "+5\r\nhello\r\n0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    " 5\r\nhello\r\n0\r\n\r\n",
    "5 \r\nhello\r\n0\r\n\r\n",
    "5\nhello\n0\n\n",
    "5\r\nhelloX\r\n0\r\n\r\n",
    "5\r\nhello\n0\r\n\r\n",
    "5\r\nhell\r\n0\r\n\r\n",
    "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n",
    "5;\nhello\r\n0\r\n\r\n",
    "10000000000000005\r\nhello\r\n0\r\n\r\n",
    "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "0\n\r\n",
    "0\r\n\n",
    "0\r\nContent-Length: 5\r\n\r\n",
    "0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "0\r\nImpersonate-User: root\r\n\r\n",
];

/// Where a client goes away in the middle of a body that was as it must be so far.
const BROKEN_OFF: [&str; 6] = ["", "5", "5\r\nhel", "5\r\nhello\r\n", "0\r\n", "0\r\nX-Sum: 1\r\n"];

const SERVICE: &str = "/cluster-a/api/v1/namespaces/default/services/web/proxy-service";

/// A rig whose agent speaks for users, and its target, which answers nothing.
async fn stage(rig: &Rig) -> (TcpListener, crate::rig::RunningAgent) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let agent = rig.speaking_agent("cluster-a", listener.local_addr().unwrap()).await;
    (listener, agent)
}

/// The target's side of a request, of which it has read everything up to `end`.
async fn begun(listener: &TcpListener, end: &str) -> Client {
    let mut target = Client::new(timeout(LIMIT, listener.accept()).await.expect("a request").unwrap().0);
    let head = timeout(LIMIT, target.until(end)).await.expect("its beginning");
    assert!(head.starts_with("POST "), "{head}");
    target
}

/// What comes behind the first chunk at most, framed anew: a piece of the second.
const CHUNKED: usize = "\r\n5\r\nhello\r\n".len();
/// What is missing of a body of ten bytes, but for the last one.
const WITH_LENGTH: usize = "four".len();

/// The connection ends in front of the request's end.
async fn is_cut(mut target: Client, most: usize, what: &str) {
    let rest = timeout(LIMIT, target.rest_or_error()).await.expect("its end");
    assert!(!rest.contains('0') && rest.len() <= most, "{what:?}: the target was sent {rest:?}");
}

#[tokio::test]
async fn t15_a_broken_chunk_never_completes_a_request_at_the_target() {
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let (listener, _agent) = stage(&rig).await;
    let ends = BROKEN.iter().map(|rest| (*rest, false)).chain(BROKEN_OFF.iter().map(|rest| (*rest, true)));
    for (rest, leaves) in ends {
        for path in ["/cluster-a/x", SERVICE] {
            let mut client = rig.client().await;
            client
                .send(format!(
                    "POST {path} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer alice\r\n\
                     Transfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n"
                ))
                .await;
            let target = begun(&listener, "first").await;
            // Behind it a second request, which is nobody's now.
            let behind = if leaves { String::new() } else { get("/cluster-a/smuggled") };
            client.send(format!("{rest}{behind}")).await;
            if leaves {
                client.end().await;
            }
            // The next request that comes to the target is a `POST` again.
            is_cut(target, CHUNKED, rest).await;
            let answer = timeout(LIMIT, client.rest_or_error()).await.expect("the end of its connection");
            assert!(!answer.contains("HTTP/1.1 2"), "{rest:?}: {answer}");
        }
    }
    // The same with an end as it should be is whole.
    let mut client = rig.client().await;
    client
        .send(
            "POST /cluster-a/x HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer alice\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nfirst\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
        )
        .await;
    let mut target = begun(&listener, "first").await;
    timeout(LIMIT, target.until("0\r\n\r\n")).await.expect("its end");
}

#[tokio::test]
async fn t15_less_than_was_promised_never_completes_a_request_at_the_target() {
    let rig = Rig::start_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let (listener, _agent) = stage(&rig).await;
    for path in ["/cluster-a/x", SERVICE] {
        for reset in [false, true] {
            let mut client = rig.client().await;
            client
                .send(format!(
                    "POST {path} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer alice\r\nContent-Length: 10\r\n\r\nfirst"
                ))
                .await;
            let target = begun(&listener, "first").await;
            if reset {
                client.reset();
            } else {
                client.end().await;
            }
            is_cut(target, WITH_LENGTH, path).await;
        }
    }
}

#[tokio::test]
async fn t15_a_stream_of_http2_that_breaks_off_never_completes_a_request_at_the_target() {
    let rig = Rig::start_tls_with(|adapter| adapter.authenticate(Arc::new(Names))).await;
    let (listener, _agent) = stage(&rig).await;
    let (client, _connection) = h2_client(&rig).await;
    for (length, last) in [(None, None), (Some(10), None), (Some(10), Some("four")), (Some(10), Some("beyond"))] {
        let mut request = http::Request::post("https://localhost/cluster-a/x").header("authorization", "Bearer alice");
        if let Some(length) = length {
            request = request.header("content-length", length);
        }
        let mut client = client.clone().ready().await.unwrap();
        let (_answer, mut send) = client.send_request(request.body(()).unwrap(), false).unwrap();
        send.send_data(Bytes::from_static(b"first"), false).unwrap();
        let target = begun(&listener, "first").await;
        match last {
            None => send.send_reset(h2::Reason::CANCEL),
            Some(last) => send.send_data(Bytes::from_static(last.as_bytes()), true).unwrap(),
        }
        let most = if length.is_some() { WITH_LENGTH } else { CHUNKED };
        is_cut(target, most, last.unwrap_or("a reset")).await;
    }
}
