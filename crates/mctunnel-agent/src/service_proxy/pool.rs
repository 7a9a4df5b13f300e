//! Connections to targets: taken for an exchange, given back when it ended well, thrown away when they were idle for too long.
//!
//! HTTP/1.1 connections are for one exchange at a time. HTTP/2 connections are shared by so many as their server takes, but for
//! those that are taking a long request: a server that does not read it may read nothing else of that connection either.

#[cfg(test)]
mod tests;

use super::{
    ServiceProxyConfig, Speak,
    connection::Connection,
    load::{Busy, Load, Loads},
    tls::TlsConfigs,
};
use crate::dial::race::{Attempt, STAGGER, connect, race};
use mctunnel_core::{ExpectedPeer, Located};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::time::{Instant, timeout, timeout_at};

pub(super) struct Pool {
    config: ServiceProxyConfig,
    tls: TlsConfigs,
    kept: Arc<Mutex<BTreeMap<Key, Vec<Kept>>>>,
    loads: Loads,
}

/// Connections that can stand in for each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    address: SocketAddr,
    tls: Option<ExpectedPeer>,
    speak: Speak,
}

struct Kept {
    connection: Connection,
    /// When it was last seen in use.
    since: Instant,
    /// Exchanges on it, where it is shared.
    sharing: Arc<Sharing>,
}

/// Held by each exchange on a shared connection.
#[derive(Debug)]
pub(super) struct Sharing {
    /// How many exchanges the target takes on the connection.
    room: usize,
    long_requests: AtomicUsize,
}

/// An exchange whose request is long, and not yet sent whole.
#[derive(Debug)]
pub(super) struct LongRequest(Arc<Sharing>);

impl Sharing {
    fn new(room: usize) -> Arc<Self> {
        Arc::new(Self { room, long_requests: AtomicUsize::new(0) })
    }

    pub(super) fn long_request(self: &Arc<Self>) -> LongRequest {
        self.long_requests.fetch_add(1, Ordering::Relaxed);
        LongRequest(Arc::clone(self))
    }

    /// Whether one more exchange may use the connection.
    fn has_room(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) <= self.room && self.long_requests.load(Ordering::Relaxed) == 0
    }
}

impl Drop for LongRequest {
    fn drop(&mut self) {
        self.0.long_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection taken for one exchange.
pub(super) struct Taken {
    pub(super) connection: Connection,
    /// Whether it was used before, so that its target may have closed it already.
    pub(super) reused: bool,
    /// With whom it is shared.
    pub(super) sharing: Option<Arc<Sharing>>,
    key: Key,
    _busy: Busy,
}

impl Taken {
    /// Where it leads.
    pub(super) fn address(&self) -> SocketAddr {
        self.key.address
    }
}

/// A dial under way. One that is given up after the next address has joined was slow.
struct GivenUp<'a> {
    load: &'a Load,
    since: Instant,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        if self.since.elapsed() >= STAGGER {
            self.load.failed();
        }
    }
}

impl Pool {
    pub(super) fn new(config: ServiceProxyConfig) -> Self {
        Self { config, tls: TlsConfigs::default(), kept: Arc::default(), loads: Loads::default() }
    }

    /// Takes a connection to one of the addresses: one that is there, or a new one. `fresh` insists on a new one.
    pub(super) async fn take(self: &Arc<Self>, located: &Located, speak: Speak, fresh: bool) -> Result<Taken, Attempt> {
        let addresses = self.loads.in_order(located);
        let Some((first, rest)) = addresses.split_first() else {
            // A locator does not give that.
            return Err(Attempt { address: ([0, 0, 0, 0], 0).into(), error: None });
        };
        let key = |address| Key { address, tls: located.tls.clone(), speak };
        if !fresh && let Some(taken) = self.reuse(key(*first), || self.loads.occupy(*first)) {
            return Ok(taken);
        }
        // All of them have until then, from when the first one is dialled.
        let deadline = Arc::new(OnceLock::new());
        let attempt = |address| {
            let (pool, key, deadline) = (Arc::clone(self), key(address), Arc::clone(&deadline));
            async move { pool.attempt(key, fresh, &deadline).await }
        };
        race(*first, rest, Instant::now() + self.config.dial_timeout * (TURN + 1), attempt).await
    }

    /// Takes a connection to one address, once it is its turn.
    async fn attempt(&self, key: Key, fresh: bool, deadline: &OnceLock<Instant>) -> io::Result<Taken> {
        let busy = self.loads.occupy(key.address);
        if !fresh && let Some(taken) = self.reuse(key.clone(), || self.loads.occupy(key.address)) {
            return Ok(taken);
        }
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        let turn = timeout(self.config.dial_timeout * TURN, busy.0.dials.acquire()).await;
        let turn = turn.map_err(|_| late())?.map_err(io::Error::other)?;
        // Somebody may have given one back meanwhile.
        if !fresh && let Some(taken) = self.reuse(key.clone(), || self.loads.occupy(key.address)) {
            return Ok(taken);
        }
        let deadline = *deadline.get_or_init(|| Instant::now() + self.config.dial_timeout);
        let given_up = GivenUp { load: &busy.0, since: Instant::now() };
        let dialled = timeout_at(deadline, self.dial(&key)).await.unwrap_or_else(|_| Err(late()));
        drop((given_up, turn));
        let connection = dialled.inspect_err(|_| busy.0.failed())?;
        busy.0.answered();
        let sharing = self.share(&key, &connection);
        Ok(Taken { connection, reused: false, sharing, key, _busy: busy })
    }

    /// Keeps a connection for the next exchange, once its target is done with this one.
    pub(super) async fn give_back(&self, taken: Taken) {
        let Taken { mut connection, sharing, key, .. } = taken;
        if sharing.is_none() && !connection.ready().await {
            return;
        }
        let mut all = self.kept.lock();
        let kept = all.entry(key).or_default();
        if let Some(sharing) = sharing {
            // It was never taken out.
            let own = kept.iter_mut().find(|kept| Arc::ptr_eq(&kept.sharing, &sharing));
            own.into_iter().for_each(|kept| kept.since = Instant::now());
        } else if kept.len() < self.config.max_idle_per_address {
            kept.push(Kept { connection, since: Instant::now(), sharing: Sharing::new(1) });
        }
        self.forget(&mut all);
    }

    fn reuse(&self, key: Key, busy: impl FnOnce() -> Busy) -> Option<Taken> {
        let (connection, sharing) = self.kept_for(&key)?;
        Some(Taken { connection, reused: true, sharing, key, _busy: busy() })
    }

    fn kept_for(&self, key: &Key) -> Option<(Connection, Option<Arc<Sharing>>)> {
        let mut all = self.kept.lock();
        let kept = all.get_mut(key)?;
        match key.speak {
            // The last one used is the one most likely to be alive.
            Speak::Http1 => {
                while let Some(last) = kept.pop() {
                    if last.connection.is_ready() && last.since.elapsed() < self.config.idle_timeout {
                        return Some((last.connection, None));
                    }
                }
                None
            }
            Speak::Http2 => {
                kept.retain(|kept| kept.connection.is_ready());
                let free = kept.iter().find(|kept| kept.sharing.has_room())?;
                Some((free.connection.share()?, Some(Arc::clone(&free.sharing))))
            }
        }
    }

    /// Puts a new connection where others can share it.
    fn share(&self, key: &Key, connection: &Connection) -> Option<Arc<Sharing>> {
        let connection = connection.share()?;
        let sharing = Sharing::new(connection.room());
        let kept = Kept { connection, since: Instant::now(), sharing: Arc::clone(&sharing) };
        self.kept.lock().entry(key.clone()).or_default().push(kept);
        Some(sharing)
    }

    /// Throws away what was idle for too long. Called when a connection is given back, so an idle agent keeps at most what it had.
    fn forget(&self, all: &mut BTreeMap<Key, Vec<Kept>>) {
        let idle = self.config.idle_timeout;
        for kept in all.values_mut() {
            kept.retain(|kept| {
                let shared = Arc::strong_count(&kept.sharing) > 1;
                kept.connection.is_ready() && (shared || kept.since.elapsed() < idle)
            });
        }
        all.retain(|_, kept| !kept.is_empty());
    }

    async fn dial(&self, key: &Key) -> io::Result<Connection> {
        let socket = connect(key.address).await?;
        mctunnel_core::keepalive::prepare(&socket);
        match &key.tls {
            Some(peer) => {
                let stream = self.tls.connect(socket, peer, key.speak).await?;
                Connection::begin(stream, key.speak).await
            }
            None => Connection::begin(socket, key.speak).await,
        }
    }
}

/// Most servers take a hundred streams on a connection; one that takes more does not get them.
pub(super) const MOST_SHARERS: u32 = 100;
/// How many times the time for a dial an exchange waits for its turn to dial.
const TURN: u32 = 6;
