//! One client, from its first byte to its last: steps 1 to 5 of a request's path.

use super::{
    ConnectAdapter, Refusal, answer,
    head::{Head, read_head},
    request::{self, Routed},
};
use crate::{
    Admitted, Identified, Permit, Recording,
    meter::{Account, Metered},
    open_stream::{Held, OpenStream},
};
use bytes::Bytes;
use mctunnel_core::{
    Action, Authorization, ByteStream, Decision, Destination, Evidence, Happening, Identity, Open, OpenError,
    OpenRequest, Protocol,
    splice::{SpliceSocket, splice},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::Interest,
    net::TcpStream,
    time::{Instant, timeout},
};

/// Serves a client of which `shown` is known before it has asked for anything.
pub(super) async fn serve_client<O: Open>(
    shared: Arc<ConnectAdapter<O>>,
    mut socket: impl SpliceSocket,
    shown: Evidence,
) {
    // Boxed: what opening needs is given back before the splice, which may last for days.
    let Some((stream, open)) = Box::pin(establish(&shared, &mut socket, shown)).await else {
        return;
    };
    drop(shared);
    // 5 splice
    tokio::select! {
        spliced = splice(socket, stream) => {
            open.over(spliced.error.map(|error| error.to_string()));
        }
        // Dropping the splice cuts both sides.
        rule = open.revoked() => open.over(Some(rule.to_string())),
    }
}

/// Steps 1 to 4. `None` when there is nothing to splice; the client has its answer then.
async fn establish<O: Open>(
    shared: &ConnectAdapter<O>,
    socket: &mut impl SpliceSocket,
    shown: Evidence,
) -> Option<(Metered<O::Stream>, OpenStream)> {
    // Whoever says nothing takes no place in the record, and leaves none.
    let received = receive(shared, socket).await.transpose()?;
    let source = shown.peer.map(|peer| peer.ip());
    let recorded = shared.checkpoint.record_from("connect", &format!("{:032x}", rand::random::<u128>()), source);
    let recording = match &recorded {
        Ok(recording) => recording,
        Err(full) => {
            refuse(shared, socket, &Refusal::Unrecorded(*full)).await;
            return None;
        }
    };
    let asked = match pass_checkpoint(shared, received, shown, recording).await {
        Ok(asked) => asked,
        Err(refusal) => {
            recording.answered(refusal.http_status());
            recording.refused(format!("{}: {refusal}", refusal.code().code));
            refuse(shared, socket, &refusal).await;
            return None;
        }
    };
    let Asked { permit, first_bytes } = asked;
    let (destination, identity) = (permit.admitted().destination.clone(), permit.admitted().identity.clone());
    // 4 open
    let asked = Instant::now();
    let first = first_bytes.len();
    let opened = tokio::select! {
        biased;
        opened = open(shared, destination.clone(), identity, first_bytes) => opened,
        () = gone(socket.tcp()) => {
            recording.ended(0, 0, Some(Refusal::ClientGone.to_string()));
            observe_refusal_of(shared, Some(&destination), Refusal::ClientGone.code().code, &Refusal::ClientGone);
            return None;
        }
    };
    let stream = match opened {
        Ok(stream) => stream,
        Err(error) => {
            recording.answered(error.http_status());
            recording.ended(0, 0, Some(format!("{}: {error}", error.code().code)));
            observe_refusal_of(shared, Some(&destination), error.code().code, &error);
            answer::refuse(socket, &answer::for_open_error(&error)).await;
            return None;
        }
    };
    let Destination { cluster, target } = destination;
    shared.observer.observe(&Happening::StreamOpened {
        cluster: cluster.clone(),
        target: target.to_string(),
        took: asked.elapsed(),
    });
    recording.answered(200);
    let held = Held { account: Arc::new(Account::new(permit)), recording: Some(recording.clone()) };
    let open = OpenStream::new(Arc::clone(&shared.observer), cluster, 0).hold(held);
    open.started();
    let mut stream = Metered::new(stream, open.account(), first);
    if let Err(error) = answer::establish(socket).await {
        stream.abort();
        open.over(Some(error.to_string()));
        return None;
    }
    Some((stream, open))
}

/// A request that may be opened.
struct Asked {
    permit: Permit,
    first_bytes: Bytes,
}

/// Steps 1 to 3.
async fn pass_checkpoint<O: Open>(
    shared: &ConnectAdapter<O>,
    received: Result<Head, Refusal>,
    shown: Evidence,
    recording: &Recording,
) -> Result<Asked, Refusal> {
    // 2 route
    let Head { text, rest: first_bytes } = received?;
    let Routed { destination, token } = request::route(&text, &shared.config.cluster_suffix)?;
    recording.routed(&destination);
    // 1 authenticate
    let authorization = token.map(|token| Authorization::new(format!("Bearer {}", token.expose())));
    let source = shown.peer.map(|peer| peer.ip());
    let evidence = Evidence { authorization, ..shown };
    let Identified { identity, as_of } = shared.checkpoint.identify(&evidence).await?;
    recording.identified(&identity);
    // 3 authorise
    let (action, protocol) = (Action::Bytes, Protocol::tcp());
    let admitted = Admitted { identity, as_of, destination, action, protocol, source };
    match shared.checkpoint.admit(admitted, recording) {
        Ok(permit) => Ok(Asked { permit, first_bytes }),
        Err(Decision::Limited { rule, retry_after }) => Err(Refusal::Limited { rule: rule.to_string(), retry_after }),
        Err(denied) => Err(Refusal::Denied(denied.rule().to_string())),
    }
}

/// Reads the request. `Ok(None)` when the client left before it asked for anything.
async fn receive<O: Open>(shared: &ConnectAdapter<O>, socket: &mut impl SpliceSocket) -> Result<Option<Head>, Refusal> {
    let config = &shared.config;
    let read = timeout(config.head_timeout, read_head(socket, config.max_head_bytes));
    read.await.unwrap_or(Err(Refusal::SlowHead))
}

async fn open<O: Open>(
    shared: &ConnectAdapter<O>,
    destination: Destination,
    identity: Identity,
    first_bytes: Bytes,
) -> Result<O::Stream, OpenError> {
    let config = &shared.config;
    let mut request = OpenRequest::new(destination);
    request.timeout = config.open_timeout;
    request.wait_for_tunnel = config.wait_for_tunnel;
    request.first_bytes = first_bytes;
    request.identity = identity;
    // The opener keeps to its limits by contract; this one stands behind it, so that no client hangs on one that does not.
    let limit = config.open_timeout + config.wait_for_tunnel + OPENER_GRACE;
    let late = || OpenError::Timeout(format!("no answer within {limit:?}"));
    timeout(limit, shared.opener.open(request)).await.unwrap_or_else(|_| Err(late()))
}

const OPENER_GRACE: Duration = Duration::from_secs(1);

/// Resolves when the client has reset the connection.
///
/// A client that only ended its side may still want to read: `printf ... | nc` does that, and a server that speaks first
/// answers it. So an end is not taken for a departure; at worst one stream is opened in vain.
async fn gone(socket: &TcpStream) {
    // An error of waiting itself means that the runtime is stopping.
    let _ = socket.ready(Interest::ERROR).await;
}

async fn refuse<O: Open>(shared: &ConnectAdapter<O>, socket: &mut impl SpliceSocket, refusal: &Refusal) {
    observe_refusal(shared, refusal);
    answer::refuse(socket, &answer::for_refusal(refusal)).await;
}

/// Reports a request that the gateway itself refused.
pub(super) fn observe_refusal<O: Open>(shared: &ConnectAdapter<O>, refusal: &Refusal) {
    observe_refusal_of(shared, None, refusal.code().code, refusal);
}

fn observe_refusal_of<O: Open>(
    shared: &ConnectAdapter<O>,
    destination: Option<&Destination>,
    code: &'static str,
    reason: &dyn std::fmt::Display,
) {
    // Clients make up names of clusters; only known ones become a label.
    let known = code != OpenError::UnknownCluster.code().code && code != Refusal::ClientGone.code().code;
    shared.observer.observe(&Happening::StreamRefused {
        cluster: destination.filter(|_| known).map(|destination| destination.cluster.clone()),
        target: destination.map(|destination| destination.target.to_string()).unwrap_or_default(),
        code,
        reason: reason.to_string(),
    });
}
