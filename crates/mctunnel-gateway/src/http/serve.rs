//! One client connection: TLS, HTTP/1.1 behind the guard or HTTP/2, and a graceful end.

use super::{
    Guarded, HttpAdapter, RefusedHead,
    body::GatewayBody,
    credential::LastShown,
    cuttable::{Cuttable, Reset},
    grpc::is_grpc,
    h2_idle::{Activity, Prefaced},
    h2_tasks::{self, Http2Tasks},
    service::serve_request,
    upgrade::Pipes,
};
use crate::{
    Client,
    tls::{accept_tls, client_certificate},
};
use hyper::{
    Request, Response,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use mctunnel_core::{
    ByteStream, ClientCertificate, Open,
    h2_meter::{Limits, Metered},
};
use std::{convert::Infallible, net::SocketAddr, pin::pin, sync::Arc};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// What the requests of one connection share.
pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    /// The certificate the client showed, if it did.
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    pub(super) last_shown: LastShown,
    /// Why the guard refused a head; HTTP/1.1 only.
    pub(super) refused: Option<Arc<RefusedHead>>,
    /// Upgraded requests that go on as plain bytes.
    pub(super) pipes: Pipes,
    /// Ends the connection as an error, whatever it is doing.
    pub(super) cut: CancellationToken,
}

impl Connection {
    /// What cuts the running request: its connection, or where that has others as well, its stream of it.
    pub(super) fn cut(&self) -> CancellationToken {
        h2_tasks::cut().unwrap_or_else(|| self.cut.clone())
    }
}

pub(super) async fn serve_client<O: Open>(adapter: Arc<HttpAdapter<O>>, client: Client) {
    let Client { socket, peer, stopping } = client;
    let Some(tls) = &adapter.tls else {
        return serve_http1(&adapter, socket, peer, None, &stopping).await;
    };
    let Some(stream) = accept_tls(tls, socket, peer, adapter.forward.config.head_timeout).await else { return };
    let certificate = client_certificate(&stream);
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        serve_http2(&adapter, stream, peer, certificate, &stopping).await;
    } else {
        serve_http1(&adapter, stream, peer, certificate, &stopping).await;
    }
}

/// The least that hyper takes.
const SMALLEST_BUFFER: usize = 8 * 1024;

async fn serve_http1<O: Open>(
    adapter: &Arc<HttpAdapter<O>>,
    io: impl Reset,
    peer: SocketAddr,
    certificate: Option<Arc<ClientCertificate>>,
    stopping: &CancellationToken,
) {
    let (cut, idle) = (CancellationToken::new(), CancellationToken::new());
    let config = &adapter.forward.config;
    // It would hold three times as much of an answer that nobody reads.
    let buffer = adapter.guard.now().max_head_bytes.saturating_mul(2).max(SMALLEST_BUFFER);
    let io = Cuttable { io, cut: cut.clone(), idle: idle.clone() };
    let io = Guarded::new(io, adapter.guard.clone()).patient_for(config.head_timeout);
    let (refused, last_shown, pipes) = (Some(io.refused()), LastShown::default(), Pipes::default());
    let connection = Arc::new(Connection { peer, certificate, last_shown, refused, pipes, cut: cut.clone() });
    let service = service_fn(|request| answer(adapter, &connection, request));
    let mut serving = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(config.idle_timeout)
            .max_buf_size(buffer)
            .serve_connection(TokioIo::new(io), service)
            .with_upgrades()
    );
    // Whoever drops this before its end cuts the client: what is dropped after the guard ends in a reset.
    let guard = cut.clone().drop_guard();
    let served = async {
        tokio::select! {
            ended = &mut serving => ended,
            () = stopping.cancelled() => {
                serving.as_mut().graceful_shutdown();
                serving.await
            }
        }
    };
    tokio::select! {
        ended = served => {
            // An answer that broke off ends in a reset: what has no length would pass for whole otherwise.
            if ended.as_ref().is_err_and(hyper::Error::is_user) {
                cut.cancel();
            }
            if ended.as_ref().is_err_and(hyper::Error::is_timeout) {
                idle.cancel();
            }
            note(peer, ended);
        }
        () = cut.cancelled() => tracing::debug!(%peer, "A client was cut: it did not read, and may not any more."),
    }
    connection.pipes.finished(guard).await;
}

async fn serve_http2<O: Open>(
    adapter: &Arc<HttpAdapter<O>>,
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    certificate: Option<Arc<ClientCertificate>>,
    stopping: &CancellationToken,
) {
    let (last_shown, pipes, cut) = (LastShown::default(), Pipes::default(), CancellationToken::new());
    let connection = Arc::new(Connection { peer, certificate, last_shown, refused: None, pipes, cut });
    let service = {
        let (adapter, connection) = (Arc::clone(adapter), Arc::clone(&connection));
        service_fn(move |request| {
            let (adapter, connection) = (Arc::clone(&adapter), Arc::clone(&connection));
            async move { answer(&adapter, &connection, request).await.map(for_grpc) }
        })
    };
    let (config, activity) = (&adapter.forward.config, Activity::new());
    let windows = Windows::of(config.max_requests_per_connection);
    let io = Prefaced::new(Metered::new(io, Limits::default()), config.head_timeout);
    let mut serving = pin!(
        http2::Builder::new(Http2Tasks(Arc::clone(&activity)))
            .timer(TokioTimer::new())
            .enable_connect_protocol()
            .max_concurrent_streams(config.max_requests_per_connection)
            .max_header_list_size(HEADER_LIST)
            .initial_stream_window_size(windows.stream)
            .initial_connection_window_size(windows.connection)
            .max_send_buf_size(SEND_BUFFER)
            .serve_connection(TokioIo::new(io), service)
    );
    let ended = tokio::select! {
        ended = &mut serving => Some(ended),
        () = stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            Some(serving.await)
        }
        () = activity.idle_for(config.idle_timeout) => {
            // Told so, a client does not send its next request into a connection that is just being closed. What it had sent before
            // is answered; if it says nothing to that either, it is gone.
            serving.as_mut().graceful_shutdown();
            tokio::select! {
                ended = serving => Some(ended),
                () = activity.idle_for(config.head_timeout) => None,
            }
        }
    };
    ended.into_iter().for_each(|ended| note(peer, ended));
    connection.pipes.finished(connection.cut.clone().drop_guard()).await;
}

/// The same as the guard allows on HTTP/1.1.
const HEADER_LIST: u32 = 64 * 1024;
const SEND_BUFFER: usize = 256 * 1024;

/// What bodies of requests may have under way.
struct Windows {
    stream: u32,
    connection: u32,
}

impl Windows {
    /// What all bodies of a connection may have under way, and so the most that its client can make us hold.
    const HELD: u32 = 32 * 1024 * 1024;
    /// Even if that makes it more than [`Windows::HELD`]: a full frame.
    const SMALLEST: u32 = 16 * 1024;
    const LARGEST: u32 = 256 * 1024;
    /// The protocol has no larger ones.
    const MOST: u32 = (1 << 31) - 1;

    /// Each request has a window of its own in that of the connection, so that those whose targets take nothing leave room for the
    /// others.
    fn of(requests: u32) -> Self {
        let requests = requests.max(1);
        let stream = (Self::HELD / requests).clamp(Self::SMALLEST, Self::LARGEST);
        Self { stream, connection: stream.saturating_mul(requests).min(Self::MOST) }
    }
}

async fn answer<O: Open>(
    adapter: &Arc<HttpAdapter<O>>,
    connection: &Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<GatewayBody<O::Stream>>, Infallible> {
    // Boxed: a connection that waits for its next request does not keep the room the last one needed.
    Ok(Box::pin(serve_request(adapter, connection, request)).await)
}

/// Has an answer to a gRPC call end with a status, whatever happens.
fn for_grpc<S: ByteStream>(response: Response<GatewayBody<S>>) -> Response<GatewayBody<S>> {
    if is_grpc(response.headers()) { response.map(GatewayBody::cut_as_status) } else { response }
}

fn note(peer: SocketAddr, ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(%peer, %error, "A client's connection broke.");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_has_a_window_of_its_own_in_that_of_its_connection() {
        for (requests, stream, connection) in
            [(0, 256, 256), (1, 256, 256), (128, 256, 32 << 10), (256, 128, 32 << 10), (512, 64, 32 << 10)]
        {
            let windows = Windows::of(requests);
            assert_eq!((windows.stream, windows.connection), (stream << 10, connection << 10), "{requests}");
        }
        assert_eq!(Windows::of(4096).stream, 16 << 10);
        assert_eq!(Windows::of(u32::MAX).connection, Windows::MOST);
    }
}
