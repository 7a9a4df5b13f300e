//! Requests for the gateway itself: those below `/-/`, which is no cluster's name. Here is who asks, how much may be sent, and that
//! it is recorded; the answers are given by whoever the adapter was told of.

mod places;

use super::{
    HttpAdapter,
    answer::Refused,
    body::GatewayBody,
    grpc,
    page::{Content, Page, PageBody},
    serve::Connection,
    service::refused_by,
};
use crate::{Admitted, Checkpoint, Identified, Permit, Recording};
use bytes::Bytes;
use http::{HeaderValue, Response, header, request::Parts};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use mctunnel_core::{Access, Action, Decision, Destination, Identity, Open, Place, Protocol};
use places::Places;
use std::{fmt, net::IpAddr, pin::Pin, sync::Arc, time::Duration};

/// What the path of such a request begins with.
const BELOW: &str = "/-/";

/// The most that may be sent with a question, and how long it may take: it is small, and is sent at once.
const LONGEST_BODY: usize = 64 * 1024;
const BODY_TAKES: Duration = Duration::from_secs(2);

/// Questions that are read or answered at a time, of all sources together.
const QUESTIONS: usize = 4096;
/// Those of them that something was sent with, or will be: all bodies together are 32 MiB at most.
const BODIES: usize = 512;

/// When to come again if there are too many.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// An answer on its way.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Page, NoPage>> + Send + 'a>>;

/// Answers requests for the gateway itself. The client was authenticated; with `Identity::Anonymous` it is nobody in particular.
///
/// Obligations: 1. a client is told only what it may know: [`Asking::admit`] decides about a whole answer, [`Asking::admit_some`] with
/// [`Viewer::may`] about one that is made of many things; 2. it waits for nobody but the disk.
pub trait OwnPages: Send + Sync + 'static {
    /// Answers.
    fn answer<'a>(&'a self, asking: &'a Asking<'_>) -> Answering<'a>;
}

impl fmt::Debug for dyn OwnPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnPages")
    }
}

/// The pages of a gateway, and who may ask for them at a time.
pub(super) struct Served {
    pages: Arc<dyn OwnPages>,
    questions: Places,
    /// Apart: who waits for a body keeps out nobody whose question has none.
    bodies: Places,
}

impl Served {
    pub(super) fn new(pages: Arc<dyn OwnPages>) -> Self {
        Self { pages, questions: Places::of(QUESTIONS), bodies: Places::of(BODIES) }
    }
}

/// A request for the gateway itself.
#[derive(Debug)]
pub struct Asking<'a> {
    /// Who asks.
    pub identity: &'a Identity,
    /// Where the client's connection comes from.
    pub source: IpAddr,
    /// The method.
    pub method: &'a str,
    /// What follows `/-/`, without the query.
    pub path: &'a str,
    /// The query, without its `?`.
    pub query: &'a str,
    /// What the client would like to get: the field `accept`.
    pub accept: &'a str,
    /// What was sent with it.
    pub body: &'a [u8],
    as_of: u64,
    checkpoint: &'a Checkpoint,
    recording: &'a Recording,
}

impl Asking<'_> {
    /// Has policy decide whether the client may do this, and records the decision as for any request.
    pub fn admit(&self, destination: Destination, action: Action) -> Result<Permit, Decision> {
        self.checkpoint.admit(self.admitted(destination, action), self.recording)
    }

    /// Has policy decide whether the client may do some of this. What it may not is left out by who answers.
    pub fn admit_some(&self, destination: Destination, action: Action) -> Result<Permit, Decision> {
        self.checkpoint.admit_some(self.admitted(destination, action), self.recording)
    }

    /// Takes a place among what the client may do at once there, without asking whether it may: for what everybody may ask, but not
    /// without end. The place is given back when it is dropped.
    pub fn within_limits(&self, destination: Destination, action: Action) -> Result<Box<dyn Place>, Decision> {
        self.checkpoint.within_limits(&self.admitted(destination, action), self.recording)
    }

    /// Who asks, for answers that go on.
    #[must_use]
    pub fn viewer(&self) -> Viewer {
        Viewer { checkpoint: self.checkpoint.clone(), identity: self.identity.clone(), source: self.source }
    }

    fn admitted(&self, destination: Destination, action: Action) -> Admitted {
        Admitted {
            identity: self.identity.clone(),
            as_of: self.as_of,
            destination,
            action,
            protocol: Protocol::http(),
            source: Some(self.source),
        }
    }
}

/// Somebody who is shown many things, and may not see all of them.
#[derive(Debug, Clone)]
pub struct Viewer {
    checkpoint: Checkpoint,
    identity: Identity,
    source: IpAddr,
}

impl Viewer {
    /// Whether policy lets them do this now.
    #[must_use]
    pub fn may(&self, destination: &Destination, action: &Action) -> bool {
        self.ask(destination, action, Checkpoint::would_allow)
    }

    /// Whether policy lets them do some of this now.
    #[must_use]
    pub fn may_some(&self, destination: &Destination, action: &Action) -> bool {
        self.ask(destination, action, Checkpoint::would_allow_some)
    }

    fn ask(
        &self,
        destination: &Destination,
        action: &Action,
        decide: fn(&Checkpoint, &Access<'_>) -> Decision,
    ) -> bool {
        let protocol = Protocol::http();
        let (identity, source) = (&self.identity, Some(self.source));
        decide(&self.checkpoint, &Access { identity, destination, action, protocol: &protocol, source }).is_allowed()
    }
}

/// There is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPage {
    /// There is no such page.
    Unknown,
    /// The question makes no sense, and why.
    Bad(String),
    /// There is nothing of what was asked for, and what.
    Nothing(String),
    /// It cannot be answered right now, and why.
    NotNow(String),
    /// Policy says no.
    Refused(Decision),
}

/// Whether a request is for the gateway itself.
pub(super) fn is_own(parts: &Parts) -> bool {
    parts.uri.path().starts_with(BELOW) && !grpc::is_by_metadata(&parts.headers)
}

fn limited(rule: &'static str) -> Refused {
    Refused::Limited { rule: rule.to_owned(), retry_after: RETRY_AFTER }
}

/// What was sent with a question.
async fn whole(body: Incoming, takes: Duration) -> Result<Bytes, Refused> {
    match tokio::time::timeout(takes, Limited::new(body, LONGEST_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err(Refused::Question(format!("the question cannot be read: {error}"))),
        Err(_) => Err(Refused::Question("the question took too long".to_owned())),
    }
}

/// Answers such a request of a client that was identified.
pub(super) async fn serve<O: Open>(
    adapter: &HttpAdapter<O>,
    Served { pages, questions, bodies }: &Served,
    (parts, body): (&Parts, Incoming),
    (Identified { identity, as_of }, connection): (&Identified, &Connection),
    recording: &Recording,
) -> Result<Response<GatewayBody<O::Stream>>, Refused> {
    // Before anything is waited for that the client has to send.
    let _place = questions.take(connection.peer.ip()).map_err(limited)?;
    // Kept as long as the body is.
    let _with_body =
        if body.is_end_stream() { None } else { Some(bodies.take(connection.peer.ip()).map_err(limited)?) };
    let body = whole(body, adapter.forward.config.head_timeout.min(BODY_TAKES)).await?;
    let asking = Asking {
        identity,
        source: connection.peer.ip(),
        method: parts.method.as_str(),
        path: parts.uri.path().strip_prefix(BELOW).unwrap_or_default(),
        query: parts.uri.query().unwrap_or_default(),
        accept: parts.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default(),
        body: &body,
        as_of: *as_of,
        checkpoint: &adapter.checkpoint,
        recording,
    };
    let Page { content_type, content } = pages.answer(&asking).await.map_err(|none| match none {
        NoPage::Unknown => Refused::NoPage,
        NoPage::Bad(reason) => Refused::Question(reason),
        NoPage::Nothing(what) => Refused::Nothing(what),
        NoPage::NotNow(reason) => Refused::NotNow(reason),
        NoPage::Refused(decision) => refused_by(decision),
    })?;
    let mut response = Response::new(match content {
        Content::Whole(bytes) => GatewayBody::Own(Full::new(bytes)),
        Content::Pieces(pieces) => {
            pieces.account.permit().into_iter().for_each(|permit| permit.cut_by(connection.cut()));
            GatewayBody::Page(Box::new(PageBody::new(pieces, recording.clone())))
        }
    });
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
