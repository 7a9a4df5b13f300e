//! A gateway with its own routing rule, inside an axum application that has other things to do as well.
//!
//! ```text
//! /health                the application's own
//! /apps/{team}/{*path}   to the team's service, in whichever cluster it runs
//! ```
//!
//! `cargo run -p mctunnel --example embedded_axum`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "setup/services.rs"]
mod services;
#[path = "setup/stage.rs"]
mod stage;

use axum::{
    Router,
    body::Body,
    extract::{Path, Request, State},
    http::{StatusCode, uri::PathAndQuery},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use bytes::Bytes;
use http_body_util::Full;
use mctunnel::{ClusterName, Destination, HttpConfig, HttpForward, Hub, Onward, ServiceTarget, core::Unobserved};
use services::{ask, join_with_service, serve_http};
use stage::{Failed, Stage};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};
use tokio::{net::TcpListener, sync::oneshot};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    run().await
}

// === The application ===

/// What the handlers share.
struct Apps {
    forward: HttpForward<Hub>,
    /// The routing rule: which cluster and service a team has.
    teams: BTreeMap<&'static str, Destination>,
}

fn application(apps: Apps) -> Router {
    Router::new()
        .route("/health", get(async || "well"))
        .route("/apps/{team}/{*path}", any(to_team))
        .with_state(Arc::new(apps))
}

/// Forwards what is below `/apps/{team}`. Who may ask is the application's business: a layer in front of this, as for its own routes.
async fn to_team(State(apps): State<Arc<Apps>>, Path((team, _)): Path<(String, String)>, request: Request) -> Response {
    let Some(destination) = apps.teams.get(team.as_str()) else {
        return (StatusCode::NOT_FOUND, "there is no such team").into_response();
    };
    let prefix = format!("/apps/{team}");
    // The path as the client sent it. The one that axum extracts is decoded, and the target would decode it again.
    let sent = request.uri().path_and_query().map_or("", PathAndQuery::as_str);
    let Some(Ok(path)) = sent.strip_prefix(&prefix).map(PathAndQuery::try_from) else {
        return (StatusCode::BAD_REQUEST, "the path cannot be read").into_response();
    };
    let onward = Onward::new(destination.clone(), path).below(prefix);
    match apps.forward.forward(onward, request).await {
        Ok(response) => response.map(Body::new),
        Err(error) => (error.status(), format!("{}: {error}", error.code().code)).into_response(),
    }
}

// === The demonstration ===

/// Two teams in two clusters, a third whose cluster does not let it be reached, and clients of the application.
pub(crate) async fn run() -> Result<(), Failed> {
    let mut stage = Stage::start().await?;
    for (cluster, service) in [("cluster-a", "shop/web"), ("cluster-b", "billing/web")] {
        let address = serve_http(&mut stage.tasks, move |request| async move { sample(service, &request) }).await?;
        join_with_service(&mut stage, cluster, service, address)?;
    }
    let teams = BTreeMap::from([
        ("shop", destination("cluster-a", "shop")?),
        ("billing", destination("cluster-b", "billing")?),
        ("secret", destination("cluster-b", "secret")?),
    ]);
    let forward = HttpForward::new(stage.hub.clone(), HttpConfig::default(), Arc::new(Unobserved));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = axum::serve(listener, application(Apps { forward, teams })).with_graceful_shutdown(async {
        let _ = stopped.await;
    });
    let clients = async {
        let visited = visit(address).await;
        drop(stop);
        visited
    };
    let (served, visited) = tokio::join!(serving.into_future(), clients);
    served?;
    visited
}

fn destination(cluster: &str, namespace: &str) -> Result<Destination, Failed> {
    let target = ServiceTarget::parse(namespace, "web")?.into();
    Ok(Destination { cluster: ClusterName::parse(cluster)?, target })
}

/// A service inside a cluster. It does not know under which path others see it.
fn sample<B>(service: &str, request: &Request<B>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{service} was asked for {}", request.uri())));
    if request.uri().path() == "/old" {
        *response.status_mut() = StatusCode::FOUND;
        response.headers_mut().insert("location", http::HeaderValue::from_static("/new"));
    }
    response
}

async fn visit(address: SocketAddr) -> Result<(), Failed> {
    for (path, status, text) in [
        ("/health", 200, "well"),
        ("/apps/shop/cart?id=7", 200, "shop/web was asked for /cart?id=7"),
        ("/apps/billing/a%20b", 200, "billing/web was asked for /a%20b"),
        ("/apps/shop/old", 302, "shop/web was asked for /old"),
        ("/apps/nobody/", 404, ""),
        ("/apps/nobody/x", 404, "there is no such team"),
        ("/apps/shop/a/%2e%2e/b", 400, "MCT-HTTP-BAD-TARGET"),
        ("/apps/secret/x", 403, "MCT-OPEN-NOT-ALLOWED"),
    ] {
        let (got, headers, body) = ask(address, asking_for(path)?).await?;
        let location = headers.get("location").map(|to| format!(" to {to:?}")).unwrap_or_default();
        println!("GET {path}: {got}{location}: {body}");
        let moved = got != StatusCode::FOUND || headers.get("location").is_some_and(|to| to == "/apps/shop/new");
        if got != status || !body.starts_with(text) || !moved {
            return Err(format!("{path}: expected {status} {text:?}").into());
        }
    }
    Ok(())
}

fn asking_for(path: &str) -> Result<http::Request<Full<Bytes>>, http::Error> {
    http::Request::get(path).header("host", "front").header("connection", "close").body(Full::default())
}
