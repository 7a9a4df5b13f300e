//! The accept loop. Nothing ends it but the shutdown: errors are waited out, and the queue is served before the listener closes.

use crate::{Client, HubAdapter, connections::Connections};
use std::{io, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

pub(crate) async fn accept_clients<A: HubAdapter>(
    adapter: &Arc<A>,
    connections: &Connections,
    listener: TcpListener,
    shutdown: &CancellationToken,
) {
    mctunnel_core::keepalive::prepare_listener(&listener);
    let mut stopping = std::pin::pin!(shutdown.cancelled());
    let (mut pace, mut greedy) = (Pace::default(), Mentions::default());
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stopping => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, peer)) => {
                pace.wait = Duration::ZERO;
                admit(adapter, connections, Client { socket, peer, stopping: shutdown.clone() }, &mut greedy);
            }
            Err(error) if is_the_clients_fault(&error) => {}
            Err(error) => {
                let now = Instant::now();
                if let Some(times) = pace.failed(now) {
                    tracing::warn!(%error, times, "clients cannot be accepted, trying again");
                }
                tokio::select! {
                    () = &mut stopping => break,
                    () = sleep(pace.wait) => {}
                }
            }
        }
    }
    accept_queued(adapter, connections, listener, shutdown, &mut greedy).await;
}

/// Serves the clients the system has already accepted for us, then closes the listener.
///
/// The readiness that the runtime remembers may be older than the queue, so the system itself is asked.
async fn accept_queued<A: HubAdapter>(
    adapter: &Arc<A>,
    connections: &Connections,
    listener: TcpListener,
    shutdown: &CancellationToken,
    greedy: &mut Mentions,
) {
    let Ok(listener) = listener.into_std() else {
        return;
    };
    for turn in 1..=MOST_QUEUED {
        match listener.accept() {
            Ok((socket, peer)) => {
                if let Ok(socket) = socket.set_nonblocking(true).and_then(|()| TcpStream::from_std(socket)) {
                    admit(adapter, connections, Client { socket, peer, stopping: shutdown.clone() }, greedy);
                }
            }
            Err(error) if is_the_clients_fault(&error) => {}
            // The queue is empty, or the system has no room for what is in it.
            Err(_) => return,
        }
        if turn % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// More than a listen queue holds; clients that keep coming do not keep a stopping gateway alive.
const MOST_QUEUED: u32 = 65_536;

fn admit<A: HubAdapter>(adapter: &Arc<A>, connections: &Connections, client: Client, greedy: &mut Mentions) {
    mctunnel_core::keepalive::prepare_accepted(&client.socket);
    let count = connections.count();
    let limit = adapter.max_clients();
    if count < limit {
        match connections.shares().take(client.peer.ip(), limit - count) {
            Some(share) => connections.spawn(Arc::clone(adapter).serve(client), Some(share)),
            // Told so, its clients would still hold the places that are left for others.
            None => {
                if let Some(times) = greedy.happened(Instant::now()) {
                    let source = client.peer.ip();
                    tracing::warn!(%source, times, limit, "a source has most of the places for clients, and gets no more");
                }
            }
        }
    } else if count < limit.saturating_add(MOST_TURNED_AWAY) {
        connections.spawn(Arc::clone(adapter).turn_away(client), None);
    }
    // Above that, the socket is closed without a word: an answer would cost what there is no room for.
}

/// How many clients above the limit may be told so at the same time.
const MOST_TURNED_AWAY: usize = 1024;

/// Whether the error is about the one client that was next, and the one after it may be accepted at once.
fn is_the_clients_fault(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    [Kind::ConnectionAborted, Kind::ConnectionReset, Kind::ConnectionRefused, Kind::Interrupted].contains(&error.kind())
}

// === Pace ===

/// How long to wait after accept errors, and when to mention them.
#[derive(Debug, Default)]
struct Pace {
    wait: Duration,
    mentions: Mentions,
}

impl Pace {
    const SHORTEST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_millis(100);

    /// Takes note of an error; gives how many there were since the last one mentioned, when it is time to mention them.
    fn failed(&mut self, now: Instant) -> Option<u64> {
        self.wait = (self.wait * 2).clamp(Self::SHORTEST, Self::LONGEST);
        self.mentions.happened(now)
    }
}

/// When to mention what may happen thousands of times a second.
#[derive(Debug, Default)]
struct Mentions {
    last: Option<Instant>,
    unmentioned: u64,
}

impl Mentions {
    const EVERY: Duration = Duration::from_secs(1);

    /// Takes note of it; gives how often it happened since it was last mentioned, when it is time to mention it.
    fn happened(&mut self, now: Instant) -> Option<u64> {
        self.unmentioned += 1;
        if self.last.is_some_and(|last| now.duration_since(last) < Self::EVERY) {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unmentioned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_waited_out_and_mentioned_once_a_second() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let mut mentions = Vec::new();
        let mut waits = Vec::new();
        for turn in 0..=30 {
            mentions.extend(pace.failed(start + Duration::from_millis(100) * turn));
            waits.push(pace.wait.as_millis());
        }
        assert_eq!(mentions, [1, 10, 10, 10]);
        assert_eq!(waits.get(..5), Some(&[10, 20, 40, 80, 100][..]));
        assert!(waits.iter().skip(5).all(|wait| *wait == 100));
    }
}
