//! An agent whose answers are not as long as they say: what is not recorded does not reach the client, and no client takes the
//! beginning of an answer for all of it.

use crate::{
    rig::{Rig, RunningAgent},
    websocket_http2::h2_client,
};
use bytes::Bytes;
use h2::RecvStream;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use mctunnel::{Happening, Offered, Protocol, ProxyAdapter};
use mctunnel_http::{Answer, BodyKind, MessageHalves, ResponseHead, split};
use std::{sync::Arc, time::Duration};
use tokio::{sync::Semaphore, time::timeout};

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

/// Answers with a length and with bytes that it was not asked for.
struct Liar {
    length: &'static str,
    /// What is sent together with the head.
    first: &'static [u8],
    /// What is sent once the client has seen the beginning.
    then: &'static [u8],
    seen: Semaphore,
}

impl ProxyAdapter for Liar {
    fn protocol(&self) -> Protocol {
        Protocol::http()
    }

    async fn serve(self: Arc<Self>, offered: Offered) {
        let (stream, joined) = offered.join().expect("a stream");
        let MessageHalves { mut writer, mut reader } = split(stream);
        reader.request().await.unwrap();
        let mut fields = HeaderMap::new();
        fields.insert("content-length", HeaderValue::from_static(self.length));
        let head = Answer::Head(ResponseHead { status: StatusCode::OK, fields, body: BodyKind::Raw }).encode();
        writer.send(Bytes::from([&head[..], self.first].concat())).await.unwrap();
        let _seen = self.seen.acquire().await.unwrap();
        // It may be let go of at any time.
        let _ = writer.send(Bytes::from_static(self.then)).await;
        let _ = writer.finish().await;
        joined.ended(0, 0, None);
    }
}

/// What a client of HTTP/2 gets of it, how that ends, and how it was recorded.
async fn told(
    length: &'static str,
    first: &'static [u8],
    then: &'static [u8],
) -> (Vec<u8>, Result<(), h2::Error>, Option<String>) {
    let rig = Rig::start_tls().await;
    let liar = Arc::new(Liar { length, first, then, seen: Semaphore::new(0) });
    let adapter = Arc::clone(&liar);
    let _agent: RunningAgent = rig.run_with(&rig.bundle("cluster-a"), |agent| agent.adapter(adapter)).await;
    let (mut client, _connection) = h2_client(&rig).await;
    let request = Request::get("https://localhost/cluster-a/x").body(()).unwrap();
    let answer = client.send_request(request, true).unwrap().0;
    let mut body = timeout(LIMIT, answer).await.expect("an answer").unwrap().into_body();
    let mut got = Vec::new();
    let mut end = Ok(());
    if !first.is_empty() {
        end = more(&mut body, &mut got).await.map(drop);
    }
    liar.seen.add_permits(1);
    while end.is_ok() {
        match more(&mut body, &mut got).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => end = Err(error),
        }
    }
    (got, end, recorded(&rig).await)
}

async fn more(body: &mut RecvStream, got: &mut Vec<u8>) -> Result<bool, h2::Error> {
    let Some(data) = timeout(LIMIT, body.data()).await.expect("an end") else { return Ok(false) };
    got.extend_from_slice(&data?);
    Ok(true)
}

async fn recorded(rig: &Rig) -> Option<String> {
    let ended = async {
        loop {
            let ended = rig.happenings.lock().iter().find_map(|happening| {
                let Happening::StreamEnded { error, .. } = happening else { return None };
                Some(error.clone())
            });
            match ended {
                Some(error) => return error,
                None => tokio::task::yield_now().await,
            }
        }
    };
    timeout(LIMIT, ended).await.expect("a report")
}

#[tokio::test]
async fn what_comes_behind_the_end_of_an_answer_is_not_passed_on() {
    for (length, first) in [("1", &b"1"[..]), ("0", b"")] {
        let (got, end, recorded) = told(length, first, &[b'x'; 100_000]).await;
        assert_eq!(got, first);
        assert!(end.is_ok(), "{length}: the client saw what is behind it: {end:?}");
        assert_eq!(recorded, None, "{length}");
    }
}

#[tokio::test]
async fn an_answer_that_is_longer_than_it_says_is_an_error() {
    for (first, then) in [(&b"12"[..], &b""[..]), (b"", b"12")] {
        let (got, end, recorded) = told("1", first, then).await;
        assert!(got.len() <= 1, "{got:?}");
        assert!(end.is_err_and(|error| error.is_reset() && error.is_remote()), "the gateway resets");
        assert!(recorded.is_some_and(|error| error.contains("longer than it says")));
    }
}

#[tokio::test]
async fn an_answer_that_is_shorter_than_it_says_is_an_error() {
    for then in [&b""[..], b"78"] {
        let (got, end, recorded) = told("10", b"123456", then).await;
        assert!(got.len() < 10, "{got:?}");
        assert!(end.is_err_and(|error| error.is_reset() && error.is_remote()), "the gateway resets");
        assert!(recorded.is_some_and(|error| error.contains("the middle")));
    }
}
