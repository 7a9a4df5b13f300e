//! Connections to targets: taken for an exchange, given back when it ended well, thrown away when they were idle for too long.
//!
//! HTTP/1.1 connections are for one exchange at a time. HTTP/2 connections are shared by so many as every server allows, but for
//! those that are taking a long request: a server that does not read it may read nothing else of that connection either.

use super::{ServiceProxyConfig, Speak, connection::Connection, tls::TlsConfigs};
use mctunnel_core::{ExpectedPeer, Located};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::{
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

pub(super) struct Pool {
    config: ServiceProxyConfig,
    tls: TlsConfigs,
    kept: Arc<Mutex<BTreeMap<Key, Vec<Kept>>>>,
    /// Exchanges under way by address: the least busy one gets the next.
    busy: Mutex<BTreeMap<SocketAddr, Arc<Load>>>,
    turn: AtomicUsize,
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
#[derive(Debug, Default)]
pub(super) struct Sharing {
    long_requests: AtomicUsize,
}

/// An exchange whose request is long, and not yet sent whole.
#[derive(Debug)]
pub(super) struct LongRequest(Arc<Sharing>);

impl Sharing {
    pub(super) fn long_request(self: &Arc<Self>) -> LongRequest {
        self.long_requests.fetch_add(1, Ordering::Relaxed);
        LongRequest(Arc::clone(self))
    }

    /// Whether one more exchange may use the connection.
    fn has_room(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) <= MOST_SHARERS as usize && self.long_requests.load(Ordering::Relaxed) == 0
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

/// What is under way to one address.
struct Load {
    exchanges: AtomicUsize,
    /// A burst of requests would else dial as many connections at once, and have none of them in time.
    dials: Semaphore,
}

impl Default for Load {
    fn default() -> Self {
        Self { exchanges: AtomicUsize::new(0), dials: Semaphore::new(DIALS_AT_ONCE) }
    }
}

struct Busy(Arc<Load>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.exchanges.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    pub(super) fn new(config: ServiceProxyConfig) -> Self {
        Self {
            config,
            tls: TlsConfigs::default(),
            kept: Arc::default(),
            busy: Mutex::default(),
            turn: AtomicUsize::new(0),
        }
    }

    /// Takes a connection to one of the addresses: one that is there, or a new one. `fresh` insists on a new one.
    pub(super) async fn take(&self, located: &Located, speak: Speak, fresh: bool) -> Result<Taken, Unreached> {
        let mut deadline = None;
        let mut told = None;
        for address in self.by_load(&located.addresses) {
            let key = Key { address, tls: located.tls.clone(), speak };
            let busy = self.occupy(address);
            if !fresh && let Some((connection, sharing)) = self.reuse(&key) {
                return Ok(Taken { connection, reused: true, sharing, key, _busy: busy });
            }
            let Ok(Ok(turn)) = timeout(self.config.dial_timeout * TURN, busy.0.dials.acquire()).await else {
                return Err(told.unwrap_or(Unreached { address, error: None }));
            };
            // Somebody may have given one back meanwhile.
            if !fresh && let Some((connection, sharing)) = self.reuse(&key) {
                drop(turn);
                return Ok(Taken { connection, reused: true, sharing, key, _busy: busy });
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.config.dial_timeout);
            let dialled = timeout_at(deadline, self.dial(&key)).await;
            drop(turn);
            match dialled {
                Ok(Ok(connection)) => {
                    let sharing = self.share(&key, &connection);
                    return Ok(Taken { connection, reused: false, sharing, key, _busy: busy });
                }
                Ok(Err(error)) => told = Some(Unreached { address, error: Some(error) }),
                Err(_) => return Err(told.unwrap_or(Unreached { address, error: None })),
            }
        }
        // There was no address at all, which a locator does not give.
        Err(told.unwrap_or_else(|| Unreached { address: ([0, 0, 0, 0], 0).into(), error: None }))
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
            kept.push(Kept { connection, since: Instant::now(), sharing: Arc::default() });
        }
        self.forget(&mut all);
    }

    fn reuse(&self, key: &Key) -> Option<(Connection, Option<Arc<Sharing>>)> {
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
        let sharing = Arc::new(Sharing::default());
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
        let socket = TcpStream::connect(key.address).await?;
        mctunnel_core::keepalive::prepare(&socket);
        let connection = match &key.tls {
            Some(peer) => {
                let stream = self.tls.connect(socket, peer, key.speak).await?;
                Connection::begin(stream, key.speak).await
            }
            None => Connection::begin(socket, key.speak).await,
        };
        connection.map_err(io::Error::other)
    }

    /// The addresses, the least busy first; equals take turns.
    fn by_load(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut addresses = addresses.to_vec();
        if addresses.len() > 1 {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % addresses.len();
            addresses.rotate_left(turn);
            let busy = self.busy.lock();
            addresses.sort_by_key(|address| busy.get(address).map_or(0, |load| load.exchanges.load(Ordering::Relaxed)));
        }
        addresses
    }

    fn occupy(&self, address: SocketAddr) -> Busy {
        let mut busy = self.busy.lock();
        if busy.len() > MOST_COUNTED {
            busy.retain(|_, load| load.exchanges.load(Ordering::Relaxed) > 0);
        }
        let load = Arc::clone(busy.entry(address).or_default());
        load.exchanges.fetch_add(1, Ordering::Relaxed);
        Busy(load)
    }
}

/// Every server we know takes a hundred streams on a connection.
pub(super) const MOST_SHARERS: u32 = 100;
/// Connections to one address that are dialled at the same time.
const DIALS_AT_ONCE: usize = 32;
/// How many times the time for a dial an exchange waits for its turn to dial.
const TURN: u32 = 6;
/// Addresses come and go with their pods.
const MOST_COUNTED: usize = 4096;

/// None of a target's addresses answered.
#[derive(Debug)]
pub(super) struct Unreached {
    pub(super) address: SocketAddr,
    /// `None` when it did not answer in time.
    pub(super) error: Option<io::Error>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use mctunnel_core::Roots;
    use std::{future::Future as _, pin::pin, task::Context};
    use tokio::{net::TcpListener, task::JoinSet};

    /// A target that accepts connections and never answers: dials to it stay under way.
    #[tokio::test]
    async fn a_burst_dials_a_few_connections_at_once_and_the_rest_wait_their_turn() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tls = Some(ExpectedPeer { name: "target".to_owned(), roots: Roots::Unchecked });
        let addresses = vec![listener.local_addr().unwrap()];
        let located = Arc::new(Located { addresses, authority: "target".to_owned(), tls, pinned: true });
        let pool = Arc::new(Pool::new(ServiceProxyConfig::default()));
        let mut burst = JoinSet::new();
        for _ in 0..100 {
            let (pool, located) = (Arc::clone(&pool), Arc::clone(&located));
            burst.spawn(async move { pool.take(&located, Speak::Http1, false).await.is_ok() });
        }
        let mut under_way = Vec::new();
        for _ in 0..DIALS_AT_ONCE {
            under_way.push(listener.accept().await.unwrap());
        }
        // Everybody had a turn; nobody else is at the door.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(pin!(listener.accept()).as_mut().poll(&mut context).is_pending());
        // One that ends makes room for the next.
        under_way.pop();
        listener.accept().await.unwrap();
        assert_eq!(burst.join_next().await.unwrap().ok(), Some(false));
    }
}
