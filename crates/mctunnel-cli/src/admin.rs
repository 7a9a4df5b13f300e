//! The admin listener: metrics for Prometheus, health and readiness for whatever restarts and routes. It changes nothing.
//!
//! One answer for each connection, and nobody can hold its places: whoever reaches the port, as any pod does without a NetworkPolicy,
//! would otherwise have a kubelet restart the process.

use crate::{few::serve_newest, telemetry::Telemetry};
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ALLOW, CONNECTION, CONTENT_TYPE, HOST, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use metrics_exporter_prometheus::PrometheusHandle;
use std::{convert::Infallible, net::IpAddr, sync::Arc, time::Duration};
use tokio::net::{TcpListener, TcpStream};

/// What the role tells about itself when asked.
pub(crate) trait Probe: Send + Sync + 'static {
    /// Whether it should get work; if not, why.
    fn readiness(&self) -> Result<(), String>;

    /// The tunnels that are up.
    fn tunnels(&self) -> Vec<TunnelProbe>;

    /// What is counted elsewhere: on disk, where it goes on after a restart, or by who watches a file.
    fn kept(&self) -> Vec<Kept> {
        Vec::new()
    }
}

/// A tunnel at the moment of a scrape.
#[derive(Debug, Clone)]
pub(crate) struct TunnelProbe {
    pub(crate) cluster: String,
    pub(crate) rtt: Option<Duration>,
}

/// A metric that is read from where it is counted.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    /// `counter` or `gauge`.
    pub(crate) form: &'static str,
    /// Labels as they stand between the braces, or none, and the value.
    pub(crate) values: Vec<(String, u64)>,
}

/// The admin pages.
pub(crate) struct Admin {
    probe: Arc<dyn Probe>,
    metrics: PrometheusHandle,
}

/// How many connections are served at once. Scrapers and probes need a handful.
const MOST_CONNECTIONS: usize = 64;
/// How long a client may take to say what it wants and to take the answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often measurements are folded into the histogram when nobody scrapes.
const UPKEEP: Duration = Duration::from_secs(5);

impl Admin {
    pub(crate) fn new(telemetry: &Telemetry, probe: Arc<dyn Probe>) -> Self {
        Self { probe, metrics: telemetry.handle() }
    }

    /// Serves until dropped.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let admin = Arc::new(self);
        let local = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
        let serve = |socket| Arc::clone(&admin).serve_connection(socket, local);
        serve_newest(&listener, MOST_CONNECTIONS, "the admin listener", serve).await;
    }

    async fn serve_connection(self: Arc<Self>, socket: TcpStream, local: bool) {
        let service = service_fn(|request: Request<Incoming>| {
            let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            let mut answer = if local && !is_local_name(host) {
                text(StatusCode::MISDIRECTED_REQUEST, "ask for this page by localhost or by an address\n")
            } else {
                self.answer(request.method(), request.uri().path())
            };
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            async { Ok::<_, Infallible>(answer) }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        http.keep_alive(false);
        let served = tokio::time::timeout(PATIENCE, http.serve_connection(TokioIo::new(socket), service)).await;
        if !matches!(served, Ok(Ok(()))) {
            tracing::debug!(?served, "A connection to the admin listener broke.");
        }
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if ![Method::GET, Method::HEAD].contains(method) {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
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
                let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
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
        for Kept { name, help, form, values } in self.probe.kept() {
            page.push_str(&format!("\n# HELP {name} {help}\n# TYPE {name} {form}\n"));
            for (labels, value) in values {
                let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
                page.push_str(&format!("{name}{labels} {value}\n"));
            }
        }
        page
    }
}

/// Whether no DNS but this machine's can have led here. On a listener for this machine alone, another name is one of a web page that
/// had its own name lead here, to read what it must not.
fn is_local_name(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
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
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t34_the_admin_pages_of_this_machine_go_by_no_other_name() {
        for host in ["localhost", "LocalHost:9090", "127.0.0.1:9090", "127.0.0.1", "[::1]:9090", "[::1]", "10.0.0.1"] {
            assert!(is_local_name(host), "{host}");
        }
        for host in ["", "attacker.test", "attacker.test:9090", "localhost.attacker.test", "127.0.0.1.attacker.test"] {
            assert!(!is_local_name(host), "{host}");
        }
    }
}
