//! Requests that become plain bytes: WebSocket and SPDY/3.1 over HTTP/1.1, WebSocket over HTTP/2 (RFC 8441).

use super::{
    answer::Refused,
    body::GatewayBody,
    cuttable::{Cuttable, Reset},
    exchange::confine_cookies,
    fields,
    guard::{BadHead, Guarded},
    h2_tasks::{self, Http2Client},
    serve::Connection,
    service::Routed,
};
use crate::{meter::Metered, open_stream::OpenStream};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use http_body_util::Full;
use hyper::{
    ext::Protocol,
    upgrade::{OnUpgrade, Upgraded},
};
use hyper_util::rt::TokioIo;
use mctunnel_core::{
    ByteStream,
    pipe::{Piped, Way, pipe as pipe_bytes},
};
use mctunnel_http::{MessageHalves, ResponseHead};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::DropGuard;

/// What of this kind a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    /// `Upgrade` over HTTP/1.1; the guard has checked it.
    Upgrade,
    /// Extended CONNECT over HTTP/2.
    WebSocketOverHttp2,
}

/// Finds out what is asked for.
pub(super) fn asked(parts: &Parts) -> Result<Asked, Refused> {
    if is_websocket_over_http2(parts) {
        return Ok(Asked::WebSocketOverHttp2);
    }
    if parts.method == Method::CONNECT {
        return Err(Refused::Head(BadHead::Method));
    }
    Ok(if parts.headers.contains_key(header::UPGRADE) { Asked::Upgrade } else { Asked::Nothing })
}

/// Whether it is the extended CONNECT of RFC 8441.
pub(super) fn is_websocket_over_http2(parts: &Parts) -> bool {
    let protocol = parts.extensions.get::<Protocol>();
    parts.method == Method::CONNECT && protocol.is_some_and(|protocol| protocol.as_str() == "websocket")
}

/// Takes the client's connection-to-be from the request, and writes the request as HTTP/1.1 would have it.
pub(super) fn take(parts: &mut Parts, asked: Asked) -> Result<Option<OnUpgrade>, Refused> {
    if asked == Asked::Nothing {
        return Ok(None);
    }
    if asked == Asked::WebSocketOverHttp2 {
        let key = STANDARD.encode(rand::random::<[u8; 16]>());
        let headers = &mut parts.headers;
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_KEY, HeaderValue::from_str(&key).unwrap_or(HeaderValue::from_static("")));
    }
    let on_upgrade = parts.extensions.remove::<OnUpgrade>();
    on_upgrade.map(Some).ok_or(Refused::Head(BadHead::Upgrade("this connection cannot be upgraded")))
}

/// Answers the client and joins the two sides once it has the answer.
pub(super) fn switch<S: ByteStream>(
    connection: &Connection,
    routed: &Routed,
    answer: ResponseHead,
    on_upgrade: Option<OnUpgrade>,
    halves: MessageHalves<S>,
    open: OpenStream,
) -> Result<Response<GatewayBody<S>>, Refused> {
    let Some(on_upgrade) = on_upgrade else {
        return Err(Refused::BadAnswer("the target changed the protocol without being asked"));
    };
    open.started();
    let asked = routed.asked;
    let over_http2 = (asked == Asked::WebSocketOverHttp2).then(h2_tasks::hold);
    connection.pipes.spawn(async move {
        let (Ok(client), Some((stream, early))) = (on_upgrade.await, halves.reunite()) else {
            return open.over(Some("the client did not take the upgrade".to_owned()));
        };
        let stream = Metered::new(stream, open.account(), 0).came_down(early.len());
        match over_http2 {
            Some(hold) => pipe(Http2Client::new(client, hold), Http2Client::cut, stream, early, open).await,
            None => pipe(TokioIo::new(client), cut, stream, early, open).await,
        }
    });
    let mut response = Response::new(Full::default().into());
    *response.headers_mut() = answer.fields;
    response.headers_mut().remove(header::CONTENT_LENGTH);
    confine_cookies(response.headers_mut(), routed);
    if asked == Asked::WebSocketOverHttp2 {
        fields::for_client(response.headers_mut(), false);
        response.headers_mut().remove(header::SEC_WEBSOCKET_ACCEPT);
        *response.status_mut() = StatusCode::OK;
    } else {
        fields::for_client(response.headers_mut(), true);
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    }
    Ok(response)
}

/// Bytes both ways until both sides have ended. `early` came right behind the target's answer.
async fn pipe<C, S>(mut client: C, cut: fn(C), mut stream: S, early: Bytes, open: OpenStream)
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: ByteStream,
{
    let piped = async {
        match client.write_all(&early).await {
            Ok(()) => pipe_bytes(&mut client, &mut stream).await,
            Err(error) => Piped { up: Way::default(), down: Way::default(), error: Some(error) },
        }
    };
    let Piped { up, down, error } = tokio::select! {
        piped = piped => piped,
        rule = open.revoked() => {
            open.over(Some(rule.to_string()));
            stream.abort();
            return cut(client);
        }
    };
    // What one side has finished is still being delivered to the other.
    if error.is_some() && !up.is_whole {
        stream.abort();
    }
    let is_cut = error.is_some() && !down.is_whole;
    open.over(error.map(|error| error.to_string()));
    if is_cut {
        cut(client);
    }
}

/// Ends a client's connection as an error. Many clients take the mere end of a connection for the end of what they read,
/// with TLS as well as without.
fn cut(client: TokioIo<Upgraded>) {
    let plain = match client.into_inner().downcast::<TokioIo<Guarded<Cuttable<TlsStream<TcpStream>>>>>() {
        Ok(parts) => return parts.io.inner().get_ref().io.reset(),
        Err(client) => client.downcast::<TokioIo<Guarded<Cuttable<TcpStream>>>>(),
    };
    if let Ok(parts) = plain {
        parts.io.inner().get_ref().io.reset();
    }
}

// === Pipes ===

/// The upgraded requests of a connection. They end with it.
#[derive(Default)]
pub(super) struct Pipes(Mutex<JoinSet<()>>);

impl Pipes {
    fn spawn(&self, pipe: impl Future<Output = ()> + Send + 'static) {
        let mut pipes = self.0.lock();
        // What is over is forgotten, so that a connection with many requests does not collect them.
        while pipes.try_join_next().is_some() {}
        pipes.spawn(pipe);
    }

    /// Resolves when the last one is over. Dropped before that, it cuts the connection first, so that no pipe ends well.
    pub(super) async fn finished(&self, cut: DropGuard) {
        let mut pipes = std::mem::take(&mut *self.0.lock());
        // Dropped before the pipes are: these end in tasks of their own, at any time after that.
        let cut = cut;
        while pipes.join_next().await.is_some() {}
        cut.disarm();
    }
}
