//! GraphQL over HTTP with field-level routing: the top-level field of a query decides which cluster answers it.
//!
//! ```text
//! { orders { id } }     ->  cluster-a
//! { invoices { id } }   ->  cluster-b
//! ```
//!
//! `cargo run -p mctunnel --example graphql`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

#[path = "setup/query.rs"]
mod query;
#[path = "setup/services.rs"]
mod services;
#[path = "setup/stage.rs"]
mod stage;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, uri::PathAndQuery};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use mctunnel::{
    ClusterName, Destination, ForwardedBody, HttpConfig, HttpForward, Hub, Onward, ServiceTarget, Stream,
    core::Unobserved,
};
use query::top_level_field;
use serde_json::{Value, json};
use services::{ask, join_with_service, serve_http};
use stage::{Failed, Stage};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    run().await
}

// === The front ===

/// Reads queries and sends each to the cluster that owns its field.
struct Front {
    forward: HttpForward<Hub>,
    owners: BTreeMap<&'static str, Destination>,
}

type Answer = Response<Either<ForwardedBody<Stream>, Full<Bytes>>>;

impl Front {
    /// Who may ask for which field would be decided here, with the field at hand.
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        match self.pass(request).await {
            Ok(answer) => answer.map(Either::Left),
            Err(refused) => refused.into_answer().map(Either::Right),
        }
    }

    async fn pass(&self, request: Request<Incoming>) -> Result<Response<ForwardedBody<Stream>>, Refused> {
        if request.method() != Method::POST || request.uri().path() != "/graphql" {
            return Err(Refused::new(StatusCode::NOT_FOUND, "NOT_FOUND", "POST a query to /graphql"));
        }
        let (head, body) = request.into_parts();
        // The query has to be read whole before it is known where it goes; so it must not be long.
        let body = Limited::new(body, LONGEST_QUERY).collect().await;
        let body = body.map_err(|_| Refused::bad("the query is too long, or did not arrive whole"))?.to_bytes();
        let parsed: Value = serde_json::from_slice(&body).map_err(|_| Refused::bad("the body is not JSON"))?;
        let query = parsed.get("query").and_then(Value::as_str).ok_or_else(|| Refused::bad("there is no query"))?;
        let field = top_level_field(query).map_err(Refused::bad)?;
        let owner = self.owners.get(field).ok_or_else(|| Refused::bad("no cluster has this field"))?;
        let onward = Onward::new(owner.clone(), PathAndQuery::from_static("/graphql"));
        let request = Request::from_parts(head, Full::new(body));
        self.forward
            .forward(onward, request)
            .await
            .map_err(|error| Refused::new(error.status(), error.code().code, &error.to_string()))
    }
}

const LONGEST_QUERY: usize = 64 * 1024;

/// No cluster answered. Clients of GraphQL are told in its own form.
struct Refused {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refused {
    fn new(status: StatusCode, code: &'static str, message: &str) -> Self {
        Self { status, code, message: message.to_owned() }
    }

    fn bad(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BAD_QUERY", message)
    }

    fn into_answer(self) -> Response<Full<Bytes>> {
        let error = json!({ "message": self.message, "extensions": { "code": self.code } });
        let mut answer = json_response(&json!({ "errors": [error] }));
        *answer.status_mut() = self.status;
        answer
    }
}

fn json_response(value: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

// === The demonstration ===

/// Two clusters with a GraphQL server each, the front, and clients.
pub(crate) async fn run() -> Result<(), Failed> {
    let mut stage = Stage::start().await?;
    let mut owners = BTreeMap::new();
    for (cluster, field) in [("cluster-a", "orders"), ("cluster-b", "invoices")] {
        let address = serve_http(&mut stage.tasks, move |request| sample(cluster, field, request)).await?;
        join_with_service(&mut stage, cluster, "default/graphql", address)?;
        let target = ServiceTarget::parse("default", "graphql")?.into();
        owners.insert(field, Destination { cluster: ClusterName::parse(cluster)?, target });
    }
    let forward = HttpForward::new(stage.hub.clone(), HttpConfig::default(), Arc::new(Unobserved));
    let front = Arc::new(Front { forward, owners });
    let address = serve_http(&mut stage.tasks, move |request| Arc::clone(&front).answer(request)).await?;
    for (query, status, pointer, wanted) in [
        ("{ orders { id } }", 200, "/data/orders/0/id", "orders of cluster-a"),
        ("query Open { invoices(first: 1) { id } }", 200, "/data/invoices/0/id", "invoices of cluster-b"),
        ("{ orders { id } invoices { id } }", 400, "/errors/0/extensions/code", "BAD_QUERY"),
        ("{ users { id } }", 400, "/errors/0/message", "no cluster has this field"),
    ] {
        visit(address, query, status, pointer, wanted).await?;
    }
    Ok(())
}

/// A GraphQL server that has one field.
async fn sample(cluster: &'static str, field: &'static str, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    if !String::from_utf8_lossy(&body).contains(field) {
        return json_response(&json!({ "errors": [{ "message": "this server does not have the field" }] }));
    }
    json_response(&json!({ "data": { field: [{ "id": format!("{field} of {cluster}") }] } }))
}

async fn visit(address: SocketAddr, query: &str, status: u16, pointer: &str, wanted: &str) -> Result<(), Failed> {
    let request = Request::post("/graphql")
        .header("host", "front")
        .header("connection", "close")
        .header("content-type", "application/json")
        .body(Full::from(json!({ "query": query }).to_string()))?;
    let (got, _, body) = ask(address, request).await?;
    println!("{query}: {got}: {body}");
    let answer: Value = serde_json::from_str(&body)?;
    if got == status && answer.pointer(pointer).and_then(Value::as_str) == Some(wanted) {
        Ok(())
    } else {
        Err(format!("{query}: expected {status} with {wanted:?}").into())
    }
}
