//! Permissions that are held, not granted once. Somebody looks once a second whether rules or credentials changed, and takes back
//! the permits that would not be issued any more. What lives that long is in the record from then on, not only when it ends.

use super::recording::{Recording, WeakRecording};
use futures_util::task::AtomicWaker;
use mctunnel_core::{Access, Action, Authorize, Decision, Destination, DynAuthenticate, Identity, Place, Protocol};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    fmt,
    net::IpAddr,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, SystemTime},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How often somebody looks. New rules count for new requests at once; this is about what is open already.
const LOOK: Duration = Duration::from_secs(1);

/// A request as it was decided about; kept while it lives, to decide again.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// Who.
    pub identity: Identity,
    /// Which credentials counted when that was found out: what was revoked since then admits nobody. See
    /// [`Identified`](super::Identified).
    pub as_of: u64,
    /// Where to.
    pub destination: Destination,
    /// What.
    pub action: Action,
    /// How.
    pub protocol: Protocol,
    /// From where.
    pub source: Option<IpAddr>,
}

impl Admitted {
    pub(super) fn access(&self) -> Access<'_> {
        let Self { identity, as_of: _, destination, action, protocol, source } = self;
        Access { identity, destination, action, protocol, source: *source }
    }
}

const REVOKED: &str = "the credential was revoked";

/// How much of what was asked for has to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// The answer is decided object by object.
    Part,
}

impl Extent {
    pub(super) fn decide(self, authorize: &dyn Authorize, access: &Access<'_>) -> Decision {
        match self {
            Self::Whole => authorize.authorize(access),
            Self::Part => authorize.authorize_some(access),
        }
    }
}

/// Permission for one request or stream, until it is dropped or taken back.
pub struct Permit {
    number: u64,
    held: Arc<Held>,
    /// Given back with the permit.
    place: Box<dyn Place>,
    permits: Weak<Permits>,
}

struct Held {
    admitted: Admitted,
    extent: Extent,
    /// Of the rules under which it was last decided.
    generations: Mutex<Generations>,
    revoked: AtomicBool,
    reason: Mutex<Option<Arc<str>>>,
    waker: AtomicWaker,
    /// Cuts from outside what is not looked at from inside.
    cut: OnceLock<CancellationToken>,
    /// Whether it was there a look ago: then it lives long enough for the record to show it meanwhile.
    was_seen: AtomicBool,
    recording: WeakRecording,
}

impl Permit {
    /// What it is for.
    #[must_use]
    pub fn admitted(&self) -> &Admitted {
        &self.held.admitted
    }

    /// Counts bytes that were moved; gives how long to wait before more are.
    #[must_use]
    pub fn moved(&self, bytes: u64) -> Duration {
        self.place.moved(bytes)
    }

    /// Has this cancelled when the permit was taken back and is still held a second later: by somebody who does not come to look,
    /// because its client does not read. The first one counts.
    pub(crate) fn cut_by(&self, cut: CancellationToken) {
        // A second one would be for the same connection.
        let _ = self.held.cut.set(cut);
    }

    /// Why it was taken back, if it was.
    pub(crate) fn why_revoked(&self) -> Option<Arc<str>> {
        self.held.reason.lock().clone()
    }

    /// Resolves when the permit was taken back; gives the reason. One waiter at a time.
    pub fn poll_revoked(&self, cx: &Context<'_>) -> Poll<Arc<str>> {
        if !self.held.revoked.load(Ordering::Acquire) {
            self.held.waker.register(cx.waker());
            if !self.held.revoked.load(Ordering::Acquire) {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.held.reason.lock().clone().unwrap_or_else(|| "the permission was taken back".into()))
    }

    /// Resolves when the permit was taken back; gives the reason. One waiter at a time.
    pub async fn revoked(&self) -> Arc<str> {
        std::future::poll_fn(|cx| self.poll_revoked(cx)).await
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(permits) = self.permits.upgrade() {
            permits.held.lock().remove(&self.number);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("for", &self.held.admitted).finish_non_exhaustive()
    }
}

// === Permits ===

/// Numbers that change when the rules or the credentials do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Generations {
    credentials: u64,
    rules: u64,
}

/// All permits of a checkpoint.
pub(super) struct Permits {
    authenticate: Arc<dyn DynAuthenticate>,
    authorize: Arc<dyn Authorize>,
    held: Mutex<BTreeMap<u64, Arc<Held>>>,
    next: AtomicU64,
    looking: OnceLock<AbortOnDropHandle<()>>,
}

impl Permits {
    pub(super) fn new(authenticate: Arc<dyn DynAuthenticate>, authorize: Arc<dyn Authorize>) -> Arc<Self> {
        let (held, next, looking) = (Mutex::default(), AtomicU64::new(0), OnceLock::new());
        Arc::new(Self { authenticate, authorize, held, next, looking })
    }

    /// What the rules and the credentials are now.
    pub(super) fn generations(&self) -> Generations {
        Generations { credentials: self.authenticate.generation(), rules: self.authorize.generation() }
    }

    /// Whether the rules allow it, and the credential still counts: a client that shows one and takes its time with the rest of its
    /// request must not get past its revocation.
    pub(super) fn decide(&self, admitted: &Admitted, extent: Extent, now: Generations) -> Decision {
        if admitted.as_of != now.credentials && !self.authenticate.still_holds(&admitted.identity) {
            return Decision::denied(REVOKED);
        }
        extent.decide(&*self.authorize, &admitted.access())
    }

    pub(super) fn issue(
        self: &Arc<Self>,
        (admitted, extent): (Admitted, Extent),
        generations: Generations,
        place: Box<dyn Place>,
        recording: &Recording,
    ) -> Permit {
        self.looking.get_or_init(|| look_now_and_then(Arc::downgrade(self)));
        let held = Held {
            admitted,
            extent,
            generations: Mutex::new(generations),
            revoked: AtomicBool::new(false),
            reason: Mutex::new(None),
            waker: AtomicWaker::new(),
            cut: OnceLock::new(),
            was_seen: AtomicBool::new(false),
            recording: recording.downgrade(),
        };
        let held = Arc::new(held);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.held.lock().insert(number, Arc::clone(&held));
        Permit { number, held, place, permits: Arc::downgrade(self) }
    }

    /// Takes back what would not be issued any more, and has the record show what is there for the second time: if this process is
    /// killed, nobody else would ever know of it.
    pub(super) fn look(&self, now: SystemTime) {
        let generations = self.generations();
        // Deciding takes longer than copying the list, and requests come and go meanwhile.
        let held: Vec<Arc<Held>> = self.held.lock().values().cloned().collect();
        for held in held {
            if held.revoked.load(Ordering::Acquire) {
                // It was told so a look ago.
                held.cut.get().into_iter().for_each(CancellationToken::cancel);
                continue;
            }
            if held.was_seen.swap(true, Ordering::Relaxed) {
                held.recording.started();
            }
            let changed = std::mem::replace(&mut *held.generations.lock(), generations) != generations;
            if let Some(reason) = self.why_not(&held, changed, now) {
                *held.reason.lock() = Some(reason);
                held.revoked.store(true, Ordering::Release);
                held.waker.wake();
            }
        }
    }

    fn why_not(&self, Held { admitted, extent, .. }: &Held, changed: bool, now: SystemTime) -> Option<Arc<str>> {
        let expires = admitted.identity.user().and_then(|user| user.expires);
        if expires.is_some_and(|expires| expires <= now) {
            return Some("the credential has expired".into());
        }
        if !changed {
            return None;
        }
        if !self.authenticate.still_holds(&admitted.identity) {
            return Some(REVOKED.into());
        }
        match extent.decide(&*self.authorize, &admitted.access()) {
            Decision::Denied { rule } => Some(rule),
            // A quota is about beginning something.
            Decision::Allowed { .. } | Decision::Limited { .. } => None,
        }
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permits").field("held", &self.held.lock().len()).finish_non_exhaustive()
    }
}

/// Ends with the permits. The first permit starts it, because only then there is a runtime for certain.
#[expect(clippy::disallowed_methods, reason = "the handle aborts the task when it is dropped")]
fn look_now_and_then(permits: Weak<Permits>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(permits) = permits.upgrade() else { return };
            permits.look(SystemTime::now());
        }
    }))
}
