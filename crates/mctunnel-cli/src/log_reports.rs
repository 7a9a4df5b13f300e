//! Logs of containers as reports: each line once, taken up after a restart where the spool says.

use crate::process;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use mctunnel::{
    kube::{
        ClusterAccess, KubeError,
        logs::{ContainerLog, LogCounts, LogFollower, LogLimits, LogLine, LogSelection, TakeLogs},
    },
    report::{Kind, Record, Spool, spool::MOST_CHECKPOINTS},
};
use serde::Serialize;
use std::sync::Arc;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

/// The most containers that may be followed at once: each needs a place in the spool, and so do those that are over.
pub(crate) const MOST_CONTAINERS: usize = MOST_CHECKPOINTS / 4;

/// Whose logs are reported.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogSettings {
    pub(crate) selections: Vec<LogSelection>,
    /// How many containers are followed at once.
    pub(crate) containers: usize,
}

/// Begins to report logs.
pub(crate) fn start(
    settings: &LogSettings,
    access: &ClusterAccess,
    spool: &Spool,
    kind: Kind,
) -> Result<(AbortOnDropHandle<()>, Arc<LogCounts>), KubeError> {
    let limits = LogLimits { containers: settings.containers, places: MOST_CHECKPOINTS };
    let taker = SpooledLogs { spool: spool.clone(), kind };
    let follower = LogFollower::new(access, settings.selections.clone(), limits, taker)?;
    let counts = follower.counts();
    Ok((process::owned(follower.follow()), counts))
}

/// The spool as lines are handed to it.
struct SpooledLogs {
    spool: Spool,
    kind: Kind,
}

impl TakeLogs for SpooledLogs {
    fn taken_up_to(&self, container: &ContainerLog) -> Option<String> {
        let token = self.spool.checkpoint(&self.kind, &follows(container)).ok()??;
        String::from_utf8(token.to_vec()).ok()
    }

    async fn take(
        &self,
        container: &ContainerLog,
        restart: u32,
        lines: Vec<LogLine>,
        place: String,
    ) -> Result<(), String> {
        let source: Arc<str> = container.to_string().into();
        let records: Vec<Record> = lines.iter().filter_map(|line| record(container, &source, restart, line)).collect();
        if records.is_empty() {
            return Ok(());
        }
        let taken = self.spool.append_up_to(&self.kind, records, &follows(container).into(), place.into()).await;
        taken.map_err(|error| format!("{}: {error}", error.code().code))
    }

    fn kept(&self) -> Vec<ContainerLog> {
        let sources = self.spool.sources(&self.kind).unwrap_or_default();
        sources.iter().filter_map(|source| followed(source)).collect()
    }

    fn places(&self) -> usize {
        self.spool.sources(&self.kind).map_or(0, |sources| sources.len())
    }

    fn forget(&self, container: &ContainerLog) {
        if let Err(error) = self.spool.forget(&self.kind, &follows(container)) {
            warn!(%error, %container, "How far a log was taken cannot be forgotten.");
        }
    }
}

/// What the spool remembers the place of a container under: none of the parts can have a slash.
fn follows(container: &ContainerLog) -> String {
    format!("{container}/{}", container.uid)
}

fn followed(source: &str) -> Option<ContainerLog> {
    let mut parts = source.split('/').map(Arc::from);
    let (namespace, pod, container, uid) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(ContainerLog { namespace, pod, uid, container })
}

/// What a record of a log says. Its names are a promise to scripts.
#[derive(Serialize)]
struct Body<'a> {
    uid: &'a str,
    restart: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<&'a str>,
    /// Base64, of a line that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    /// No newline follows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    partial: bool,
}

fn record(container: &ContainerLog, source: &Arc<str>, restart: u32, line: &LogLine) -> Option<Record> {
    let text = std::str::from_utf8(&line.bytes).ok();
    let bytes = text.is_none().then(|| STANDARD.encode(&line.bytes));
    let body = Body { uid: &container.uid, restart, line: text, bytes, partial: line.is_partial };
    let made = serde_json::to_vec(&body).map_err(|error| error.to_string());
    let made = made.and_then(|body| Record::new(line.time_micros, Arc::clone(source), body).map_err(|e| e.to_string()));
    made.inspect_err(|error| warn!(%container, error, "A line cannot be reported.")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mctunnel::report::LaneConfig;
    use std::{collections::BTreeMap, path::Path};

    fn container(pod: &str) -> ContainerLog {
        ContainerLog { namespace: "default".into(), pod: pod.into(), uid: "u-1".into(), container: "app".into() }
    }

    fn line(bytes: &[u8], is_partial: bool) -> LogLine {
        LogLine { time_micros: 7, bytes: bytes.to_vec(), is_partial }
    }

    fn spooled(dir: &Path) -> SpooledLogs {
        let spool = Spool::open(dir, LaneConfig::default(), BTreeMap::new()).unwrap();
        SpooledLogs { spool, kind: Kind::parse("logs").unwrap() }
    }

    #[test]
    fn a_record_has_the_line_as_it_is() {
        let body = |line: LogLine| {
            let record = record(&container("web-0"), &"default/web-0/app".into(), 3, &line).unwrap();
            assert_eq!((record.time, &*record.source), (7, "default/web-0/app"));
            String::from_utf8(record.body.to_vec()).unwrap()
        };
        assert_eq!(body(line(b" a\"\t\r", false)), r#"{"uid":"u-1","restart":3,"line":" a\"\t\r"}"#);
        assert_eq!(body(line(b"", false)), r#"{"uid":"u-1","restart":3,"line":""}"#);
        assert_eq!(body(line(b"\xff\x00", false)), r#"{"uid":"u-1","restart":3,"bytes":"/wA="}"#);
        assert_eq!(body(line("é".as_bytes(), true)), r#"{"uid":"u-1","restart":3,"line":"é","partial":true}"#);
    }

    #[tokio::test]
    async fn the_largest_group_of_the_worst_lines_fits_into_the_spool() {
        let dir = tempfile::tempdir().unwrap();
        let logs = spooled(dir.path());
        let long = |letter: &str| letter.repeat(253);
        let container = ContainerLog {
            namespace: "n".repeat(63).into(),
            pod: long("p").into(),
            uid: "u".repeat(36).into(),
            container: "c".repeat(63).into(),
        };
        // Two of 32 KiB that take six bytes a letter, or as many as go at once.
        let control = line(&[1; 32 << 10], true);
        logs.take(&container, u32::MAX, vec![control.clone(), control], "p".to_owned()).await.unwrap();
        logs.take(&container, u32::MAX, vec![line(&[1; 256], true); 256], "q".to_owned()).await.unwrap();
        assert_eq!(logs.taken_up_to(&container).as_deref(), Some("q"));
    }

    #[tokio::test]
    async fn how_far_a_log_was_taken_outlives_the_agent_until_its_pod_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let (web, job) = (container("web-0"), container("job-1"));
        {
            let logs = spooled(dir.path());
            logs.take(&web, 0, vec![line(b"a", false)], "one".to_owned()).await.unwrap();
            logs.take(&job, 0, vec![line(b"b", false)], "two".to_owned()).await.unwrap();
        }
        let logs = spooled(dir.path());
        assert_eq!(logs.kept(), [job.clone(), web.clone()]);
        assert_eq!(logs.taken_up_to(&job).as_deref(), Some("two"));
        logs.forget(&job);
        logs.take(&web, 0, vec![line(b"c", false)], "three".to_owned()).await.unwrap();
        assert_eq!((logs.kept(), logs.places()), (vec![web.clone()], 1));
        drop(logs);
        let logs = spooled(dir.path());
        assert_eq!((logs.taken_up_to(&web).as_deref(), logs.taken_up_to(&job)), (Some("three"), None));
    }
}
