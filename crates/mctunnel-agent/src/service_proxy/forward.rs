//! Step 9: the exchange itself. The request goes to the target over a kept or a new connection, the answer comes back, and an
//! upgrade makes both sides plain bytes.

#[cfg(test)]
mod tests;

use super::{
    ServiceProxy, Speak,
    connection::TargetBody,
    impersonate::names_a_user,
    pool::{LongRequest, Sharing, Taken},
    serve::Reached,
};
use crate::dial::race::Attempt;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::{
    body::{Body, Frame, Incoming},
    upgrade::Upgraded,
};
use hyper_util::rt::TokioIo;
use mctunnel_core::{
    ByteStream, Located,
    pipe::{Piped, pipe},
};
use mctunnel_http::{
    Answer, BodyKind, Failure, MessageHalves, MessageReader, MessageWriter, RequestHead, ResponseHead, first_flight,
};
use mctunnel_tunnel::{RefuseCode, Stream};
use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_rustls::client::TlsStream;

/// How an exchange went.
#[derive(Debug, Default)]
pub(super) struct Passed {
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
    pub(super) error: Option<String>,
}

impl Passed {
    fn broken(error: &(impl ToString + ?Sized)) -> Self {
        Self { error: Some(error.to_string()), ..Self::default() }
    }
}

pub(super) async fn forward(
    proxy: &ServiceProxy,
    Reached { located, speaker }: &Reached,
    speak: Speak,
    halves: MessageHalves<Stream>,
) -> Passed {
    let MessageHalves { mut writer, mut reader } = halves;
    let head = match reader.request().await {
        Ok(head) => head,
        Err(error) => return Passed::broken(&error),
    };
    if let Some(name) = forged(&head) {
        return fail(writer, RefuseCode::BadRequest, format!("the field {name} may not come from outside")).await;
    }
    let upgrade = head.upgrade;
    if upgrade && speak == Speak::Http2 {
        return fail(writer, RefuseCode::BadRequest, "an upgrade needs HTTP/1.1".to_owned()).await;
    }
    let (keep, reader) = if upgrade { (Some(reader), None) } else { (None, Some(reader)) };
    let mut request = match request(located, speak, head, reader) {
        Ok(request) => request,
        Err(reason) => return fail(writer, RefuseCode::BadRequest, reason.to_owned()).await,
    };
    // Last of all: nothing after this line touches the request's fields.
    if let (Some(speaker), Some(impersonate)) = (speaker, &proxy.impersonate)
        && let Err(reason) = impersonate.write(speaker, request.headers_mut())
    {
        return fail(writer, RefuseCode::Internal, reason).await;
    }
    let sent = request.body().counted();
    // The client may go away while the target thinks.
    let answered = tokio::select! {
        answered = send(proxy, located, speak, request) => Some(answered),
        () = writer.cut() => None,
    };
    let mut passed = match (answered, keep) {
        (Some(Ok((response, taken))), None) => answer(proxy, speak, response, taken, writer).await,
        (Some(Ok((response, taken))), Some(reader)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            switch(response, taken, MessageHalves { writer, reader }).await
        }
        (Some(Ok((response, taken))), Some(_)) => answer(proxy, speak, response, taken, writer).await,
        (Some(Err(failure)), _) => fail(writer, failure.code, failure.message).await,
        (None, _) => Passed::broken("the client went away"),
    };
    passed.bytes_up += sent.map_or(0, |sent| sent.load(Ordering::Relaxed));
    passed
}

/// A field that says who the client is. Only the agent itself may write one, and it does so from a typed identity.
fn forged(head: &RequestHead) -> Option<&str> {
    let names = head.fields.keys().map(http::HeaderName::as_str);
    names.into_iter().find(|name| names_a_user(name))
}

/// The request as the target is to see it.
fn request(
    located: &Located,
    speak: Speak,
    head: RequestHead,
    reader: Option<MessageReader<Stream>>,
) -> Result<Request<RequestBody>, &'static str> {
    let uri = match speak {
        Speak::Http1 => Uri::from(head.path),
        Speak::Http2 => Uri::builder()
            .scheme(if located.tls.is_some() { "https" } else { "http" })
            .authority(located.authority.as_str())
            .path_and_query(head.path)
            .build()
            .map_err(|_| "the path cannot be read")?,
    };
    if head.method == Method::CONNECT {
        return Err("CONNECT is not for services");
    }
    let body = RequestBody::new(reader.map(|reader| reader.into_body(head.body)));
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = head.fields;
    let fields = request.headers_mut();
    if speak == Speak::Http1 {
        let host = HeaderValue::from_str(&located.authority).map_err(|_| "the target's name cannot be written")?;
        fields.insert(header::HOST, host);
    }
    if head.upgrade {
        fields.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    Ok(request)
}

/// Sends the request. One of which nothing was sent, because a kept connection had just been closed, gets one new connection.
async fn send(
    proxy: &ServiceProxy,
    located: &Located,
    speak: Speak,
    mut request: Request<RequestBody>,
) -> Result<(Response<Incoming>, Taken), Failure> {
    let mut fresh = false;
    loop {
        let mut taken = proxy.pool.take(located, speak, fresh).await.map_err(|error| unreached(located, &error))?;
        request.body_mut().sharing = taken.sharing.as_ref().map(Arc::downgrade);
        match taken.connection.send(request).await {
            Ok(response) => return Ok((response, taken)),
            Err(mut error) => match error.take_message() {
                Some(unsent) if taken.reused && !fresh => {
                    request = unsent;
                    fresh = true;
                }
                _ => {
                    let (authority, address) = (&located.authority, taken.address());
                    let message = format!("{authority} at {address} broke before it answered: {}", error.error());
                    return Err(Failure { code: RefuseCode::TargetUnreachable, message });
                }
            },
        }
    }
}

fn unreached(located: &Located, Attempt { address, error }: &Attempt) -> Failure {
    let place = format!("{} at {address}", located.authority);
    let late = || (RefuseCode::TargetTimeout, format!("{place} did not answer in time"));
    let (code, message) = match error {
        None => late(),
        Some(error) if error.kind() == io::ErrorKind::TimedOut => late(),
        Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            (RefuseCode::TargetRefused, format!("{place} refused the connection"))
        }
        Some(error) => (RefuseCode::TargetUnreachable, format!("{place} cannot be reached: {error}")),
    };
    Failure { code, message }
}

/// Passes the target's answer back, and keeps the connection if both sides are done with it.
async fn answer(
    proxy: &ServiceProxy,
    speak: Speak,
    response: Response<Incoming>,
    taken: Taken,
    mut writer: MessageWriter<Stream>,
) -> Passed {
    let (parts, mut body) = response.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        let reason = "the target changed the protocol without being asked".to_owned();
        return fail(writer, RefuseCode::TargetUnreachable, reason).await;
    }
    let kind = match (BodyKind::of(&body), speak) {
        // Trailers may follow, whatever the length.
        (BodyKind::Raw, Speak::Http2) => BodyKind::Chunks,
        (kind, _) => kind,
    };
    let head = ResponseHead { status: parts.status, fields: parts.headers, body: kind };
    let head = Answer::Head(head).encode();
    let head_len = head.len();
    let flight = match first_flight(head, kind, &mut body) {
        Ok(flight) => flight,
        Err(error) => {
            let message = format!("the target's answer broke off: {error}");
            return fail(writer, RefuseCode::TargetUnreachable, message).await;
        }
    };
    let bytes = u64::try_from(flight.len() - head_len).unwrap_or(u64::MAX);
    if let Err(error) = writer.send(flight).await {
        return Passed::broken(&error);
    }
    let mut body = AnswerBody { body, bytes, speak };
    match writer.pump(kind, &mut body).await {
        Ok(()) => {
            proxy.pool.give_back(taken).await;
            Passed { bytes_down: body.bytes, ..Passed::default() }
        }
        Err(error) => Passed { bytes_down: body.bytes, ..Passed::broken(&error) },
    }
}

/// Both sides become plain bytes.
async fn switch(mut response: Response<Incoming>, taken: Taken, mut halves: MessageHalves<Stream>) -> Passed {
    let upgraded = hyper::upgrade::on(&mut response);
    let (parts, _) = response.into_parts();
    let head = ResponseHead { status: parts.status, fields: parts.headers, body: BodyKind::None };
    if let Err(error) = halves.writer.send(Answer::Head(head).encode()).await {
        return Passed::broken(&error);
    }
    let target = match upgraded.await {
        Ok(target) => target,
        Err(error) => return Passed::broken(&error),
    };
    let Some((mut stream, early)) = halves.reunite() else { return Passed::broken("the stream is in use") };
    let mut target = TokioIo::new(target);
    if let Err(error) = target.write_all(&early).await {
        stream.abort();
        cut(target.into_inner());
        return Passed::broken(&error);
    }
    let Piped { up, down, error } = pipe(&mut target, &mut stream).await;
    // What one side has finished is still being delivered to the other; letting go of the stream cuts what is left of it.
    if error.is_some() && !up.is_whole {
        stream.abort();
    }
    if error.is_some() && !down.is_whole {
        cut(target.into_inner());
    }
    // Up is towards the target: what came out of the stream.
    let bytes_up = down.bytes + u64::try_from(early.len()).unwrap_or(u64::MAX);
    let passed = Passed { bytes_up, bytes_down: up.bytes, error: error.map(|error| error.to_string()) };
    drop(taken);
    passed
}

/// Ends the target's connection as an error, with TLS as well as without.
fn cut(target: Upgraded) {
    let plain = match target.downcast::<TokioIo<TlsStream<TcpStream>>>() {
        Ok(parts) => {
            let _ = parts.io.inner().get_ref().0.set_zero_linger();
            return;
        }
        Err(target) => target.downcast::<TokioIo<TcpStream>>(),
    };
    if let Ok(parts) = plain {
        let _ = parts.io.inner().set_zero_linger();
    }
}

/// Tells the gateway that there is no answer, and why.
async fn fail(mut writer: MessageWriter<Stream>, code: RefuseCode, message: String) -> Passed {
    let failure = Answer::Failure(Failure { code, message: message.clone() });
    let told = writer.send(failure.encode()).await;
    if told.is_ok() {
        let _ = writer.finish().await;
    }
    Passed::broken(&message)
}

// === Bodies ===

/// The request's body; none for upgrades, whose stream is needed whole afterwards.
pub(super) struct RequestBody {
    body: Option<TargetBody>,
    /// How many bytes of it were taken, for whoever reports them; none for a request without a body.
    sent: Option<Arc<AtomicU64>>,
    /// The others on the same connection: they are spared a request that turns out to be long.
    sharing: Option<Weak<Sharing>>,
    long: Option<LongRequest>,
}

impl RequestBody {
    fn new(body: Option<TargetBody>) -> Self {
        let sent = body.as_ref().filter(|body| !body.is_end_stream()).map(|_| Arc::default());
        Self { body, sent, sharing: None, long: None }
    }

    fn counted(&self) -> Option<Arc<AtomicU64>> {
        self.sent.clone()
    }
}

/// More than most requests have, and less than any server lets come on a connection without reading it.
const LONG: u64 = 16 * 1024;

impl Body for RequestBody {
    type Data = Bytes;
    /// What breaks it is the client, which is gone. Over HTTP/2 the target is told so by the reason that a client would give.
    type Error = h2::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(cx));
        let frame = frame.map(|frame| frame.map_err(|_| h2::Error::from(h2::Reason::CANCEL)));
        if let (Some(Ok(frame)), Some(sent)) = (&frame, &this.sent) {
            let bytes = u64::try_from(frame.data_ref().map_or(0, Bytes::len)).unwrap_or(u64::MAX);
            let sent = sent.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
            if sent > LONG && this.long.is_none() {
                this.long = this.sharing.as_ref().and_then(Weak::upgrade).map(|sharing| sharing.long_request());
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }
}

/// The target's answer: counts what passes, and ends only where the target ended it.
struct AnswerBody {
    body: Incoming,
    bytes: u64,
    speak: Speak,
}

impl Body for &mut AnswerBody {
    type Data = Bytes;
    type Error = BrokenAnswer;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenAnswer>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx)).transpose()?;
        match &frame {
            Some(frame) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                this.bytes += u64::try_from(bytes).unwrap_or(u64::MAX);
            }
            // A reset without error reads like the end, but is not where the target said it would be.
            None if this.speak == Speak::Http2 && !this.body.is_end_stream() => {
                return Poll::Ready(Some(Err(BrokenAnswer::Reset)));
            }
            None => {}
        }
        Poll::Ready(frame.map(Ok))
    }
}

/// What breaks an answer.
#[derive(Debug, thiserror::Error)]
enum BrokenAnswer {
    #[error(transparent)]
    Connection(#[from] hyper::Error),
    #[error("the target reset the stream")]
    Reset,
}
