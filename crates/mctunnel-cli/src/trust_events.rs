//! Changes of trust, in the audit log beside what was decided by it: which policy and which authentication file count, and which API keys
//! come and go. Seen by looking, so it does not matter who made the change, and how. A change that is undone within a second is not seen.

use crate::{process, trust::Files, watched::Watched};
use mctunnel::core::AuditFull;
use mctunnel_audit::{AuditLog, Fact, Hash};
use mctunnel_authn::ApiKeyStore;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

/// How often somebody looks.
const LOOK: Duration = Duration::from_secs(1);

/// What was seen last.
pub(crate) struct TrustEvents {
    log: Arc<AuditLog>,
    watched: Watched,
    files: Files,
    keys: Arc<dyn ApiKeyStore>,
    told: BTreeMap<&'static str, State>,
    /// The keys that count, with their users; `None` until the first look, which begins with what is there.
    known: Option<BTreeMap<String, String>>,
    /// Of the keys, when they were looked at last.
    generation: u64,
}

/// How often the file was replaced, and why it does not count if it does not.
type State = (u64, Option<String>);

impl TrustEvents {
    /// Looks until it is dropped; without a log nobody does.
    pub(crate) fn follow(
        watched: &Watched,
        files: &Files,
        keys: Arc<dyn ApiKeyStore>,
    ) -> Option<AbortOnDropHandle<()>> {
        let (log, watched, files) = (Arc::clone(watched.audit.as_ref()?), watched.clone(), files.clone());
        let events = Self { log, watched, files, keys, told: BTreeMap::new(), known: None, generation: 0 };
        Some(process::owned(events.look_now_and_then()))
    }

    async fn look_now_and_then(mut self) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for (event, path, state) in self.states() {
                if self.told.get(event) != Some(&state) && self.tell_file(event, &path, &state).await.is_ok() {
                    self.told.insert(event, state);
                }
            }
            self.look_at_keys();
        }
    }

    fn states(&self) -> Vec<(&'static str, PathBuf, State)> {
        let Files { providers, policy, next } = &self.files;
        let chain = self.watched.chain.as_ref().map(|chain| chain.status());
        let of_policy = self.watched.policy.as_ref().map(|policy| policy.status());
        let of_next = self.watched.next.as_ref().map(|(next, _)| next.status());
        let states = [
            ("authentication", Some(providers), chain.map(|status| (status.replaced, status.problem))),
            ("policy", Some(policy), of_policy.map(|status| (status.replaced, status.problem))),
            ("shadow_policy", next.as_ref(), of_next.map(|status| (status.replaced, status.problem))),
        ];
        states.into_iter().filter_map(|(event, path, state)| Some((event, path?.clone(), state?))).collect()
    }

    async fn tell_file(&self, event: &'static str, path: &Path, (_, problem): &State) -> Result<(), AuditFull> {
        let shown = path.display().to_string();
        let mut facts = vec![("file", Fact::Text(&shown))];
        let (to_read, digest);
        match problem {
            Some(problem) => facts.push(("problem", Fact::Text(problem))),
            None => {
                to_read = path.to_owned();
                let read = tokio::task::spawn_blocking(move || fs::read(to_read).ok()).await;
                digest = read.ok().flatten().map(|content| Hash::of(&content).to_string());
                facts.extend(digest.as_ref().map(|digest| ("sha256", Fact::Text(digest))));
            }
        }
        self.log.note(event, &facts)
    }

    fn look_at_keys(&mut self) {
        // The number first: what changes in between is seen the next time.
        let generation = self.keys.generation();
        let is_known = self.known.is_some() && generation == self.generation;
        if is_known || !self.keys.is_current() {
            return;
        }
        let records = self.keys.list().into_iter().filter(|record| record.revoked.is_none());
        let now: BTreeMap<String, String> = records.map(|record| (record.id.clone(), record.user.clone())).collect();
        let Some(known) = &mut self.known else {
            (self.known, self.generation) = (Some(now), generation);
            return;
        };
        let tell = |event, id: &str, user: &str| {
            self.log.note(event, &[("credential", Fact::Text(id)), ("user", Fact::Text(user))])
        };
        for (id, user) in now.iter().filter(|(id, _)| !known.contains_key(*id)).collect::<Vec<_>>() {
            if tell("api_key_created", id, user).is_err() {
                return;
            }
            known.insert(id.clone(), user.clone());
        }
        let gone: Vec<String> = known.keys().filter(|id| !now.contains_key(*id)).cloned().collect();
        for id in gone {
            let user = known.get(&id).cloned().unwrap_or_default();
            if tell("api_key_revoked", &id, &user).is_err() {
                return;
            }
            known.remove(&id);
        }
        self.generation = generation;
    }
}
