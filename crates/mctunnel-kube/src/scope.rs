//! A part of the cluster that is watched as one, all of it or a namespace: what is known of it, and whether anything is.

use crate::view::{Keep, View};
use parking_lot::RwLock;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// How long a request waits for the first list.
pub(crate) const FIRST_LIST: Duration = Duration::from_secs(5);

/// What is watched as one.
#[derive(Debug)]
pub(crate) struct Scope {
    /// As people call it, for the log.
    label: String,
    zone: Option<Arc<str>>,
    view: RwLock<View>,
    phases: watch::Sender<Phases>,
    changes: watch::Sender<u64>,
}

impl Scope {
    pub(crate) fn new(label: String, zone: Option<Arc<str>>, changes: watch::Sender<u64>) -> Self {
        Self { label, zone, view: RwLock::default(), phases: watch::Sender::new(Phases::default()), changes }
    }

    /// Answers from what is known.
    pub(crate) fn read<R>(&self, ask: impl FnOnce(&View) -> R) -> R {
        ask(&self.view.read())
    }

    /// Waits until it is known, or known to be denied, but not longer than [`FIRST_LIST`].
    pub(crate) async fn settled(&self) -> Knowledge {
        let mut phases = self.phases.subscribe();
        let settled = timeout(FIRST_LIST, phases.wait_for(|phases| !matches!(phases.sum(), Knowledge::Waiting(_))));
        match settled.await {
            Ok(Ok(phases)) => phases.sum(),
            Ok(Err(_)) | Err(_) => self.phases.borrow().sum(),
        }
    }

    /// Replaces all objects of a kind by those of a new list.
    pub(crate) fn replace<T: Keep>(&self, objects: Vec<T>) {
        {
            let mut view = self.view.write();
            T::forget_all(&mut view);
            for object in objects {
                object.keep(&mut view, self.zone.as_deref());
            }
        }
        if self.enter::<T>(Phase::Known) == Phase::Denied {
            tracing::info!(scope = %self.label, "the agent may watch {} again", T::KIND);
        }
        self.tell();
    }

    /// Takes an object that was added or changed.
    pub(crate) fn keep<T: Keep>(&self, object: T) {
        object.keep(&mut self.view.write(), self.zone.as_deref());
        self.tell();
    }

    /// Forgets an object that was deleted.
    pub(crate) fn forget<T: Keep>(&self, object: &T) {
        object.forget(&mut self.view.write());
        self.tell();
    }

    /// The agent may not see objects of this kind, now or any more.
    pub(crate) fn deny<T: Keep>(&self, reason: &str) {
        T::forget_all(&mut self.view.write());
        if self.enter::<T>(Phase::Denied) != Phase::Denied {
            tracing::warn!(
                scope = %self.label,
                reason,
                "the agent may not watch {}: services are found by DNS, at port numbers only",
                T::KIND
            );
        }
        self.tell();
    }

    /// The kube-apiserver could not be asked. What is known stays.
    pub(crate) fn fail<T: Keep>(&self, reason: &str) {
        tracing::debug!(scope = %self.label, reason, "watching {} failed", T::KIND);
        self.phases.send_if_modified(|phases| {
            let phase = T::phase(phases);
            if let Phase::Waiting(last) = phase {
                *last = Some(reason.into());
            }
            matches!(phase, Phase::Waiting(_))
        });
    }

    fn enter<T: Keep>(&self, phase: Phase) -> Phase {
        let mut last = phase.clone();
        self.phases.send_modify(|phases| last = std::mem::replace(T::phase(phases), phase));
        last
    }

    fn tell(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

// === Phases ===

/// How much is known of each kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct Phases {
    pub(crate) services: Phase,
    pub(crate) slices: Phase,
}

/// How much is known of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No list has arrived; with the last reason, if there is one.
    Waiting(Option<Arc<str>>),
    /// All of it.
    Known,
    /// The agent may not know.
    Denied,
}

impl Default for Phase {
    fn default() -> Self {
        Self::Waiting(None)
    }
}

/// How much is known in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// Not enough yet, and why.
    Waiting(String),
    /// Everything.
    Known,
    /// It will not be known: one of the two kinds is denied, and one without the other says nothing.
    Denied,
}

impl Phases {
    fn sum(&self) -> Knowledge {
        match (&self.services, &self.slices) {
            (Phase::Denied, _) | (_, Phase::Denied) => Knowledge::Denied,
            (Phase::Known, Phase::Known) => Knowledge::Known,
            (Phase::Waiting(Some(reason)), _) | (_, Phase::Waiting(Some(reason))) => {
                Knowledge::Waiting(reason.to_string())
            }
            (Phase::Waiting(None), _) | (_, Phase::Waiting(None)) => {
                Knowledge::Waiting("the kube-apiserver has not answered yet".to_owned())
            }
        }
    }
}
