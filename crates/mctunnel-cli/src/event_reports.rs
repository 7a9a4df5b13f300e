//! Kubernetes events as reports: each change of an event once, taken up after a restart where the spool says.

use crate::process;
use mctunnel::{
    core::target::Label,
    kube::{
        ClusterAccess, KubeError,
        events::{EventFilter, EventFollower, KubeEvent, TakeEvents},
    },
    report::{Kind, Record, Spool},
};
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

/// Which events are reported.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventSettings {
    /// Of these namespaces; of all for `None`.
    pub(crate) namespaces: Vec<Option<Label>>,
    pub(crate) types: Vec<String>,
    pub(crate) reasons: Vec<String>,
}

/// Begins to report the events of each namespace.
pub(crate) fn start(
    settings: &EventSettings,
    access: &ClusterAccess,
    spool: &Spool,
    kind: &Kind,
) -> Result<Vec<AbortOnDropHandle<()>>, KubeError> {
    let begin = |namespace: &Option<Label>| -> Result<_, KubeError> {
        let filter = EventFilter {
            namespace: namespace.clone(),
            types: settings.types.clone(),
            reasons: settings.reasons.clone(),
        };
        let follows = namespace.as_ref().map_or("*", Label::as_str);
        let taker =
            SpooledEvents { spool: spool.clone(), kind: kind.clone(), follows: format!("events:{follows}").into() };
        let follower = EventFollower::new(access, filter, taker)?;
        Ok(process::owned(follower.follow()))
    };
    settings.namespaces.iter().map(begin).collect()
}

/// The spool as events are handed to it.
struct SpooledEvents {
    spool: Spool,
    kind: Kind,
    /// What the spool remembers the version under.
    follows: Arc<str>,
}

impl TakeEvents for SpooledEvents {
    fn taken_up_to(&self) -> Option<String> {
        let token = self.spool.checkpoint(&self.kind, &self.follows).ok()??;
        String::from_utf8(token.to_vec()).ok()
    }

    async fn take(&self, events: Vec<KubeEvent>, version: &str) -> Result<(), String> {
        let records: Vec<Record> = events.into_iter().filter_map(record).collect();
        if records.is_empty() {
            return Ok(());
        }
        let token = version.to_owned().into();
        let taken = self.spool.append_up_to(&self.kind, records, &self.follows, token).await;
        taken.map_err(|error| format!("{}: {error}", error.code().code))
    }
}

fn record(event: KubeEvent) -> Option<Record> {
    let time = humantime::parse_rfc3339_weak(&event.time).unwrap_or_else(|_| SystemTime::now());
    let micros = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let about = event.about.clone();
    match Record::new(i64::try_from(micros).unwrap_or(i64::MAX), event.about, event.json) {
        Ok(record) => Some(record),
        Err(error) => {
            warn!(about, %error, "An event is too large to be reported.");
            None
        }
    }
}
