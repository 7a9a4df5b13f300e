//! `mctunnel reports` and `events`: what clusters reported, read from the hub's data directory, whether the hub runs or not, or from
//! the hub.

use crate::{
    hub_client::HubClient,
    hub_reports::DIRECTORY,
    output,
    report_place::{Place, ReportPlace, query},
};
use clap::{Args, ValueEnum};
use mctunnel::{
    ClusterName,
    report::{Kind, Query, ReportError, StoreReader, StoredRecord, kind::InvalidKind},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt::Display,
    path::Path,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Until the next look for more.
const PAUSE: Duration = Duration::from_millis(100);

/// What `mctunnel reports` takes.
#[derive(Debug, Args)]
pub(crate) struct Reports {
    /// Only records of this kind; else of all, one kind after the other
    #[arg(short, long, value_name = "KIND")]
    kind: Option<String>,
    #[command(flatten)]
    shown: Shown,
}

/// What `mctunnel events` takes.
#[derive(Debug, Args)]
pub(crate) struct Events {
    #[command(flatten)]
    shown: Shown,
}

/// Which records, and how.
#[derive(Debug, Args)]
pub(crate) struct Shown {
    #[command(flatten)]
    place: ReportPlace,
    /// Only records of this cluster
    #[arg(short, long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only records of sources that begin so
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// Only records that are not older
    #[arg(long, value_name = "TIME")]
    since: Option<humantime::Duration>,
    /// Go on with records as they come
    #[arg(short, long)]
    watch: bool,
    /// The form of the lines
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    output: LineForm,
}

/// The form of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LineForm {
    /// Time, cluster, source and body, for people
    Text,
    /// One JSON object a line
    Json,
}

impl Reports {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let kind = self.kind.as_deref().map(Kind::parse).transpose()?;
        match self.shown.place.place()? {
            Place::Hub(hub) => self.shown.ask(&hub, "/-/v1/reports", kind.as_ref()),
            Place::Files(dir) => self.shown.read(&dir.join(DIRECTORY), kind.as_ref()),
        }
    }
}

impl Events {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.shown.place.place()? {
            Place::Hub(hub) => self.shown.ask(&hub, "/-/v1/events", None),
            Place::Files(dir) => self.shown.read(&dir.join(DIRECTORY), Some(&Kind::parse("events")?)),
        }
    }
}

impl Shown {
    /// From a hub.
    fn ask(&self, hub: &HubClient, page: &str, kind: Option<&Kind>) -> anyhow::Result<()> {
        let path = query(&[
            ("kind", kind.map(ToString::to_string)),
            ("cluster", self.cluster.clone()),
            ("source", self.source.clone()),
            ("since", self.since.map(|since| since.to_string())),
            ("watch", self.watch.then(|| "true".to_owned())),
        ]);
        let mut lines = Lines::default();
        let mut show =
            |line: &[u8]| self.output.shown(line).is_none_or(|line| output::raw(format!("{line}\n").as_bytes()));
        hub.follow(&format!("{page}{path}"), |bytes| lines.take(bytes, &mut show))
    }

    /// From the files of a hub: of one kind, or of all that there are.
    fn read(&self, dir: &Path, only: Option<&Kind>) -> anyhow::Result<()> {
        let cluster = self.cluster.as_deref().map(ClusterName::parse).transpose()?;
        let since = self.since.map_or(i64::MIN, |since| micros_ago(*since));
        let query = |kind| Query { cluster: cluster.clone(), since, ..Query::new(kind) };
        let kinds = || match only {
            Some(kind) => Ok(vec![kind.clone()]),
            None => StoreReader::kinds(dir),
        };
        let print = |kind: &Kind, found: &StoredRecord| {
            if self.source.as_ref().is_none_or(|source| found.record.source.starts_with(source)) {
                output::say(&self.output.line(kind, found));
            }
        };
        each(kinds, |kind| StoreReader::new(dir, query(kind)), self.watch, print)
    }
}

/// Whole lines of an answer that comes in pieces.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    /// Hands on the lines that are whole now; says whether more are wanted.
    fn take(&mut self, bytes: &[u8], show: &mut impl FnMut(&[u8]) -> bool) -> bool {
        self.0.extend_from_slice(bytes);
        let Some(end) = self.0.iter().rposition(|byte| *byte == b'\n') else { return true };
        let rest = self.0.split_off(end + 1);
        let whole = std::mem::replace(&mut self.0, rest);
        whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).all(show)
    }
}

/// Shows every record to `print`, for ever if asked to, and then of kinds too that were not there before.
fn each(
    kinds: impl Fn() -> Result<Vec<Kind>, ReportError>,
    reader: impl Fn(Kind) -> StoreReader,
    go_on: bool,
    print: impl Fn(&Kind, &StoredRecord),
) -> anyhow::Result<()> {
    let mut readers: BTreeMap<Kind, StoreReader> = BTreeMap::new();
    loop {
        let mut more = false;
        for kind in kinds()? {
            readers.entry(kind).or_insert_with_key(|kind| reader(kind.clone()));
        }
        for (kind, reader) in &mut readers {
            while let Some(records) = reader.next_records()? {
                more = true;
                records.iter().for_each(|found| print(kind, found));
            }
        }
        if !go_on {
            return Ok(());
        }
        if !more {
            thread::sleep(PAUSE);
        }
    }
}

impl LineForm {
    pub(crate) fn line(
        self,
        kind: &Kind,
        StoredRecord { cluster, number, position, record, .. }: &StoredRecord,
    ) -> String {
        let time = humantime::format_rfc3339_micros(moment(record.time));
        match self {
            Self::Text => text(&time, cluster.as_str(), &record.source, &String::from_utf8_lossy(&record.body)),
            Self::Json => {
                let text = || Value::String(String::from_utf8_lossy(&record.body).into_owned());
                let body: Value = serde_json::from_slice(&record.body).unwrap_or_else(|_| text());
                let (cluster, kind) = (cluster.as_str(), kind.as_str());
                json!({
                    "time": time.to_string(), "cluster": cluster, "kind": kind, "source": &*record.source,
                    "number": number, "position": position, "body": body,
                })
                .to_string()
            }
        }
    }

    /// A line of a hub, which is JSON; none if it is not.
    fn shown(self, line: &[u8]) -> Option<String> {
        let record: Value = serde_json::from_slice(line).ok()?;
        Some(match self {
            Self::Json => record.to_string(),
            Self::Text => {
                let field = |name: &str| record.get(name).and_then(Value::as_str).unwrap_or_default();
                let body = record.get("body").unwrap_or(&Value::Null);
                let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
                text(&field("time"), field("cluster"), field("source"), &body)
            }
        })
    }
}

/// A record for people. Whoever reports chooses the letters; the terminal is not theirs.
fn text(time: &impl Display, cluster: &str, source: &str, body: &str) -> String {
    let line = format!("{time} {cluster} {source} {body}");
    line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

pub(crate) fn micros_ago(time: Duration) -> i64 {
    let then = SystemTime::now().checked_sub(time).unwrap_or(UNIX_EPOCH);
    let since = then.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A time that a cluster claims, as far as there is a date for it.
pub(crate) fn moment(micros: i64) -> SystemTime {
    const LATEST: u64 = 253_402_300_799_000_000;
    UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0).min(LATEST))
}

/// The code for a kind that is none.
pub(crate) fn code_of(_: &InvalidKind) -> mctunnel::ErrorCode {
    mctunnel::ErrorCode {
        code: "MCT-REPORT-BAD-KIND",
        remedy: "name a kind such as events; 'mctunnel reports' shows all",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mctunnel::report::Record;

    #[test]
    fn a_hub_and_its_files_show_the_same_text() {
        let record = Record::new(1_000_000, "a/\u{1b}b", "{\"x\":\"\u{1b}\"}".to_owned()).unwrap();
        let cluster = ClusterName::parse("c1").unwrap();
        let (kind, found) =
            (Kind::parse("deploys").unwrap(), StoredRecord { cluster, number: 1, position: 0, received: 0, record });
        let line = LineForm::Json.line(&kind, &found);
        let from_hub = LineForm::Text.shown(line.as_bytes()).unwrap();
        assert_eq!(from_hub, LineForm::Text.line(&kind, &found).replace('\u{1b}', " "));
        assert!(!from_hub.contains('\u{1b}'), "{from_hub:?}");
        assert_eq!(LineForm::Text.shown(b"<html>"), None);
    }

    #[test]
    fn lines_are_put_together_from_pieces() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for piece in ["{\"a", "\":1}\n{}", "\n{\"b\":2}\n", "{"] {
            assert!(lines.take(piece.as_bytes(), &mut |line| {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
                true
            }));
        }
        assert_eq!(seen, ["{\"a\":1}", "{}", "{\"b\":2}"]);
        assert!(!lines.take(b"}\n", &mut |_| false), "whoever reads has enough");
    }
}
