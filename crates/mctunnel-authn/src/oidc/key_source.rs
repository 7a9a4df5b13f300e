//! Where the keys of one issuer come from, and how long they count. They are fetched when somebody needs them: at most one fetch is
//! under way, a further one waits its time, and keys that are known serve on for a day while the issuer is away. While it is there, a
//! key that it took back is out within minutes: keys that were not seen for so long count only after it was asked.

use super::{
    algorithm::SigningAlgorithm,
    fetch::{FetchDocument, Place},
    key_set::{Found, KeySet},
    waiting::{Room, Seat, Waiting},
};
use crate::digest::{self, Digest};
use parking_lot::Mutex;
use serde::Deserialize;
use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

/// Older keys are fetched anew while they serve on.
const RENEWED: Duration = Duration::from_secs(4 * 60);
/// Older keys count only if the issuer was asked and did not answer.
const FRESH: Duration = Duration::from_secs(5 * 60);
/// So long it has for an answer from when it was asked, until older keys serve nevertheless.
const PATIENCE: Duration = Duration::from_secs(5);
/// And so long they serve without another wait after it gave none, while it is asked again and again.
const TROUBLE: Duration = Duration::from_secs(60);
/// Older keys do not count.
const USABLE: Duration = Duration::from_secs(24 * 60 * 60);
/// Between two fetches lies at least this, whatever ids tokens have.
const PAUSE: Duration = Duration::from_secs(10);
/// How long a fetch, which is two documents, may take.
const FETCH_TIME: Duration = Duration::from_secs(15);

/// The keys of an issuer, kept up to date. Dropping it ends a fetch under way.
pub(crate) struct KeySource {
    shared: Arc<Shared>,
    fetches: Mutex<JoinSet<()>>,
    waiting: Arc<Waiting>,
}

/// A key was looked for and is not there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// The issuer does not have it.
    Unknown,
    /// The token does not say which of several.
    Ambiguous,
    /// The issuer cannot be asked; the text says why.
    Unavailable(String),
}

/// The keys as they were at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) set: Arc<KeySet>,
    /// Which set it is: another number, other keys.
    pub(crate) version: u64,
}

/// Keys that were fetched.
#[derive(Debug)]
pub(crate) enum Known {
    /// They count.
    Counting(Keys),
    /// The issuer may have taken one of them back, and is to be asked before they count.
    Old(Keys),
}

impl KeySource {
    pub(crate) fn new(issuer: &str, plain_loopback: bool, fetch: Arc<dyn FetchDocument>) -> Self {
        let shared = Shared {
            issuer: issuer.to_owned(),
            plain_loopback,
            fetch,
            state: Mutex::default(),
            fetched: watch::Sender::new(()),
        };
        Self { shared: Arc::new(shared), fetches: Mutex::default(), waiting: Arc::default() }
    }

    /// The keys that are known now, if they are not too old for anything.
    pub(crate) fn known(&self) -> Option<Known> {
        let now = Instant::now();
        let (keys, age, is_in_trouble) = {
            let state = self.shared.state.lock();
            let age = now - state.since?;
            (state.usable(now)?, age, state.failed.is_some_and(|failed| now - failed < TROUBLE))
        };
        if age > RENEWED {
            self.start_fetch();
        }
        Some(if age > FRESH && !is_in_trouble { Known::Old(keys) } else { Known::Counting(keys) })
    }

    /// The keys that count for a token that known keys have signed. Where they are old the issuer is asked first, and what it says
    /// counts; where it says nothing they count as they are.
    pub(crate) async fn counting(&self, known: Known, peer: Option<SocketAddr>) -> Result<Keys, NoKey> {
        let Known::Old(_) = known else { return Ok(known.into_keys()) };
        let _seat = self.seat(Room::Signed, peer)?;
        let mut fetched = self.shared.fetched.subscribe();
        if self.start_fetch() {
            let until = self.shared.state.lock().tried.unwrap_or_else(Instant::now) + PATIENCE;
            // The sender lives as long as we do, and a fetch tells its end however it ends.
            let _ = timeout_at(until, fetched.changed()).await;
        }
        let state = self.shared.state.lock();
        state.usable(Instant::now()).ok_or_else(|| state.unavailable())
    }

    /// The keys in which a key was found; it is to be looked up in them again. For tokens of which known keys can tell nothing.
    pub(crate) async fn keys_with(
        &self,
        id: Option<&str>,
        algorithm: SigningAlgorithm,
        peer: Option<SocketAddr>,
    ) -> Result<Keys, NoKey> {
        self.fetch_and_wait(peer).await?;
        let state = self.shared.state.lock();
        let keys = state.usable(Instant::now()).ok_or_else(|| state.unavailable())?;
        match keys.set.find(id, algorithm) {
            Found::Key(_) => Ok(keys),
            Found::Ambiguous => Err(NoKey::Ambiguous),
            // Who cannot be asked may have it by now.
            Found::Unknown if state.trouble.is_some() => Err(state.unavailable()),
            Found::Unknown => Err(NoKey::Unknown),
        }
    }

    /// Waits for the fetch under way, or for a new one if its time has come; else for nothing.
    async fn fetch_and_wait(&self, peer: Option<SocketAddr>) -> Result<(), NoKey> {
        let mut fetched = self.shared.fetched.subscribe();
        if self.start_fetch() {
            let _seat = self.seat(Room::Unknown, peer)?;
            // As in `counting`; how long a fetch takes is bounded.
            let _ = fetched.changed().await;
        }
        Ok(())
    }

    fn seat(&self, room: Room, peer: Option<SocketAddr>) -> Result<Seat, NoKey> {
        let full = || NoKey::Unavailable("too many tokens wait for its keys".to_owned());
        self.waiting.enter(room, peer).ok_or_else(full)
    }

    /// Whether a fetch is under way now.
    fn start_fetch(&self) -> bool {
        let mut state = self.shared.state.lock();
        if state.under_way {
            return true;
        }
        let now = Instant::now();
        if state.tried.is_some_and(|tried| now - tried < PAUSE) {
            return false;
        }
        state.under_way = true;
        state.tried = Some(now);
        drop(state);
        let mut fetches = self.fetches.lock();
        while fetches.try_join_next().is_some() {}
        fetches.spawn(fetch(UnderWay(Arc::clone(&self.shared))));
        true
    }
}

impl Known {
    pub(crate) fn keys(&self) -> &Keys {
        match self {
            Self::Counting(keys) | Self::Old(keys) => keys,
        }
    }

    fn into_keys(self) -> Keys {
        match self {
            Self::Counting(keys) | Self::Old(keys) => keys,
        }
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySource").field("issuer", &self.shared.issuer).finish_non_exhaustive()
    }
}

// === Shared ===

struct Shared {
    issuer: String,
    plain_loopback: bool,
    fetch: Arc<dyn FetchDocument>,
    state: Mutex<State>,
    /// Told after each fetch.
    fetched: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    keys: Option<Keys>,
    /// What the keys were read from.
    digest: Option<Digest>,
    /// When the keys were last seen.
    since: Option<Instant>,
    /// When the last fetch began.
    tried: Option<Instant>,
    /// Why the last fetch brought nothing.
    trouble: Option<String>,
    /// When it brought nothing.
    failed: Option<Instant>,
    under_way: bool,
}

impl State {
    fn usable(&self, now: Instant) -> Option<Keys> {
        self.since.filter(|since| now - *since <= USABLE).and_then(|_| self.keys.clone())
    }

    fn unavailable(&self) -> NoKey {
        NoKey::Unavailable(self.trouble.clone().unwrap_or_else(|| "its keys were not fetched yet".to_owned()))
    }

    fn take(&mut self, outcome: Result<(KeySet, Digest), String>) {
        match outcome {
            Err(trouble) => {
                self.trouble = Some(trouble);
                self.failed = Some(Instant::now());
            }
            Ok((set, digest)) => {
                self.trouble = None;
                self.failed = None;
                self.since = Some(Instant::now());
                if self.digest != Some(digest) {
                    let version = self.keys.as_ref().map_or(0, |keys| keys.version + 1);
                    self.keys = Some(Keys { set: Arc::new(set), version });
                    self.digest = Some(digest);
                }
            }
        }
    }
}

/// A fetch under way. However it ends, those who wait are told.
struct UnderWay(Arc<Shared>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.state.lock().under_way = false;
        self.0.fetched.send_replace(());
    }
}

async fn fetch(under_way: UnderWay) {
    let shared = &under_way.0;
    let outcome = timeout(FETCH_TIME, shared.documents()).await;
    let outcome = outcome.unwrap_or_else(|_| Err(format!("there were no keys within {FETCH_TIME:?}")));
    match &outcome {
        Ok(_) => tracing::debug!(issuer = shared.issuer, "the issuer's keys were fetched"),
        Err(trouble) => tracing::warn!(issuer = shared.issuer, trouble, "the issuer's keys cannot be fetched"),
    }
    shared.state.lock().take(outcome);
}

impl Shared {
    /// Discovery, then the keys it points to.
    async fn documents(&self) -> Result<(KeySet, Digest), String> {
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let about = |what: &str, trouble: String| format!("{what}: {trouble}");
        let document = self.fetch.fetch(&url).await.map_err(|trouble| about("discovery", trouble))?;
        let discovery: Discovery = serde_json::from_slice(&document)
            .map_err(|_| "discovery: the answer is not a discovery document".to_owned())?;
        if discovery.issuer != self.issuer {
            return Err("discovery: the document is of another issuer".to_owned());
        }
        Place::parse(&discovery.jwks_uri, self.plain_loopback).map_err(|trouble| about("its jwks_uri", trouble))?;
        let document = self.fetch.fetch(&discovery.jwks_uri).await.map_err(|trouble| about("its keys", trouble))?;
        Ok((KeySet::parse(&document)?, digest::of(&document)))
    }
}

/// What of a discovery document concerns us.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}
