//! One client, from its first byte to its last: steps 1 to 5 of a request's path.

use super::{
    ConnectAdapter, Refusal, answer,
    head::{Head, read_head},
    request,
};
use crate::open_stream::OpenStream;
use bytes::Bytes;
use mctunnel_core::{ByteStream, Destination, Happening, Open, OpenError, OpenRequest, splice::splice};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncWriteExt, Interest},
    net::TcpStream,
    time::{Instant, timeout},
};

pub(super) async fn serve_client<O: Open>(shared: Arc<ConnectAdapter<O>>, mut socket: TcpStream) {
    // Boxed: what opening needs is given back before the splice, which may last for days.
    let Some((stream, open)) = Box::pin(establish(&shared, &mut socket)).await else {
        return;
    };
    drop(shared);
    // 5 splice
    let spliced = splice(socket, stream).await;
    open.ended(spliced.bytes_up, spliced.bytes_down, spliced.error.map(|error| error.to_string()));
}

/// Steps 1 to 4. `None` when there is nothing to splice; the client has its answer then.
async fn establish<O: Open>(shared: &ConnectAdapter<O>, socket: &mut TcpStream) -> Option<(O::Stream, OpenStream)> {
    // 1 authenticate: nobody yet, which is why the listener belongs on loopback
    // 2 route
    let (destination, first_bytes) = match receive(shared, socket).await {
        Ok(request) => request?,
        Err(refusal) => {
            observe_refusal(shared, &refusal);
            answer::refuse(socket, &answer::for_refusal(&refusal)).await;
            return None;
        }
    };
    // 3 authorise: the agent's allow-list decides, in step 6
    // 4 open
    let asked = Instant::now();
    let sent_with_open = u64::try_from(first_bytes.len()).unwrap_or(u64::MAX);
    let opened = tokio::select! {
        biased;
        opened = open(shared, destination.clone(), first_bytes) => opened,
        () = gone(socket) => {
            observe_refusal_of(shared, Some(&destination), Refusal::ClientGone.code().code, &Refusal::ClientGone);
            return None;
        }
    };
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(error) => {
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
    let open = OpenStream::new(Arc::clone(&shared.observer), cluster, sent_with_open);
    if let Err(error) = socket.write_all(answer::ESTABLISHED).await {
        stream.abort();
        open.ended(0, 0, Some(error.to_string()));
        return None;
    }
    Some((stream, open))
}

/// Reads and routes the request. `Ok(None)` when the client left before it asked for anything.
async fn receive<O: Open>(
    shared: &ConnectAdapter<O>,
    socket: &mut TcpStream,
) -> Result<Option<(Destination, Bytes)>, Refusal> {
    let config = &shared.config;
    let read = timeout(config.head_timeout, read_head(socket, config.max_head_bytes));
    let Some(Head { text, rest }) = read.await.unwrap_or(Err(Refusal::SlowHead))? else {
        return Ok(None);
    };
    let destination = request::route(&text, &config.cluster_suffix)?;
    Ok(Some((destination, rest)))
}

async fn open<O: Open>(
    shared: &ConnectAdapter<O>,
    destination: Destination,
    first_bytes: Bytes,
) -> Result<O::Stream, OpenError> {
    let config = &shared.config;
    let mut request = OpenRequest::new(destination);
    request.timeout = config.open_timeout;
    request.wait_for_tunnel = config.wait_for_tunnel;
    request.first_bytes = first_bytes;
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
