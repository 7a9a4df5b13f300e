//! The log of a container as `kubectl logs` would show it, made from records of the kind `logs`: which run of it, and its bytes. Pure.
//!
//! A record's source is `NAMESPACE/POD/CONTAINER`, its time that of the line, its body
//! `{"uid":"POD_UID","restart":N,"line":"..."}`; what is not UTF-8 is in `bytes`, as Base64, and `"partial":true` has no newline.

#[cfg(test)]
mod tests;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mctunnel::{ErrorCode, report::StoredRecord};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, UNIX_EPOCH},
};

/// Whose log is wanted, and how.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogWanted {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    /// None: the only one.
    pub(crate) container: Option<String>,
    /// The run before the newest.
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
    /// Until the run ends.
    pub(crate) follow: bool,
}

impl LogWanted {
    /// The container that a source is of, if it is one that is wanted.
    fn container_of<'a>(&self, source: &'a str) -> Option<&'a str> {
        let of_pod = source.strip_prefix(&self.namespace)?.strip_prefix('/')?;
        let container = of_pod.strip_prefix(&self.pod)?.strip_prefix('/')?;
        self.container.as_deref().is_none_or(|wanted| wanted == container).then_some(container)
    }
}

/// Whose line it is.
#[derive(Deserialize)]
struct Owner {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    restart: u64,
}

/// What a line says.
#[derive(Deserialize)]
struct Line {
    line: Option<String>,
    bytes: Option<String>,
    #[serde(default)]
    partial: bool,
    /// The line's time to the nanosecond, where the agent kept it.
    time: Option<String>,
}

// === Runs ===

/// A uid of Kubernetes has 36 characters.
const LONGEST_UID: usize = 64;
const MOST_CONTAINERS: usize = 100;
/// Pods of one name, and runs of a container, that are told apart.
const MOST_PODS: usize = 1000;
const MOST_RUNS: usize = 1000;
/// Containers that an error names.
const NAMED: usize = 10;

/// The runs of the containers of a pod.
#[derive(Debug, Default)]
pub(crate) struct Runs(BTreeMap<String, OfContainer>);

#[derive(Debug, Default)]
struct OfContainer {
    /// The newest pod of this name.
    uid: String,
    older: BTreeSet<String>,
    /// Its runs, by how often it was restarted before, with the position of the first line.
    runs: BTreeMap<u64, u64>,
}

/// One run of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    container: String,
    uid: String,
    restart: u64,
    /// Earlier pods of the same name.
    older: BTreeSet<String>,
    /// The position of its first line.
    pub(crate) first: u64,
}

impl Runs {
    /// Takes note of a record, if it is a line of what is wanted.
    pub(crate) fn note(&mut self, wanted: &LogWanted, found: &StoredRecord) {
        let Some(container) = wanted.container_of(&found.record.source) else { return };
        let Ok(Owner { uid, restart }) = serde_json::from_slice(&found.record.body) else { return };
        let is_new = !self.0.contains_key(container);
        // Agents choose all of this. What no pod has would only fill the hub's memory.
        if uid.len() > LONGEST_UID || is_new && self.0.len() >= MOST_CONTAINERS {
            return;
        }
        let own = self.0.entry(container.to_owned()).or_default();
        if own.runs.is_empty() {
            own.uid = uid;
        } else if own.older.contains(&uid) {
            // A last line of a pod that was replaced.
            return;
        } else if own.uid != uid {
            own.older.insert(std::mem::replace(&mut own.uid, uid));
            own.runs.clear();
            if own.older.len() > MOST_PODS {
                own.older.pop_first();
            }
        }
        own.runs.entry(restart).or_insert(found.position);
        if own.runs.len() > MOST_RUNS {
            own.runs.pop_first();
        }
    }

    /// The run that is wanted.
    pub(crate) fn choose(self, wanted: &LogWanted) -> Result<Run, NoLog> {
        let pod = || format!("{}/{}", wanted.namespace, wanted.pod);
        if self.0.len() > 1 {
            return Err(NoLog::Several { pod: pod(), containers: self.0.into_keys().take(NAMED).collect() });
        }
        let Some((container, own)) = self.0.into_iter().next() else { return Err(NoLog::Nothing { pod: pod() }) };
        let mut newest_first = own.runs.into_iter().rev();
        let run = if wanted.previous { newest_first.nth(1) } else { newest_first.next() };
        let Some((restart, first)) = run else { return Err(NoLog::NoPrevious { pod: pod(), container }) };
        Ok(Run { container, uid: own.uid, restart, older: own.older, first })
    }
}

/// There is no log to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoLog {
    /// Nothing of it was reported.
    #[error("nothing of a log of {pod} was reported")]
    Nothing { pod: String },
    /// There is one run alone.
    #[error("no previous run of {container} in {pod} was reported")]
    NoPrevious { pod: String, container: String },
    /// It does not say whose.
    #[error("{pod} has several containers: {}", containers.join(", "))]
    Several { pod: String, containers: Vec<String> },
}

impl NoLog {
    pub(crate) fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::Nothing { .. } => (
                "MCT-LOGS-NOTHING",
                "check the names; the agent reports the logs it was told to, and the hub keeps them for --report-keep",
            ),
            Self::NoPrevious { .. } => ("MCT-LOGS-NO-PREVIOUS", "leave out --previous"),
            Self::Several { .. } => ("MCT-LOGS-WHICH-CONTAINER", "name one of them with -c"),
        };
        ErrorCode { code, remedy }
    }
}

// === LogPrinter ===

/// Makes the bytes of one run.
#[derive(Debug)]
pub(crate) struct LogPrinter {
    run: Run,
    wanted: LogWanted,
    /// Behind a newline, or at the beginning.
    at_line_start: bool,
}

/// Whether more can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    More,
    /// The run that is followed has ended: there is a newer one.
    Over,
}

impl LogPrinter {
    pub(crate) fn new(run: Run, wanted: LogWanted) -> Self {
        Self { run, wanted, at_line_start: true }
    }

    /// Whether to wait for more. A previous run has ended.
    pub(crate) fn goes_on(&self) -> bool {
        self.wanted.follow && !self.wanted.previous
    }

    /// Adds what a record has to show.
    pub(crate) fn print(&mut self, found: &StoredRecord, out: &mut Vec<u8>) -> Next {
        if self.wanted.container_of(&found.record.source) != Some(self.run.container.as_str()) {
            return Next::More;
        }
        let Ok(Owner { uid, restart }) = serde_json::from_slice(&found.record.body) else { return Next::More };
        let is_newer = if uid == self.run.uid { restart > self.run.restart } else { !self.run.older.contains(&uid) };
        if is_newer && self.goes_on() {
            return Next::Over;
        }
        if (uid, restart) != (self.run.uid.clone(), self.run.restart) {
            return Next::More;
        }
        let Ok(line) = serde_json::from_slice::<Line>(&found.record.body) else { return Next::More };
        if self.wanted.timestamps && self.at_line_start {
            out.extend_from_slice(line.time.unwrap_or_else(|| to_nanoseconds(found.record.time)).as_bytes());
            out.push(b' ');
        }
        match (&line.line, &line.bytes) {
            (Some(text), _) => out.extend_from_slice(text.as_bytes()),
            (None, Some(encoded)) => out.extend(STANDARD.decode(encoded).unwrap_or_default()),
            (None, None) => {}
        }
        if !line.partial {
            out.push(b'\n');
        }
        self.at_line_start = !line.partial;
        Next::More
    }
}

/// As a kubelet writes it: always nine digits.
fn to_nanoseconds(micros: i64) -> String {
    let time = UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0).min(253_402_300_799_000_000));
    humantime::format_rfc3339_nanos(time).to_string()
}
