//! A sink for reports: a file, one JSON object a line, as `mctunnel reports -o json` shows them.

use crate::reports::LineForm;
use mctunnel::report::{Kind, NotTaken, Sink, StoredRecord};
use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// The file. It is opened for each group of records, so that somebody may move it away and process it.
pub(crate) struct ReportFile {
    path: PathBuf,
}

impl ReportFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl Sink for ReportFile {
    fn name(&self) -> &str {
        "file"
    }

    async fn deliver(&self, kind: &Kind, records: &[StoredRecord]) -> Result<(), NotTaken> {
        let lines: String = records.iter().map(|found| LineForm::Json.line(kind, found) + "\n").collect();
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || append(&path, lines.as_bytes())).await;
        let written = written.map_err(|error| error.to_string())?;
        Ok(written.map_err(|error| format!("{}: {error}", self.path.display()))?)
    }
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let len = file.metadata()?.len();
    // Half a line is worse than none.
    file.write_all(bytes).and_then(|()| file.sync_data()).inspect_err(|_| drop(file.set_len(len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mctunnel::{ClusterName, report::Record};

    #[tokio::test]
    async fn each_record_is_a_line_and_a_file_that_was_moved_away_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reports.ndjson");
        let (sink, kind) = (ReportFile::new(path.clone()), Kind::parse("deploys").unwrap());
        let found = |position| StoredRecord {
            cluster: ClusterName::parse("c1").unwrap(),
            number: position + 1,
            position,
            received: 0,
            record: Record::new(1_000_000, "ci", "{\"a\":\"x\\ny\"}").unwrap(),
        };
        sink.deliver(&kind, &[found(0), found(1)]).await.unwrap();
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        sink.deliver(&kind, &[found(2)]).await.unwrap();
        let old = std::fs::read_to_string(dir.path().join("old")).unwrap();
        assert_eq!(old.lines().count(), 2);
        let line: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let expected = serde_json::json!({
            "time": "1970-01-01T00:00:01.000000Z", "cluster": "c1", "kind": "deploys", "source": "ci",
            "number": 3, "position": 2, "body": {"a": "x\ny"},
        });
        assert_eq!(line, expected);
    }

    #[tokio::test]
    async fn what_could_not_be_written_is_an_error() {
        let sink = ReportFile::new("/proc/nowhere/reports".into());
        let record = Record::new(0, "s", "{}").unwrap();
        let cluster = ClusterName::parse("c1").unwrap();
        let found = StoredRecord { cluster, number: 1, position: 0, received: 0, record };
        assert!(sink.deliver(&Kind::parse("x").unwrap(), &[found]).await.is_err());
    }
}
