//! Changes of trust, in the audit log beside what was decided by it: which policy and which authentication file count, and which API keys
//! come and go. Seen by looking, so it does not matter who made the change, and how. A change that is undone within a second is not seen.

use crate::{process, trust::Files, watched::Watched};
use mctunnel::core::AuditFull;
use mctunnel_audit::{AuditLog, Fact, Hash};
use mctunnel_authn::{ApiKeyStore, ChainStatus};
use mctunnel_policy::{PolicyStatus, PolicyText};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

/// How often somebody looks: twice for each time that those who watch the files look, so that what counted is seen even if the next
/// one takes its place at once.
const LOOK: Duration = Duration::from_millis(250);

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

/// How a file is.
#[derive(Debug, Clone)]
struct State {
    /// How often what counts was replaced.
    replaced: u64,
    /// What counts now; it may be older than the file.
    counts: Option<Content>,
    /// Why the file as it is now does not count if it does not.
    problem: Option<String>,
}

/// What counts, as it was when it was read.
#[derive(Debug, Clone)]
enum Content {
    Text(PolicyText),
    Digest(String),
}

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
                let told = self.told.get(event).map(|told| (told.replaced, told.problem.as_ref()));
                let is_new = told.is_none_or(|(replaced, _)| replaced != state.replaced);
                let is_other = told.is_none_or(|(_, problem)| problem != state.problem.as_ref());
                if (is_new || is_other) && tell_file(&self.log, event, &path, &state, is_new).await.is_ok() {
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
            ("authentication", Some(providers), chain.map(State::from)),
            ("policy", Some(policy), of_policy.map(State::from)),
            ("shadow_policy", next.as_ref(), of_next.map(State::from)),
        ];
        states.into_iter().filter_map(|(event, path, state)| Some((event, path?.clone(), state?))).collect()
    }

    fn look_at_keys(&mut self) {
        let generation = self.keys.generation();
        if self.known.is_some() && generation == self.generation {
            return;
        }
        let Some(now) = keys_at(&*self.keys, generation) else { return };
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

/// The keys that count, with their users; `None` if they may have changed, or been forgotten, while they were looked at: the next look
/// sees them.
fn keys_at(keys: &dyn ApiKeyStore, generation: u64) -> Option<BTreeMap<String, String>> {
    let is_so = || keys.is_current() && keys.generation() == generation;
    if !is_so() {
        return None;
    }
    let records = keys.list().into_iter().filter(|record| record.revoked.is_none());
    let now = records.map(|record| (record.id.clone(), record.user.clone())).collect();
    // A store that forgets its keys in between gives none at all, which is not that all are revoked.
    is_so().then_some(now)
}

/// Says how a file is: what counts if that is new, and what is wrong with the file if anything is.
async fn tell_file(
    log: &AuditLog,
    event: &'static str,
    path: &Path,
    state: &State,
    is_new: bool,
) -> Result<(), AuditFull> {
    let shown = path.display().to_string();
    let counts = state.counts.clone().filter(|_| is_new);
    let digest = match counts {
        Some(Content::Text(text)) => {
            // It may be long.
            let hashing = tokio::task::spawn_blocking(move || Hash::of(text.as_str().as_bytes()).to_string());
            Some(hashing.await.map_err(|_| AuditFull)?)
        }
        Some(Content::Digest(digest)) => Some(digest),
        None => None,
    };
    let mut facts = vec![("file", Fact::Text(&shown))];
    facts.extend(digest.as_ref().map(|digest| ("sha256", Fact::Text(digest))));
    facts.extend(state.problem.as_ref().map(|problem| ("problem", Fact::Text(problem))));
    log.note(event, &facts)
}

impl From<ChainStatus> for State {
    fn from(ChainStatus { replaced, sha256, problem }: ChainStatus) -> Self {
        Self { replaced, counts: sha256.map(Content::Digest), problem }
    }
}

impl From<PolicyStatus> for State {
    fn from(PolicyStatus { replaced, text, problem, .. }: PolicyStatus) -> Self {
        Self { replaced, counts: text.map(Content::Text), problem }
    }
}

#[cfg(test)]
mod tests;
