//! One request, steps 1 to 5 of its path. Each request is authenticated, routed and authorised by itself, whatever came before it
//! on the same connection.

use super::{
    HttpAdapter,
    answer::Refused,
    body::GatewayBody,
    browser, credential, exchange, fields, grpc,
    guard::check_h2,
    own_pages, route,
    serve::Connection,
    upgrade::{self, Asked},
    whole_body::WholeBody,
};
use crate::{Admitted, Identified, Recording, meter::Account, open_stream::Held};
use http::{HeaderValue, Method, Request, Response, Version, header, request::Parts, uri::PathAndQuery};
use hyper::body::Incoming;
use mctunnel_core::{Action, Decision, Destination, Identity, Open, Protocol};
use std::sync::Arc;
use tokio::time::Instant;

/// A request whose target was parsed. Policy, audit and agent all see this one.
pub(super) struct Routed {
    pub(super) destination: Destination,
    pub(super) protocol: Protocol,
    pub(super) path: PathAndQuery,
    /// What a path of the target looks like to the client: for redirects.
    pub(super) prefix: String,
    pub(super) asked: Asked,
    /// For whom.
    pub(super) identity: Identity,
}

pub(super) async fn serve_request<O: Open>(
    adapter: &Arc<HttpAdapter<O>>,
    connection: &Arc<Connection>,
    mut request: Request<Incoming>,
) -> Response<GatewayBody<O::Stream>> {
    let begun = Instant::now();
    let request_id = fields::ensure_request_id(request.headers_mut());
    let is_grpc = grpc::is_grpc(request.headers());
    let asks_upgrade = request.headers().contains_key(header::UPGRADE);
    let source = Some(connection.peer.ip());
    let recorded = adapter.checkpoint.record_from("http", request_id.to_str().unwrap_or("?"), source);
    let passed = match &recorded {
        Ok(recording) => steps(adapter, connection, request, begun, recording).await,
        Err(full) => Err(alone(Refused::Unrecorded(*full))),
    };
    let mut response = match passed {
        Ok(response) => response,
        Err((refused, destination)) => {
            adapter.forward.refused(destination.as_ref(), &refused);
            if let Ok(recording) = &recorded {
                recording.refused(format!("{}: {refused}", refused.code().code));
            }
            let mut answer = if is_grpc { refused.to_grpc() } else { refused.to_status() };
            let ends = matches!(refused, Refused::Head(_)) || asks_upgrade;
            if ends && connection.refused.is_some() {
                // What follows on this connection cannot be trusted to be a request.
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            answer.map(GatewayBody::from)
        }
    };
    response.headers_mut().entry(fields::REQUEST_ID).or_insert(request_id);
    if let Ok(recording) = &recorded {
        recording.answered(response.status().as_u16());
    }
    response
}

type Failed = (Refused, Option<Destination>);

async fn steps<O: Open>(
    adapter: &Arc<HttpAdapter<O>>,
    connection: &Arc<Connection>,
    request: Request<Incoming>,
    begun: Instant,
    recording: &Recording,
) -> Result<Response<GatewayBody<O::Stream>>, Failed> {
    let (mut parts, body) = request.into_parts();
    check(adapter, connection, &parts).map_err(alone)?;
    let is_tls = is_tls_up_to_the_page(adapter, &parts);
    browser::check_page(&parts, is_tls).map_err(|browsed| alone(browsed.into()))?;
    // 1 authenticate
    let forwarded = credential::take_forwarded(&mut parts.headers, &adapter.guard.now());
    let evidence = credential::evidence(&parts.headers, connection, forwarded).map_err(|e| alone(e.into()))?;
    let identified = adapter.checkpoint.identify(&evidence).await;
    let is_user = identified.as_ref().is_ok_and(|identified| identified.identity.user().is_some());
    connection.last_shown.judged(evidence.authorization, is_user);
    let identified = identified.map_err(|e| alone(e.into()))?;
    recording.identified(&identified.identity);
    if is_user {
        // It was shown to us. Whoever has it could be that client here, so nobody behind us gets it.
        credential::take_off(&mut parts.headers);
    } else {
        browser::check_page_of_nobody(&parts, is_tls, adapter.hosts.as_ref())
            .map_err(|browsed| alone(browsed.into()))?;
    }
    if let Some(pages) = adapter.own_pages.as_ref().filter(|_| own_pages::is_own(&parts)) {
        return own_pages::serve(adapter, pages, (&parts, body), (&identified, &**connection), recording)
            .await
            .map_err(alone);
    }
    let Identified { identity, as_of } = identified;
    // 2 route
    let mut routed = find_target(&mut parts).map_err(alone)?;
    recording.routed(&routed.destination);
    // 3 authorise
    let read = if routed.asked == Asked::Nothing { Action::of_http } else { Action::of_upgrade };
    let action = read(&routed.destination.target, parts.method.as_str(), routed.path.as_str())
        .map_err(|bad| alone(bad.into()))?;
    let admitted = Admitted {
        identity: identity.clone(),
        as_of,
        destination: routed.destination.clone(),
        action,
        protocol: routed.protocol.clone(),
        source: Some(connection.peer.ip()),
    };
    let held = match adapter.checkpoint.admit(admitted, recording) {
        Ok(permit) => {
            permit.cut_by(connection.cut());
            Held { account: Arc::new(Account::new(permit)), recording: Some(recording.clone()) }
        }
        Err(decision) => return Err((refused_by(decision), Some(routed.destination))),
    };
    routed.identity = identity;
    // 4 open, 5 pass bodies both ways
    let (forward, destination) = (&adapter.forward, routed.destination.clone());
    let passed = if routed.asked == Asked::Nothing {
        let body = WholeBody::new(body, parts.version);
        exchange::pass(forward, routed, parts, body, begun, held).await
    } else {
        exchange::switch(forward, connection, routed, parts, held).await
    };
    passed.map_err(|refused| (refused, Some(destination)))
}

/// Whether a page of ours must have come with TLS. A front proxy comes to us with it, whatever its own clients do.
fn is_tls_up_to_the_page<O: Open>(adapter: &HttpAdapter<O>, parts: &Parts) -> bool {
    let is_forwarded = || {
        let guard = adapter.guard.now();
        parts.headers.keys().any(|name| guard.is_forwarded(name.as_str()))
    };
    adapter.tls.is_some() && parts.headers.contains_key(header::ORIGIN) && !is_forwarded()
}

/// What a client is told that policy does not let pass.
pub(super) fn refused_by(decision: Decision) -> Refused {
    match decision {
        Decision::Limited { rule, retry_after } => Refused::Limited { rule: rule.to_string(), retry_after },
        Decision::Allowed { rule } | Decision::Denied { rule } => Refused::Denied(rule.to_string()),
    }
}

fn alone(refused: Refused) -> Failed {
    (refused, None)
}

/// The rules for heads. HTTP/1.1 was checked byte by byte before it came here; what was refused then stands in the slot.
fn check<O: Open>(adapter: &HttpAdapter<O>, connection: &Connection, parts: &Parts) -> Result<(), Refused> {
    match &connection.refused {
        // No request with this target passes the guard: it is the guard's own.
        Some(slot) if parts.uri.path() == "*" => {
            let reason = slot.take().unwrap_or(super::BadHead::Malformed("it was refused"));
            Err(Refused::Head(reason))
        }
        Some(_) => Ok(()),
        None => {
            debug_assert_eq!(parts.version, Version::HTTP_2);
            check_h2(parts, &adapter.guard.now()).map_err(Refused::Head)
        }
    }
}

fn path_of(path_and_query: &str) -> &str {
    path_and_query.split('?').next().unwrap_or_default()
}

/// Parses the target, once. From here on the request is for this destination and no other.
fn find_target(parts: &mut Parts) -> Result<Routed, Refused> {
    let asked = upgrade::asked(parts)?;
    let sent = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    if grpc::is_by_metadata(&parts.headers) {
        let destination = grpc::route(&parts.headers)?;
        let path = PathAndQuery::try_from(sent).map_err(|_| Refused::Metadata("the path cannot be read"))?;
        return Ok(Routed {
            destination,
            protocol: Protocol::grpc(),
            path,
            prefix: String::new(),
            asked,
            identity: Identity::Anonymous,
        });
    }
    let routed = route(sent)?;
    let sent_path = path_of(sent);
    // What is asked for without a slash behind it is asked for `/`, which the client has not sent.
    let prefix = sent_path.strip_suffix(path_of(&routed.forward)).unwrap_or(sent_path).to_owned();
    let path = PathAndQuery::try_from(routed.forward)
        .map_err(|_| Refused::Head(super::BadHead::Malformed("the path cannot be read")))?;
    let protocol = if grpc::is_grpc(&parts.headers) { Protocol::grpc() } else { Protocol::http() };
    if asked == Asked::WebSocketOverHttp2 {
        parts.method = Method::GET;
    }
    Ok(Routed { destination: routed.destination, protocol, path, prefix, asked, identity: Identity::Anonymous })
}
