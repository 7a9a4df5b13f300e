//! A hub that was taken over tries to have the agent's token to itself: without the user, or with another one.

use super::{End, Stage, TOKEN, alice, service};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, uri::PathAndQuery};
use mctunnel_core::{Protocol, Target};
use mctunnel_http::{BodyKind, RequestHead};

type Fields = &'static [(&'static str, &'static str)];

/// What only a hub that is not to be believed sends, with a request that has no body.
const FORGED: [Fields; 27] = [
    &[("connection", "impersonate-user, impersonate-group")],
    &[("connection", "Impersonate-User")],
    &[("connection", "impersonate-user"), ("connection", "impersonate-group")],
    &[("connection", "close")],
    &[("connection", "upgrade")],
    &[("connection", "authorization, impersonate-uid, impersonate-extra-example.com%2fteam")],
    &[("keep-alive", "impersonate-user")],
    &[("proxy-connection", "impersonate-user")],
    &[("proxy-authorization", "Bearer x")],
    &[("http2-settings", "AAMAAABk")],
    &[("host", "elsewhere")],
    &[("te", "gzip")],
    &[("te", "trailers"), ("te", "impersonate-user")],
    &[("upgrade", "websocket")],
    &[("upgrade", "h2c"), ("http2-settings", "AAMAAABk")],
    &[("transfer-encoding", "chunked")],
    &[("transfer-encoding", "gzip"), ("content-length", "30")],
    &[("content-length", "30")],
    &[("content-length", "0"), ("content-length", "0")],
    &[("content-length", "none")],
    &[("impersonate-user", "system:admin")],
    &[("impersonate-group", "system:masters")],
    &[("impersonate-future", "x")],
    &[("impersonate_user", "system:admin")],
    &[("x-remote-user", "system:admin")],
    &[("x-remote-group", "system:masters")],
    &[("x-mctunnel-cluster", "c2")],
];

fn head(fields: Fields, upgrade: bool) -> RequestHead {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let (method, path) = (Method::GET, PathAndQuery::from_static(if upgrade { "/shell" } else { "/api" }));
    RequestHead { method, path, authority: Bytes::new(), fields: map, body: BodyKind::None, upgrade }
}

/// How often a head has a field.
fn count(head: &str, field: &str) -> usize {
    head.lines().filter(|line| line.split_once(": ").is_some_and(|(name, _)| name == field)).count()
}

/// Each request at the kube-apiserver is Alice's, and nobody's else.
fn all_are_alices(heads: &[String]) {
    for head in heads {
        let told = ["impersonate-user", "authorization"].map(|field| count(head, field));
        assert_eq!(told, [1, 1], "{head}");
        assert!(head.contains("impersonate-user: alice\r\n") && head.contains("impersonate-group: dev\r\n"), "{head}");
    }
}

#[tokio::test]
async fn t02_a_hub_cannot_have_the_identity_stripped() {
    let mut stage = Stage::start().await;
    for protocol in [Protocol::http(), Protocol::grpc()] {
        for target in [Target::KubeApi, service("web")] {
            for fields in FORGED {
                let head = head(fields, false);
                let stream = stage.open_with(protocol.clone(), target.clone(), Some(&alice()), &head, b"").await;
                let (text, end) = stage.ended(stream).await;
                if target == Target::KubeApi {
                    all_are_alices(&stage.backend.heads.lock());
                }
                let is_told = text.contains("may not come from outside") || text.contains("content-length");
                assert!(is_told, "{protocol:?} {target} {fields:?} {end:?}: {text}");
                assert_eq!((stage.token_reads(), stage.dialled()), (0, 0), "{protocol:?} {target} {fields:?}");
            }
        }
    }
    // An upgrade has a `Connection`, of the agent's own.
    for named in ["upgrade, impersonate-user", "upgrade", "impersonate-group"] {
        let mut head = head(&[("upgrade", "shell")], true);
        head.fields.insert("connection", HeaderValue::from_static(named));
        let stream = stage.open_with(Protocol::http(), Target::KubeApi, Some(&alice()), &head, b"").await;
        let (text, end) = stage.ended(stream).await;
        assert!(text.contains("the field connection may not come from outside"), "{named}: {end:?}: {text}");
    }
    assert_eq!((stage.token_reads(), stage.dialled()), (0, 0));
}

#[tokio::test]
async fn t02_what_gateways_send_arrives_with_one_user_and_its_token() {
    let mut stage = Stage::start().await;
    let usual: Fields =
        &[("te", "trailers"), ("content-length", "0"), ("accept", "*/*"), ("authorization", "Bearer hubs")];
    for (sent, protocol) in (1..).zip([Protocol::http(), Protocol::grpc()]) {
        let stream = stage.open_with(protocol, Target::KubeApi, Some(&alice()), &head(usual, false), b"").await;
        let (text, end) = stage.ended(stream).await;
        assert!(end == End::Whole && text.ends_with("ok"), "{end:?}: {text}");
        let heads = stage.backend.heads.lock().clone();
        assert_eq!(heads.len(), sent, "{heads:?}");
        all_are_alices(&heads);
        for field in [&format!("authorization: bearer {TOKEN}\r\n"), "te: trailers\r\n", "accept: */*\r\n"] {
            assert!(heads.last().unwrap().contains(field), "{field} in {heads:?}");
        }
    }
    let shell = stage.open(Protocol::http(), Target::KubeApi, Some(&alice()), "/shell").await;
    stage.says(shell, "$ ").await;
    let heads = stage.backend.heads.lock().clone();
    all_are_alices(&heads);
    let last = heads.last().unwrap();
    assert!(last.contains("connection: upgrade\r\n") && count(last, "connection") == 1, "{last}");
}

/// A body of chunks: none but this one trailer.
fn trailer(name: &str, value: &str) -> Vec<u8> {
    let part = |tag: u8, bytes: &[u8]| [&[tag, u8::try_from(bytes.len()).unwrap()][..], bytes].concat();
    let field = [part(0x0a, name.as_bytes()), part(0x12, value.as_bytes())].concat();
    let chunk = part(0x12, &part(0x0a, &field));
    [&[u8::try_from(chunk.len()).unwrap()][..], &chunk].concat()
}

#[tokio::test]
async fn t02_trailers_do_not_say_who_somebody_is() {
    let mut stage = Stage::start().await;
    let mut head = head(&[("te", "trailers")], false);
    head.body = BodyKind::Chunks;
    for target in [Target::KubeApi, service("web")] {
        for name in ["impersonate-user", "x-remote-group", "authorization", "connection", "x-mctunnel-cluster"] {
            let body = trailer(name, "mallory");
            let stream = stage.open_with(Protocol::grpc(), target.clone(), Some(&alice()), &head, &body).await;
            let (text, _) = stage.ended(stream).await;
            assert!(!text.ends_with("ok"), "{name}: {text}");
        }
        assert!(stage.backend.trailers.lock().is_empty(), "{:?}", stage.backend.trailers.lock());
        let body = trailer("x-checksum", "1");
        let stream = stage.open_with(Protocol::grpc(), target, Some(&alice()), &head, &body).await;
        let (text, end) = stage.ended(stream).await;
        assert!(end == End::Whole && text.contains("ok"), "{end:?}: {text}");
        let trailers = std::mem::take(&mut *stage.backend.trailers.lock());
        assert!(matches!(&trailers[..], [one] if one.len() == 1 && one["x-checksum"] == "1"), "{trailers:?}");
    }
}
