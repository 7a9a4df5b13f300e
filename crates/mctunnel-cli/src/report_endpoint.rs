//! The agent's endpoint for programs in the cluster: `POST /v1/reports/KIND[?source=NAME[&sequence=N]]`, JSON or NDJSON. 202 is said when
//! the records are on the agent's disk; while the lane is full, the answer waits. With `sequence`, asking again stores nothing twice.

mod room;

use crate::few::serve_few;
use bytes::BytesMut;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body as _, Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use mctunnel::{
    ErrorCode,
    report::{Kind, Record, ReportError, Spool, kind::BUILT_IN},
};
use room::Room;
use serde::de::IgnoredAny;
use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::net::{TcpListener, TcpStream};

/// Connections at once; further ones wait to be accepted.
const MOST_CONNECTIONS: usize = 128;
/// The longest body.
const MOST_BODY: usize = 4 << 20;
/// The most records of a request: each takes memory beside its bytes.
const MOST_RECORDS: usize = 10_000;
/// What a connection reads ahead of what is taken from it.
const READ_AHEAD: usize = 32 << 10;
/// How long a client may take to say what it wants, the next time too.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest name of a source here.
const MOST_NAME: usize = 256;
const PATH: &str = "/v1/reports/";

/// Kinds that the agent itself reports: nobody else may.
pub(crate) const OWN_KINDS: [&str; 3] = BUILT_IN;

/// The endpoint.
pub(crate) struct ReportEndpoint {
    spool: Spool,
    room: Room,
}

impl ReportEndpoint {
    pub(crate) fn new(spool: Spool) -> Self {
        Self { spool, room: Room::new() }
    }

    /// Serves until dropped.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let endpoint = Arc::new(self);
        serve_few(&listener, MOST_CONNECTIONS, "the report endpoint", |socket| {
            Arc::clone(&endpoint).serve_connection(socket)
        })
        .await;
    }

    async fn serve_connection(self: Arc<Self>, socket: TcpStream) {
        let service = service_fn(|request: Request<Incoming>| {
            let endpoint = Arc::clone(&self);
            async move {
                let answer = match endpoint.take(request).await {
                    Ok(count) => said(StatusCode::ACCEPTED, &serde_json::json!({ "accepted": count })),
                    Err(refusal) => refusal.answer(),
                };
                Ok::<_, Infallible>(answer)
            }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(READ_AHEAD);
        if let Err(error) = http.serve_connection(TokioIo::new(socket), service).await {
            tracing::debug!(%error, "A connection to the report endpoint broke.");
        }
    }

    /// Takes the records of a request; gives how many.
    async fn take(&self, request: Request<Incoming>) -> Result<usize, Refusal> {
        let kind = kind_of(request.uri().path())?;
        if request.method() != Method::POST {
            return Err(Refusal::Method);
        }
        let Asked { source, sequence } = Asked::parse(request.uri().query())?;
        let source: Arc<str> = source.into();
        let form = Form::of(request.headers().get(CONTENT_TYPE))?;
        let body = request.into_body();
        let most = u64::try_from(MOST_BODY).unwrap_or(u64::MAX);
        if body.size_hint().lower() > most {
            return Err(Refusal::TooLarge);
        }
        let bytes = body.size_hint().upper().map_or(most, |bytes| bytes.min(most));
        // Until the records are on disk; whoever waits longer than that has its body still.
        let held = self.room.hold(&kind, bytes, form.most_records(bytes)).await;
        let _held = held.ok_or(Refusal::Spool(ReportError::Ended))?;
        let reading = read(body, usize::try_from(bytes).unwrap_or(MOST_BODY));
        let body = tokio::time::timeout(BODY_TIMEOUT, reading).await.map_err(|_| Refusal::Unread)??;
        let time = now();
        let records = form.split(&body)?.into_iter().map(|body| Record::new(time, Arc::clone(&source), body));
        let records = records.collect::<Result<Vec<_>, _>>().map_err(|error| Refusal::Spool(error.into()))?;
        let count = records.len();
        let Some(first) = sequence else {
            self.spool.append(&kind, records).await.map_err(Refusal::Spool)?;
            return Ok(count);
        };
        // Its count is its own business, apart from that of the agent's own sources.
        let counted: Arc<str> = format!("http:{source}").into();
        self.spool.append_numbered(&kind, records, &counted, first).await.map_err(Refusal::Spool)
    }
}

/// Reads a body in one piece.
async fn read(body: Incoming, expected: usize) -> Result<Bytes, Refusal> {
    let mut body = Limited::new(body, MOST_BODY);
    let mut whole = BytesMut::with_capacity(expected);
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => frame.into_data().into_iter().for_each(|data| whole.extend_from_slice(&data)),
            Err(error) if error.is::<LengthLimitError>() => return Err(Refusal::TooLarge),
            Err(_) => return Err(Refusal::Unread),
        }
    }
    Ok(whole.freeze())
}

fn kind_of(path: &str) -> Result<Kind, Refusal> {
    let kind = path.strip_prefix(PATH).ok_or(Refusal::Path)?;
    let kind = Kind::parse(kind).map_err(|_| Refusal::Path)?;
    if OWN_KINDS.contains(&kind.as_str()) { Err(Refusal::OwnKind) } else { Ok(kind) }
}

/// What the query says.
#[derive(Debug, PartialEq, Eq)]
struct Asked<'a> {
    source: &'a str,
    /// The number of the first record in the client's own count.
    sequence: Option<u64>,
}

impl<'a> Asked<'a> {
    /// `source=NAME`, of letters that need no escape, and `sequence=N`.
    fn parse(query: Option<&'a str>) -> Result<Self, Refusal> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
        let mut asked = Self { source: "custom", sequence: None };
        for part in query.unwrap_or_default().split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("source", source)) if (1..=MOST_NAME).contains(&source.len()) && source.bytes().all(plain) => {
                    asked.source = source;
                }
                Some(("sequence", number)) => asked.sequence = Some(number.parse().map_err(|_| Refusal::Query)?),
                _ => return Err(Refusal::Query),
            }
        }
        Ok(asked)
    }
}

/// How records stand in a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Json,
    Ndjson,
}

impl Form {
    fn of(content_type: Option<&HeaderValue>) -> Result<Self, Refusal> {
        let text = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        match text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/json" => Ok(Self::Json),
            "application/x-ndjson" => Ok(Self::Ndjson),
            _ => Err(Refusal::Form),
        }
    }

    /// The most records that a body of so many bytes may have.
    fn most_records(self, bytes: u64) -> u64 {
        match self {
            Self::Json => 1,
            // A line has a byte and an end.
            Self::Ndjson => (bytes / 2 + 1).min(u64::try_from(MOST_RECORDS).unwrap_or(u64::MAX)),
        }
    }

    /// The records, each of which is JSON.
    fn split(self, body: &Bytes) -> Result<Vec<Bytes>, Refusal> {
        let parts: Vec<&[u8]> = match self {
            Self::Json => vec![body.as_ref()],
            Self::Ndjson => {
                let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|l| !l.is_empty());
                lines.take(MOST_RECORDS + 1).collect()
            }
        };
        if parts.len() > MOST_RECORDS {
            return Err(Refusal::TooMany);
        }
        let checked = (1..).zip(parts).map(|(line, part)| match serde_json::from_slice::<IgnoredAny>(part) {
            Ok(_) => Ok(body.slice_ref(part)),
            Err(error) => Err(Refusal::NotJson { record: line, error: error.to_string() }),
        });
        checked.collect()
    }
}

/// Why records were not taken.
#[derive(Debug)]
enum Refusal {
    Path,
    Method,
    OwnKind,
    Query,
    Form,
    TooLarge,
    TooMany,
    Unread,
    NotJson { record: usize, error: String },
    Spool(ReportError),
}

impl Refusal {
    fn answer(&self) -> Response<Full<Bytes>> {
        const BAD: ErrorCode = ErrorCode {
            code: "MCT-REPORT-BAD-REQUEST",
            remedy: "POST JSON or NDJSON to /v1/reports/KIND?source=NAME with its content type, at most 4 MiB and 10000 lines",
        };
        let (status, code, message) = match self {
            Self::Path => {
                (StatusCode::NOT_FOUND, BAD, "reports go to /v1/reports/KIND, where KIND is a DNS label".to_owned())
            }
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, BAD, "only POST is served here".to_owned()),
            Self::OwnKind => {
                (StatusCode::FORBIDDEN, BAD, format!("{} are the agent's own kinds", OWN_KINDS.join(", ")))
            }
            Self::Query => {
                let text = "the query is source=NAME, of letters, digits and ._/-, and sequence=N";
                (StatusCode::BAD_REQUEST, BAD, text.to_owned())
            }
            Self::Form => {
                let text = "the content type is application/json or application/x-ndjson";
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, BAD, text.to_owned())
            }
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, BAD, "the body is too long".to_owned()),
            Self::TooMany => {
                (StatusCode::PAYLOAD_TOO_LARGE, BAD, format!("a request has at most {MOST_RECORDS} records"))
            }
            Self::Unread => (StatusCode::REQUEST_TIMEOUT, BAD, "the body did not come".to_owned()),
            Self::NotJson { record, error } => {
                (StatusCode::BAD_REQUEST, BAD, format!("record {record} is not JSON: {error}"))
            }
            Self::Spool(error @ ReportError::Oversized(_)) => {
                (StatusCode::PAYLOAD_TOO_LARGE, error.code(), error.to_string())
            }
            Self::Spool(error @ ReportError::TooManyKinds(_)) => {
                (StatusCode::CONFLICT, error.code(), error.to_string())
            }
            Self::Spool(error) => (StatusCode::SERVICE_UNAVAILABLE, error.code(), error.to_string()),
        };
        let ErrorCode { code, remedy } = code;
        let mut answer = said(status, &serde_json::json!({ "code": code, "message": message, "remedy": remedy }));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        answer
    }
}

fn said(status: StatusCode, json: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(format!("{json}\n").into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

/// Microseconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kind_that_is_not_the_agents_own_is_taken() {
        assert_eq!(kind_of("/v1/reports/deploys").unwrap().as_str(), "deploys");
        for path in [
            "/",
            "/v1/reports/",
            "/v1/reports",
            "/v1/reports/../x",
            "/v1/reports/A",
            "/v1/reports/a/b",
            "/v2/reports/a",
        ] {
            assert!(matches!(kind_of(path), Err(Refusal::Path)), "{path}");
        }
        for kind in OWN_KINDS {
            assert!(matches!(kind_of(&format!("{PATH}{kind}")), Err(Refusal::OwnKind)), "{kind}");
        }
    }

    #[test]
    fn a_query_names_a_source_in_plain_text_and_a_number() {
        let parsed = |query| Asked::parse(query).unwrap();
        assert_eq!(parsed(None), Asked { source: "custom", sequence: None });
        let both = Asked { source: "default/web-0", sequence: Some(7) };
        assert_eq!(parsed(Some("source=default/web-0&sequence=7")), both);
        for query in ["source=", "source=a%20b", "source=a&x=1", "name=a", "source=a\u{e9}", "sequence=-1", "sequence"]
        {
            assert!(Asked::parse(Some(query)).is_err(), "{query}");
        }
    }

    #[test]
    fn each_record_is_json_or_none_is_taken() {
        let lines = Bytes::from_static(b"{\"a\":1}\r\n\n  [2]\n\"three\"");
        assert_eq!(Form::Ndjson.split(&lines).unwrap(), ["{\"a\":1}", "[2]", "\"three\""]);
        assert_eq!(Form::Json.split(&Bytes::from_static(b"{\n}")).unwrap(), ["{\n}"]);
        assert!(Form::Json.split(&lines).is_err());
        let broken = Form::Ndjson.split(&Bytes::from_static(b"{}\n{\n{}"));
        assert!(matches!(broken, Err(Refusal::NotJson { record: 2, .. })), "{broken:?}");
        let many = |count| Form::Ndjson.split(&Bytes::from("1\n".repeat(count)));
        assert_eq!(many(MOST_RECORDS).unwrap().len(), MOST_RECORDS);
        assert!(matches!(many(MOST_RECORDS + 1), Err(Refusal::TooMany)));
        let form = |text: &'static str| Form::of(Some(&HeaderValue::from_static(text)));
        assert_eq!(form("application/JSON; charset=utf-8").unwrap(), Form::Json);
        // What a web page can send without asking first.
        for simple in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""] {
            assert!(form(simple).is_err(), "{simple}");
        }
    }
}
