//! Which tunnel is the active one of each cluster. Exactly one is: the newest that was admitted, by generation.

use crate::Config;
use mctunnel_core::ClusterName;
use mctunnel_tunnel::Session;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// The tunnels of a hub.
pub(crate) struct Registry {
    slots: Mutex<BTreeMap<ClusterName, Slot>>,
    /// Told at every change, for those who wait for a cluster to come back.
    changed: Notify,
    takeovers_per_minute: usize,
    duel_wait: Duration,
    reconnecting: Duration,
    begun: Instant,
}

/// One cluster's place. It stays when the tunnel goes, so that generations only rise.
#[derive(Default)]
struct Slot {
    generation: u64,
    active: Option<Active>,
    takeovers: VecDeque<Instant>,
    /// When its last tunnel ended.
    left: Option<Instant>,
}

struct Active {
    generation: u64,
    instance: String,
    peer: String,
    since: Instant,
    session: Session,
}

/// A tunnel, for people and metrics.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TunnelStatus {
    /// Which cluster.
    pub cluster: ClusterName,
    /// Its generation.
    pub generation: u64,
    /// The agent process.
    pub instance: String,
    /// Where the agent connects from.
    pub peer: String,
    /// How long it has been up.
    pub up: Duration,
    /// Streams open on it.
    pub streams: usize,
    /// Round-trip time, once measured.
    pub rtt: Option<Duration>,
}

/// Leave to register: the generation the tunnel will have.
#[derive(Debug)]
pub(crate) struct Leave {
    pub(crate) generation: u64,
}

/// Two agents fight for a cluster; the newcomer must wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Duel {
    pub(crate) retry_after: Duration,
}

/// What activating a tunnel changed.
#[derive(Debug)]
pub(crate) enum Activated {
    /// The cluster had none.
    First,
    /// An older one was active; it is to be drained.
    Replaced { old: Session, old_generation: u64, duel: bool },
    /// A newer one came first; this one is to be drained.
    Outdated,
}

impl Registry {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            slots: Mutex::new(BTreeMap::new()),
            changed: Notify::new(),
            takeovers_per_minute: config.takeovers_per_minute,
            duel_wait: config.duel_wait,
            reconnecting: config.reconnecting,
            begun: Instant::now(),
        }
    }

    /// Asks for leave to register. The same process coming back is never a duel; another one is, while the old tunnel lives.
    pub(crate) fn ask(&self, cluster: &ClusterName, instance: &str) -> Result<Leave, Duel> {
        let mut slots = self.slots.lock();
        let slot = slots.entry(cluster.clone()).or_default();
        let now = Instant::now();
        slot.takeovers.retain(|at| now.duration_since(*at) < Duration::from_secs(60));
        let rival = slot.active.as_ref().is_some_and(|a| a.instance != instance && a.session.is_usable());
        if rival {
            if slot.takeovers.len() >= self.takeovers_per_minute {
                return Err(Duel { retry_after: self.duel_wait });
            }
            slot.takeovers.push_back(now);
        }
        slot.generation += 1;
        Ok(Leave { generation: slot.generation })
    }

    /// Makes the tunnel the active one, unless a newer one already is.
    pub(crate) fn activate(
        &self,
        cluster: &ClusterName,
        leave: &Leave,
        instance: &str,
        peer: &str,
        session: &Session,
    ) -> Activated {
        let mut slots = self.slots.lock();
        let slot = slots.entry(cluster.clone()).or_default();
        if slot.active.as_ref().is_some_and(|a| a.generation > leave.generation) {
            return Activated::Outdated;
        }
        let old = slot.active.replace(Active {
            generation: leave.generation,
            instance: instance.to_owned(),
            peer: peer.to_owned(),
            since: Instant::now(),
            session: session.clone(),
        });
        let duel = slot.takeovers.len() > 1;
        drop(slots);
        self.changed.notify_waiters();
        match old {
            None => Activated::First,
            Some(old) => Activated::Replaced { old_generation: old.generation, old: old.session, duel },
        }
    }

    /// The tunnel is over. A newer one that has taken its place stays.
    pub(crate) fn deactivate(&self, cluster: &ClusterName, generation: u64) {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get_mut(cluster)
            && slot.active.take_if(|a| a.generation == generation).is_some()
        {
            slot.left = Some(Instant::now());
        }
    }

    /// Whether a cluster that has no usable tunnel may have one in a moment: its last one is ending or has just ended, or the hub has
    /// just begun and its agents are on their way.
    pub(crate) fn is_reconnecting(&self, cluster: &ClusterName) -> bool {
        let now = Instant::now();
        let is_recent = |at: Instant| now.duration_since(at) < self.reconnecting;
        if is_recent(self.begun) {
            return true;
        }
        let slots = self.slots.lock();
        slots.get(cluster).is_some_and(|slot| slot.active.is_some() || slot.left.is_some_and(is_recent))
    }

    /// The active tunnel of a cluster, if streams can be opened on it.
    pub(crate) fn active(&self, cluster: &ClusterName) -> Option<Session> {
        let slots = self.slots.lock();
        let active = slots.get(cluster)?.active.as_ref()?;
        active.session.is_usable().then(|| active.session.clone())
    }

    /// As [`Registry::active`], but waits until there is one.
    pub(crate) async fn wait_for_active(&self, cluster: &ClusterName) -> Session {
        loop {
            let changed = self.changed.notified();
            if let Some(session) = self.active(cluster) {
                return session;
            }
            changed.await;
        }
    }

    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.slots.lock().values().filter_map(|slot| Some(slot.active.as_ref()?.session.clone())).collect()
    }

    pub(crate) fn tunnels(&self) -> Vec<TunnelStatus> {
        let slots = self.slots.lock();
        let status = |(cluster, slot): (&ClusterName, &Slot)| {
            // One that has ended may still be saying goodbye to nobody.
            let active = slot.active.as_ref().filter(|active| active.session.ending().is_none())?;
            Some(TunnelStatus {
                cluster: cluster.clone(),
                generation: active.generation,
                instance: active.instance.clone(),
                peer: active.peer.clone(),
                up: active.since.elapsed(),
                streams: active.session.streams(),
                rtt: active.session.rtt(),
            })
        };
        slots.iter().filter_map(status).collect()
    }
}
