//! The admin listener: metrics for Prometheus, health and readiness for whatever restarts and routes. It changes nothing.

use crate::telemetry::Telemetry;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// What the role tells about itself when asked.
pub(crate) trait Probe: Send + Sync + 'static {
    /// Whether it should get work; if not, why.
    fn readiness(&self) -> Result<(), String>;

    /// The tunnels that are up.
    fn tunnels(&self) -> Vec<TunnelProbe>;
}

/// A tunnel at the moment of a scrape.
#[derive(Debug, Clone)]
pub(crate) struct TunnelProbe {
    pub(crate) cluster: String,
    pub(crate) rtt: Option<Duration>,
}

/// The admin pages.
pub(crate) struct Admin {
    probe: Arc<dyn Probe>,
    metrics: PrometheusHandle,
}

/// How many connections are served at once. Scrapers and probes need a handful.
const MOST_CONNECTIONS: usize = 64;
/// How long a client may take to say what it wants, the next time too.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// After an accept error, such as no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often measurements are folded into the histogram when nobody scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

impl Admin {
    pub(crate) fn new(telemetry: &Telemetry, probe: Arc<dyn Probe>) -> Self {
        Self { probe, metrics: telemetry.handle() }
    }

    /// Serves until dropped.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let admin = Arc::new(self);
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            if connections.len() >= MOST_CONNECTIONS {
                connections.join_next().await;
                continue;
            }
            match listener.accept().await {
                Ok((socket, _)) => {
                    connections.spawn(Arc::clone(&admin).serve_connection(socket));
                }
                Err(error) => {
                    tracing::debug!(%error, "A connection to the admin listener could not be accepted.");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve_connection(self: Arc<Self>, socket: TcpStream) {
        let service = service_fn(|request: Request<Incoming>| {
            let answer = self.answer(request.method(), request.uri().path());
            async { Ok::<_, Infallible>(answer) }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
        if let Err(error) = http.serve_connection(TokioIo::new(socket), service).await {
            tracing::debug!(%error, "A connection to the admin listener broke.");
        }
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if ![Method::GET, Method::HEAD].contains(method) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
            answer.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match path {
            "/" => text(
                StatusCode::OK,
                "/metrics  Prometheus\n/healthz  200 while the process works\n/readyz   200 while it should get work\n",
            ),
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => match self.probe.readiness() {
                Ok(()) => text(StatusCode::OK, "ok\n"),
                Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
            },
            "/metrics" => {
                let mut answer = text(StatusCode::OK, self.render_metrics());
                let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                answer.headers_mut().insert(CONTENT_TYPE, kind);
                answer
            }
            _ => text(StatusCode::NOT_FOUND, "not here; / lists what is\n"),
        }
    }

    /// What was counted, and what is read now: a tunnel that is gone leaves no stale line behind.
    fn render_metrics(&self) -> String {
        let mut page = self.metrics.render();
        let tunnels = self.probe.tunnels();
        page.push_str(&format!(
            "# HELP mctunnel_tunnels Tunnels that are up\n# TYPE mctunnel_tunnels gauge\nmctunnel_tunnels {}\n\n\
             # HELP mctunnel_tunnel_rtt_seconds Round-trip time of the tunnel, once measured\n\
             # TYPE mctunnel_tunnel_rtt_seconds gauge\n",
            tunnels.len()
        ));
        for TunnelProbe { cluster, rtt } in tunnels {
            if let Some(rtt) = rtt {
                page.push_str(&format!("mctunnel_tunnel_rtt_seconds{{cluster=\"{cluster}\"}} {}\n", rtt.as_secs_f64()));
            }
        }
        page
    }
}

/// Keeps the memory of measurements bounded while nobody scrapes.
pub(crate) async fn upkeep(metrics: PrometheusHandle) {
    let mut turns = tokio::time::interval(UPKEEP);
    loop {
        turns.tick().await;
        metrics.run_upkeep();
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
