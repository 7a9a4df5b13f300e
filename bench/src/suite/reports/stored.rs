//! Whether the hub's store has what was posted: every record once, and those of each source in order.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, bail};
use mctunnel_report::{Kind, Query, StoreReader};

use crate::{
    post::{CONNECTIONS, KIND, records_of, source_name},
    records::Records,
};

/// Looks at everything that was stored after runs with so many records each.
pub(super) fn check(store: &Path, runs: &[usize]) -> Result<()> {
    let expected = |source| (source_name(source), Expected::new(source, runs));
    let mut expected: BTreeMap<String, Expected> = (0..CONNECTIONS).map(expected).collect();
    let mut reader = StoreReader::new(store, Query::new(Kind::parse(KIND)?));
    while let Some(found) = reader.next_records()? {
        for found in found {
            let source = expected.get_mut(found.record.source.as_ref()).context("a source that did not report")?;
            if source.next()? != found.record.body.as_ref() {
                bail!("record {} is not the one that follows in {}", found.number, found.record.source);
            }
        }
    }
    match expected.values().map(|source| source.left()).sum() {
        0 => Ok(()),
        left => bail!("{left} records that the hub counted are not in its store"),
    }
}

/// What is yet to come of a source, which begins anew in every run.
struct Expected {
    source: usize,
    /// Records of each run, the last one first.
    runs: Vec<usize>,
    records: Records,
    body: Vec<u8>,
}

impl Expected {
    fn new(source: usize, runs: &[usize]) -> Self {
        let runs = runs.iter().rev().map(|count| count / CONNECTIONS).collect();
        Self { source, runs, records: records_of(source), body: Vec::new() }
    }

    fn left(&self) -> usize {
        self.runs.iter().sum()
    }

    fn next(&mut self) -> Result<&[u8]> {
        while self.runs.pop_if(|left| *left == 0).is_some() {
            self.records = records_of(self.source);
        }
        let left = self.runs.last_mut().context("more is stored than was reported")?;
        *left -= 1;
        self.body.clear();
        self.records.write(&mut self.body)?;
        Ok(&self.body)
    }
}
