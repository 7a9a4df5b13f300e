//! Decides which containers are followed: all of the chosen pods, up to a limit. Those that wait begin when others are over.

use super::{
    ContainerLog, LogCounts, LogLimits, TakeLogs,
    chosen::{Chosen, Containers, PodName},
    container::{ContainerFollower, Ended},
    pod::{Instance, Phase},
};
use kube::Client;
use std::{collections::BTreeMap, sync::Arc};
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
};

/// Follows the containers of all chosen pods.
pub(crate) struct FollowAll<T> {
    client: Client,
    taker: Arc<T>,
    chosen: Arc<Chosen>,
    selections: usize,
    limits: LogLimits,
    counts: Arc<LogCounts>,
    followed: BTreeMap<Arc<ContainerLog>, watch::Sender<Option<Instance>>>,
    /// Those of which everything was taken, with what was known of them then.
    over: BTreeMap<Arc<ContainerLog>, Instance>,
    /// Those for which there is no room.
    waiting: BTreeMap<Arc<ContainerLog>, Instance>,
    tasks: JoinSet<(Arc<ContainerLog>, Ended)>,
    /// Whether places of pods that are gone since before the start were forgotten.
    is_swept: bool,
    has_warned: bool,
}

impl<T: TakeLogs> FollowAll<T> {
    pub(crate) fn new(
        client: Client,
        taker: Arc<T>,
        (chosen, selections): (Arc<Chosen>, usize),
        limits: LogLimits,
        counts: Arc<LogCounts>,
    ) -> Self {
        Self {
            client,
            taker,
            chosen,
            selections,
            limits,
            counts,
            followed: BTreeMap::new(),
            over: BTreeMap::new(),
            waiting: BTreeMap::new(),
            tasks: JoinSet::new(),
            is_swept: false,
            has_warned: false,
        }
    }

    /// Follows for ever.
    pub(crate) async fn run(mut self) {
        let chosen = Arc::clone(&self.chosen);
        loop {
            tokio::select! {
                () = chosen.changed() => self.take_changes(),
                Some(ended) = self.tasks.join_next() => self.ended(ended),
            }
            self.fill();
            self.counts.set(self.followed.len(), self.waiting.len());
        }
    }

    fn take_changes(&mut self) {
        for (pod, containers) in self.chosen.take_changes() {
            match containers {
                Some(containers) => self.consider_pod(&pod, containers),
                None => self.forget_pod(&pod),
            }
        }
        if !self.is_swept && self.chosen.all_listed(self.selections) {
            self.is_swept = true;
            self.sweep();
        }
    }

    fn consider_pod(&mut self, pod: &PodName, containers: Containers) {
        for (name, instance) in containers {
            let PodName { namespace, name: pod, uid } = pod.clone();
            self.consider(Arc::new(ContainerLog { namespace, pod, uid, container: name }), instance);
        }
    }

    fn consider(&mut self, container: Arc<ContainerLog>, instance: Instance) {
        if let Some(follower) = self.followed.get(&container) {
            follower.send_if_modified(|known| known.replace(instance) != Some(instance));
        } else if instance.phase != Phase::NotYet && self.over.get(&container) != Some(&instance) {
            self.over.remove(&container);
            self.waiting.insert(container, instance);
        }
    }

    /// Begins as many of those that wait as there is room for.
    fn fill(&mut self) {
        while !self.waiting.is_empty()
            && self.followed.len() < self.limits.containers
            && self.followed.len() + self.taker.places() < self.limits.places
            && let Some((container, instance)) = self.waiting.pop_first()
        {
            let (tell, instances) = watch::channel(Some(instance));
            let follower = ContainerFollower {
                client: self.client.clone(),
                taker: Arc::clone(&self.taker),
                container: Arc::clone(&container),
                instances,
                counts: Arc::clone(&self.counts),
            };
            let named = Arc::clone(&container);
            self.tasks.spawn(async move { (named, follower.follow().await) });
            self.followed.insert(container, tell);
        }
        if self.waiting.is_empty() {
            self.has_warned = false;
        } else if !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                followed = self.followed.len(),
                waiting = self.waiting.len(),
                limit = self.limits.containers,
                "More containers were chosen than logs may be followed at once; the others wait. Choose fewer, or raise the limit."
            );
        }
    }

    fn ended(&mut self, ended: Result<(Arc<ContainerLog>, Ended), JoinError>) {
        let (container, ended) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(%error, "A follower of a log has failed.");
                self.followed.retain(|_, follower| !follower.is_closed());
                return;
            }
        };
        let Some(known) = self.followed.remove(&container).map(|follower| *follower.borrow()) else { return };
        match (known, ended) {
            (None, _) => self.taker.forget(&container),
            // It was let go of, and chosen again before that was seen.
            (Some(known), Ended::Gone) => self.consider(container, known),
            (Some(known), Ended::Over(instance)) if known == instance => {
                self.over.insert(container, instance);
            }
            // It went on just then.
            (Some(known), Ended::Over(_)) => self.consider(container, known),
        }
    }

    fn forget_pod(&mut self, pod: &PodName) {
        let PodName { namespace, name, uid } = pod.clone();
        let first = ContainerLog { namespace, pod: name, uid, container: "".into() };
        let is_of_pod = |container: &ContainerLog| container.is_beside(&first);
        let of_pod = self.followed.range::<ContainerLog, _>(&first..).take_while(|(container, _)| is_of_pod(container));
        // What is left of their logs is still read.
        of_pod.for_each(|(_, follower)| {
            follower.send_replace(None);
        });
        for known in [&mut self.over, &mut self.waiting] {
            let of_pod = known.range::<ContainerLog, _>(&first..).map(|(container, _)| container);
            let of_pod: Vec<_> = of_pod.take_while(|container| is_of_pod(container)).cloned().collect();
            for container in of_pod {
                known.remove(&container);
                self.taker.forget(&container);
            }
        }
    }

    /// Forgets how far the logs of pods were taken that went while nobody looked.
    fn sweep(&self) {
        for container in self.taker.kept() {
            let ContainerLog { namespace, pod: name, uid, .. } = container.clone();
            if !self.chosen.has(&PodName { namespace, name, uid }) {
                self.taker.forget(&container);
            }
        }
    }
}
