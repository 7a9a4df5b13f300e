//! Steps 4 and 5: the request's head and what there is of its body in one flight with the opening of the stream, then the answer.

use super::{
    HttpForward,
    answer::Refused,
    body::{GatewayBody, Tunnelled},
    cookies, fields,
    own_paths::{OwnPaths, is_for_a_worker},
    redirect,
    serve::Connection,
    service::Routed,
    trailers::CheckedTrailers,
    upgrade::{self, Asked},
};
use crate::{
    meter::MeteredBody,
    open_stream::{Held, OpenStream},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use http_body_util::Empty;
use hyper::body::Body;
use mctunnel_core::{ByteStream, Happening, Open, OpenError, OpenRequest, Priority};
use mctunnel_http::{
    Answer, BodyKind, ExchangeError, MessageHalves, MessageReader, MessageWriter, PumpError, RequestHead, ResponseHead,
    first_flight, split,
};
use std::{fmt, sync::Arc};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

/// A request with a body, if it has one.
pub(super) async fn pass<O, B>(
    forward: &HttpForward<O>,
    routed: Routed,
    parts: Parts,
    body: B,
    begun: Instant,
    held: Held,
) -> Result<Response<GatewayBody<O::Stream>>, Refused>
where
    O: Open,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: fmt::Display + Send,
{
    let mut body = MeteredBody::new(body, &held.account);
    let kind = BodyKind::of(&body);
    let worker = is_for_a_worker(&parts.headers);
    let asked = Instant::now();
    // 4 open
    let Opened { halves, open } = open(forward, &routed, parts, kind, &mut body, held).await?;
    let joined = Instant::now();
    // 5 pass bodies both ways
    let MessageHalves { mut writer, mut reader } = halves;
    let upload = if body.is_end_stream() {
        // An agent that has answered already may be gone by now. What it answered is still there to be read.
        let _ = writer.finish().await;
        None
    } else {
        Some(upload(writer, kind, body))
    };
    let answer = answer(&mut reader, &open).await?;
    let mut response = respond(answer, &routed, reader, upload, open)?;
    if worker && let Some(own) = OwnPaths::of(&routed) {
        own.confine_worker(response.headers_mut());
    }
    Ok(timed(forward, response, [begun, asked, joined]))
}

/// A request that asks to become plain bytes. It has no body.
pub(super) async fn switch<O: Open>(
    forward: &HttpForward<O>,
    connection: &Connection,
    routed: Routed,
    mut parts: Parts,
    held: Held,
) -> Result<Response<GatewayBody<O::Stream>>, Refused> {
    let on_upgrade = upgrade::take(&mut parts, routed.asked)?;
    // 4 open
    let Opened { halves, open } = open(forward, &routed, parts, BodyKind::None, &mut Empty::new(), held).await?;
    // 5 pass bytes both ways
    let MessageHalves { mut writer, mut reader } = halves;
    let answer = answer(&mut reader, &open).await?;
    if answer.status == StatusCode::SWITCHING_PROTOCOLS {
        let halves = MessageHalves { writer, reader };
        return upgrade::switch(connection, &routed, answer, on_upgrade, halves, open);
    }
    if routed.asked == Asked::WebSocketOverHttp2 && answer.status.is_success() {
        // Passed on, it would tell the client that the WebSocket is there.
        return Err(Refused::BadAnswer("the target answered without changing the protocol"));
    }
    // The agent may be gone already, with all of its answer sent.
    let _ = writer.finish().await;
    let mut response = respond(answer, &routed, reader, None, open)?;
    if routed.asked == Asked::Upgrade {
        // A client that asked to upgrade may have sent more than a request.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// A stream on which the request's head was sent.
struct Opened<S> {
    halves: MessageHalves<S>,
    open: OpenStream,
}

async fn open<O, B>(
    forward: &HttpForward<O>,
    routed: &Routed,
    mut parts: Parts,
    kind: BodyKind,
    body: &mut B,
    held: Held,
) -> Result<Opened<O::Stream>, Refused>
where
    O: Open,
    B: Body<Data = Bytes> + Unpin,
{
    let upgrade = routed.asked != Asked::Nothing;
    fields::for_target(&mut parts.headers, upgrade);
    fields::without_identity(&mut parts.headers);
    let head = RequestHead {
        method: parts.method,
        path: routed.path.clone(),
        authority: Bytes::new(),
        fields: parts.headers,
        body: kind,
        upgrade,
    };
    let asked = Instant::now();
    let first_bytes = first_flight(head.encode(), kind, body)
        .map_err(|_| Refused::Head(super::BadHead::Malformed("its body broke off")))?;
    let mut request = OpenRequest::new(routed.destination.clone());
    request.protocol = routed.protocol.clone();
    request.priority = if upgrade { Priority::Interactive } else { Priority::Normal };
    request.timeout = forward.config.open_timeout;
    request.wait_for_tunnel = forward.config.wait_for_tunnel;
    request.first_bytes = first_bytes;
    request.identity = routed.identity.clone();
    let stream = open_in_time(&forward.opener, request).await?;
    let (cluster, target) = (routed.destination.cluster.clone(), routed.destination.target.to_string());
    let opened = Happening::StreamOpened { cluster: cluster.clone(), target, took: asked.elapsed() };
    forward.observer.observe(&opened);
    let open = OpenStream::new(Arc::clone(&forward.observer), cluster, 0).hold(held);
    Ok(Opened { halves: split(stream), open })
}

/// Sends a request's body while its answer is awaited, and after.
#[expect(clippy::disallowed_methods, reason = "the handle aborts the task when the exchange is over")]
fn upload<S, B>(mut writer: MessageWriter<S>, kind: BodyKind, body: B) -> AbortOnDropHandle<()>
where
    S: ByteStream,
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: fmt::Display + Send,
{
    AbortOnDropHandle::new(tokio::spawn(async move {
        match writer.pump(kind, CheckedTrailers(body)).await {
            Ok(()) => {}
            // The answer's reader learns it as well; it decides what the client is told.
            Err(PumpError::Stream(error)) => tracing::debug!(%error, "A request's body was not taken whole."),
            Err(PumpError::Body(error)) => tracing::debug!(%error, "A client did not send its body whole."),
        }
    }))
}

async fn open_in_time<O: Open>(opener: &O, request: OpenRequest) -> Result<O::Stream, OpenError> {
    // The opener keeps to its limits by contract; this one stands behind it, so that no client hangs on one that does not.
    let limit = request.timeout + request.wait_for_tunnel + std::time::Duration::from_secs(1);
    let late = || OpenError::Timeout(format!("no answer within {limit:?}"));
    timeout(limit, opener.open(request)).await.unwrap_or_else(|_| Err(late()))
}

async fn answer<S: ByteStream>(reader: &mut MessageReader<S>, open: &OpenStream) -> Result<ResponseHead, Refused> {
    let answer = tokio::select! {
        answer = reader.answer() => answer,
        rule = open.revoked() => return Err(Refused::Denied(rule.to_string())),
    };
    match answer {
        Ok(Answer::Head(head)) => Ok(head),
        Ok(Answer::Failure(failure)) => Err(Refused::Open(failure.into_open_error())),
        Err(ExchangeError::Cut(error)) => Err(Refused::Open(OpenError::TunnelLost(error.to_string()))),
        Err(error) => Err(Refused::Open(OpenError::Internal(error.to_string()))),
    }
}

/// The target's answer as the client gets it.
fn respond<S: ByteStream>(
    answer: ResponseHead,
    routed: &Routed,
    reader: MessageReader<S>,
    upload: Option<AbortOnDropHandle<()>>,
    open: OpenStream,
) -> Result<Response<GatewayBody<S>>, Refused> {
    if answer.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Refused::BadAnswer("the target changed the protocol without being asked"));
    }
    let length = if answer.body == BodyKind::Raw { content_length(&answer.fields) } else { None };
    let body = Tunnelled::new(reader.into_body(answer.body), length, upload, open);
    let mut response = Response::new(GatewayBody::Tunnelled(Box::new(body)));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.fields;
    fields::for_client(response.headers_mut(), false);
    confine_cookies(response.headers_mut(), routed);
    redirect::confine(response, &routed.prefix, routed.path.path())
}

/// Keeps the cookies of a target below its own paths. What clients see at the root sets them as it likes.
pub(super) fn confine_cookies(fields: &mut HeaderMap, routed: &Routed) {
    if fields.contains_key(header::SET_COOKIE)
        && let Some(own) = OwnPaths::of(routed)
    {
        cookies::confine(fields, &own);
    }
}

fn content_length(fields: &HeaderMap) -> Option<u64> {
    fields.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Tells the client how long each hop took, if it is to know.
fn timed<O: Open, B>(
    forward: &HttpForward<O>,
    mut response: Response<B>,
    [begun, asked, joined]: [Instant; 3],
) -> Response<B> {
    if forward.config.server_timing {
        let millis = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64() * 1e3;
        let text = format!(
            "gateway;dur={:.3}, open;dur={:.3}, target;dur={:.3}",
            millis(begun, asked),
            millis(asked, joined),
            millis(joined, Instant::now()),
        );
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append("server-timing", value);
        }
    }
    response
}
