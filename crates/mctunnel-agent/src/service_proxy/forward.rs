//! Step 9: the exchange itself. The request goes to the target over a kept or a new connection, the answer comes back, and an
//! upgrade makes both sides plain bytes.

#[cfg(test)]
mod tests;

use super::{
    ServiceProxy, Speak,
    bodies::{AnswerBody, RequestBody},
    forged::forged,
    listed::unlisted,
    pool::Taken,
    serve::Reached,
};
use crate::dial::race::Attempt;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use mctunnel_core::{
    ByteStream, Located,
    pipe::{Piped, pipe_until},
};
use mctunnel_http::{
    Answer, BodyKind, Failure, MessageHalves, MessageReader, MessageWriter, RequestHead, ResponseHead, first_flight,
};
use mctunnel_tunnel::{RefuseCode, Stream};
use std::{
    io,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
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
    Reached { target, located, speaker }: &Reached,
    speak: Speak,
    halves: MessageHalves<Stream>,
) -> Passed {
    let MessageHalves { mut writer, mut reader } = halves;
    let mut gone = pin!(unlisted(&*proxy.services, target));
    let head = tokio::select! {
        biased;
        // First: to be located may have taken a while.
        reason = gone.as_mut() => return revoke(writer, reason).await,
        head = reader.request() => head,
    };
    let head = match head {
        Ok(head) => head,
        Err(error) => return Passed::broken(&error),
    };
    // First of all: what is written below is written into a head that has nothing of the kind.
    if let Some(reason) = forged(&head) {
        return fail(writer, RefuseCode::BadRequest, reason).await;
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
    // The client may go away while the target thinks, and the service from the list.
    let answered = tokio::select! {
        biased;
        answered = send(proxy, located, speak, request) => answered.map_err(Unanswered::Failed),
        () = writer.cut() => Err(Unanswered::ClientGone),
        reason = gone.as_mut() => Err(Unanswered::Unlisted(reason)),
    };
    let mut passed = match (answered, keep) {
        (Ok((response, taken)), Some(reader)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            switch(response, taken, MessageHalves { writer, reader }, gone).await
        }
        (Ok((response, taken)), _) => answer(proxy, speak, response, taken, writer, gone).await,
        (Err(Unanswered::Failed(failure)), _) => fail(writer, failure.code, failure.message).await,
        (Err(Unanswered::ClientGone), _) => Passed::broken("the client went away"),
        (Err(Unanswered::Unlisted(reason)), _) => revoke(writer, reason).await,
    };
    passed.bytes_up += sent.map_or(0, |sent| sent.load(Ordering::Relaxed));
    passed
}

/// Why the target did not answer.
enum Unanswered {
    Failed(Failure),
    ClientGone,
    Unlisted(String),
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
    gone: Pin<&mut impl Future<Output = String>>,
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
    let mut body = AnswerBody { body, bytes: 0, speak };
    let passing = async {
        writer.send(flight).await.map_err(|error| error.to_string())?;
        body.bytes = bytes;
        writer.pump(kind, &mut body).await.map_err(|error| error.to_string())
    };
    let passed = tokio::select! {
        biased;
        passed = passing => passed,
        reason = gone => {
            writer.abort();
            Err(reason)
        }
    };
    match passed {
        Ok(()) => {
            proxy.pool.give_back(taken).await;
            Passed { bytes_down: body.bytes, ..Passed::default() }
        }
        Err(error) => Passed { bytes_down: body.bytes, ..Passed::broken(&error) },
    }
}

/// Both sides become plain bytes.
async fn switch(
    mut response: Response<Incoming>,
    taken: Taken,
    mut halves: MessageHalves<Stream>,
    mut gone: Pin<&mut impl Future<Output = String>>,
) -> Passed {
    let upgraded = hyper::upgrade::on(&mut response);
    let (parts, _) = response.into_parts();
    let head = ResponseHead { status: parts.status, fields: parts.headers, body: BodyKind::None };
    let begin = async {
        halves.writer.send(Answer::Head(head).encode()).await.map_err(|error| error.to_string())?;
        upgraded.await.map_err(|error| error.to_string())
    };
    let begun = tokio::select! {
        biased;
        begun = begin => begun,
        reason = gone.as_mut() => Err(reason),
    };
    let target = match begun {
        Ok(target) => target,
        Err(error) => return Passed::broken(&error),
    };
    let Some((mut stream, early)) = halves.reunite() else { return Passed::broken("the stream is in use") };
    let mut target = TokioIo::new(target);
    let written = tokio::select! {
        biased;
        written = target.write_all(&early) => written.map_err(|error| error.to_string()),
        reason = gone.as_mut() => Err(reason),
    };
    if let Err(error) = written {
        stream.abort();
        cut(target.into_inner());
        return Passed::broken(&error);
    }
    let stop = async { io::Error::other(gone.await) };
    let Piped { up, down, error } = pipe_until(&mut target, &mut stream, stop).await;
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

/// Tells the gateway that the service is no longer to be reached. Nothing more of the request is taken, whoever still holds its body.
async fn revoke(mut writer: MessageWriter<Stream>, reason: String) -> Passed {
    let failure = Answer::Failure(Failure { code: RefuseCode::NotAllowed, message: reason.clone() });
    let _ = writer.send(failure.encode()).await;
    writer.abort_behind_sent();
    Passed::broken(&reason)
}
