//! The newest records of a log that are wanted, and those that come.

use super::{AuditFailed, Form, Tail, follow::Follow, in_data_dir, shown::human};
use crate::output;
use mctunnel_audit::{Layout, Record};
use std::{
    collections::VecDeque,
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

impl Tail {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let (active, files) = self.files()?;
        // What is shown ends where following begins.
        let follow = if self.follow { Some(Follow::from_end_of(&active)?) } else { None };
        let limit = follow.as_ref().map(Follow::position);
        for line in self.newest(&files, &active, limit)? {
            output::say(&line);
        }
        if let Some(mut follow) = follow {
            loop {
                let line = follow.next_line()?;
                if let Some(shown) = self.shown(&line) {
                    output::say(&shown);
                }
            }
        }
        Ok(())
    }

    /// The file that is written, and all that have records, oldest first.
    fn files(&self) -> Result<(PathBuf, Vec<PathBuf>), AuditFailed> {
        let layout = match (&self.data_dir, &self.file) {
            (Some(data_dir), _) => in_data_dir(data_dir),
            (None, Some(file)) => Layout::of(file),
            (None, None) => return Err(AuditFailed::NoLog { path: PathBuf::new() }),
        };
        let active = layout.active().to_owned();
        let files = if self.data_dir.is_some() { layout.files()? } else { vec![active.clone()] };
        let is_there = files.iter().any(|file| file.exists());
        if !is_there && !self.follow {
            return Err(AuditFailed::NoLog { path: active });
        }
        Ok((active, files))
    }

    /// The newest that are wanted, in order; older files are read only as far as they are needed.
    fn newest(&self, files: &[PathBuf], active: &Path, limit: Option<u64>) -> anyhow::Result<VecDeque<String>> {
        let mut newest = VecDeque::new();
        for file in files.iter().rev().filter(|file| file.exists()) {
            let limit = limit.filter(|_| file == active).unwrap_or(u64::MAX);
            let missing = self.lines.saturating_sub(newest.len());
            let mut found = VecDeque::new();
            let mut reader = BufReader::new(std::io::Read::take(File::open(file)?, limit));
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line)? > 0 {
                if let Some(shown) = self.shown(&line) {
                    found.push_back(shown);
                    if found.len() > missing {
                        found.pop_front();
                    }
                }
                line.clear();
            }
            found.extend(newest);
            newest = found;
            if newest.len() >= self.lines {
                break;
            }
        }
        Ok(newest)
    }

    /// A line as it is wanted; `None` if it is not.
    fn shown(&self, line: &[u8]) -> Option<String> {
        let line = line.trim_ascii();
        let record = Record::parse(line)?;
        let wanted = |filter: &Option<String>, value: &Option<String>| filter.is_none() || filter == value;
        if !wanted(&self.cluster, &record.cluster) || !wanted(&self.user, &record.user) {
            return None;
        }
        Some(match self.output {
            Form::Human => human(&record),
            Form::Json => String::from_utf8_lossy(line).into_owned(),
        })
    }
}
