//! Requests of HTTP/2 that no library would send, byte by byte: none of them reaches a target.

use crate::rig::{Rig, Target};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

/// The longest anything here may take; nothing waits for it to pass.
const LIMIT: Duration = Duration::from_secs(20);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status` 200 and 400 as they are compressed.
const OK: u8 = 0x88;
const BAD_REQUEST: u8 = 0x8c;

type Field = (&'static str, &'static str);

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len() / 256).unwrap();
    let head = [0, length, payload.len().to_le_bytes()[0], kind, flags, 0, 0, 0, stream];
    [&head[..], payload].concat()
}

/// Literal fields, without compression.
fn block(fields: &[Field]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    fields.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

/// What a client is told of its first request: the first byte of an answer's head, or nothing when there is none.
async fn told(rig: &Rig, fields: &[Field], data: Option<&[u8]>) -> Option<u8> {
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let socket = TcpStream::connect(rig.gateway).await.unwrap();
    let mut client = rig.trusting_client().connect(name, socket).await.unwrap();
    let head = frame(HEADERS, END_HEADERS | if data.is_none() { END_STREAM } else { 0 }, 1, &block(fields));
    let data = data.map_or_else(Vec::new, |data| frame(DATA, END_STREAM, 1, data));
    let begin = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[]), &head, &data].concat();
    client.write_all(&begin).await.unwrap();
    timeout(LIMIT, answer(&mut client)).await.expect("the gateway answers")
}

async fn answer(client: &mut TlsStream<TcpStream>) -> Option<u8> {
    loop {
        let mut head = [0; 9];
        if client.read_exact(&mut head).await.is_err() {
            return None;
        }
        let mut payload = vec![0; usize::from(head[1]) * 256 + usize::from(head[2])];
        client.read_exact(&mut payload).await.unwrap();
        match (head[3], head[8]) {
            (HEADERS, 1) => return payload.first().copied(),
            (RST_STREAM, 1) | (GOAWAY, _) => return None,
            _ => {}
        }
    }
}

const METHOD: Field = (":method", "GET");
const POST: Field = (":method", "POST");
const SCHEME: Field = (":scheme", "https");
const AUTHORITY: Field = (":authority", "localhost");
const PATH: Field = (":path", "/cluster-a/x");

#[tokio::test]
async fn t39_heads_that_break_the_rules_reach_no_target() {
    let rig = Rig::start_tls().await;
    let target = Target::named("A").await;
    let _agent = rig.agent("cluster-a", target.address).await;
    let length = ("content-length", "5");
    for (what, fields, data) in [
        ("no method", &[SCHEME, AUTHORITY, PATH][..], None),
        ("no scheme", &[METHOD, AUTHORITY, PATH], None),
        ("no path", &[METHOD, SCHEME, AUTHORITY], None),
        ("two methods", &[METHOD, POST, SCHEME, AUTHORITY, PATH], None),
        ("two paths", &[METHOD, SCHEME, AUTHORITY, PATH, (":path", "/cluster-a/y")], None),
        ("two authorities", &[METHOD, SCHEME, AUTHORITY, (":authority", "other"), PATH], None),
        ("a pseudo-field of no kind", &[METHOD, SCHEME, AUTHORITY, PATH, (":cluster", "b")], None),
        ("a pseudo-field behind others", &[METHOD, SCHEME, AUTHORITY, ("accept", "*/*"), PATH], None),
        ("a status", &[METHOD, SCHEME, AUTHORITY, PATH, (":status", "200")], None),
        ("a path without a slash", &[METHOD, SCHEME, AUTHORITY, (":path", "cluster-a/x")], None),
        ("an empty path", &[METHOD, SCHEME, AUTHORITY, (":path", "")], None),
        ("a path with a line", &[METHOD, SCHEME, AUTHORITY, (":path", "/cluster-a/x\r\nHost: y")], None),
        ("a name in upper case", &[METHOD, SCHEME, AUTHORITY, PATH, ("Accept", "*/*")], None),
        ("a value with a line", &[METHOD, SCHEME, AUTHORITY, PATH, ("accept", "*\r\nHost: y")], None),
        ("a field of the connection", &[METHOD, SCHEME, AUTHORITY, PATH, ("transfer-encoding", "chunked")], None),
        ("a connection", &[METHOD, SCHEME, AUTHORITY, PATH, ("connection", "close")], None),
        ("a host that is another", &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "other")], None),
        ("less than its length", &[POST, SCHEME, AUTHORITY, PATH, length], Some(&b"abc"[..])),
        ("more than its length", &[POST, SCHEME, AUTHORITY, PATH, length], Some(b"abcdefg")),
        ("nothing of its length", &[POST, SCHEME, AUTHORITY, PATH, length], None),
        ("two lengths", &[POST, SCHEME, AUTHORITY, PATH, length, ("content-length", "6")], Some(b"abcde")),
    ] {
        let told = told(&rig, fields, data).await;
        assert!(matches!(told, None | Some(BAD_REQUEST)), "{what}: {told:02x?}");
    }
    assert_eq!(*target.seen.lock(), Vec::<String>::new());
    // The same, as it should be.
    assert_eq!(told(&rig, &[METHOD, SCHEME, AUTHORITY, PATH], None).await, Some(OK));
    assert_eq!(told(&rig, &[METHOD, SCHEME, AUTHORITY, PATH, ("host", "localhost")], None).await, Some(OK));
    assert_eq!(told(&rig, &[POST, SCHEME, AUTHORITY, PATH, length], Some(b"abcde")).await, Some(OK));
    assert_eq!(target.seen.lock().len(), 3);
}
