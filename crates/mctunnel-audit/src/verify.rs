//! Verifying a record: every line is what was written, follows the line before it, and agrees with the checkpoints.

use crate::{
    AuditError,
    chain::{Hash, Head, Sealed, unseal},
    read::Record,
    writer::TORN,
};
use std::{
    fmt,
    fs::File,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
};

/// What a record that holds has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// How many records.
    pub records: u64,
    /// The number of the first. Not 1 when older files are not among those verified.
    pub first: u64,
    /// The last. Kept elsewhere, it shows later whether anything up to here was changed or taken away.
    pub head: Option<Head>,
    /// Places where a crash left bytes that are no record, each vouched for by the record behind it.
    pub torn: u64,
    /// Bytes of a line that was not finished at the end, as a crash leaves them or as a writer that is at work.
    pub unfinished: u64,
    /// Checkpoints older than the first record, which say nothing about these files.
    pub unused: Vec<Head>,
}

/// Where the chain breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The file.
    pub file: PathBuf,
    /// The line in it, from 1.
    pub line: u64,
    /// How.
    pub problem: Problem,
}

/// How a chain breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The line is no record, or was changed after it was written.
    Changed,
    /// Records are missing in front of the line.
    Missing {
        /// The first that is missing.
        from: u64,
        /// The last that is missing.
        to: u64,
    },
    /// The line's record was due earlier: lines stand in another order, or twice.
    OutOfOrder {
        /// The record due here.
        due: u64,
        /// The record that is here.
        found: u64,
    },
    /// The line follows another record than the one in front of it, which was put in its place.
    Replaced {
        /// The number of the record in front.
        before: u64,
    },
    /// The record is another than the checkpoint says.
    NotAsKnown {
        /// The checkpoint.
        known: Head,
    },
    /// The record ends before the checkpoint: its end was taken away.
    Truncated {
        /// The checkpoint.
        known: Head,
        /// The last record that is there; 0 if there is none.
        last: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("the line is no record, or was changed after it was written"),
            Self::Missing { from, to } if from == to => write!(f, "record {from} is missing"),
            Self::Missing { from, to } => write!(f, "the records {from} to {to} are missing"),
            Self::OutOfOrder { due, found } => write!(f, "record {found} stands where record {due} is due"),
            Self::Replaced { before } => {
                write!(f, "record {before} is not the one this record was written after: it was replaced")
            }
            Self::NotAsKnown { known } => write!(f, "record {} is not the one of the checkpoint {known}", known.seq),
            Self::Truncated { known, last } => {
                write!(f, "the record ends with {last}, but the checkpoint knows {}: its end was taken away", known.seq)
            }
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.problem)
    }
}

/// A record does not hold, or could not be read.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The chain breaks.
    #[error("{0}")]
    Broken(Broken),
    /// A file could not be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
}

/// Verifies the files of one record, given in any order, against checkpoints known from elsewhere. Read checkpoints before: a record
/// that is being written only grows.
pub fn verify(files: &[PathBuf], known: &[Head]) -> Result<Verified, VerifyError> {
    let mut walk = Walk::new(known);
    let files = in_order(files)?;
    for (index, file) in files.iter().enumerate() {
        walk.file(file, index + 1 == files.len())?;
    }
    walk.end(files.last().map(PathBuf::as_path))
}

/// Sorts files by the number of their first record; those without one come last.
fn in_order(files: &[PathBuf]) -> Result<Vec<PathBuf>, AuditError> {
    let mut numbered = Vec::new();
    for file in files {
        let first = lines(file)?.find_map(|line| line.ok().and_then(|line| unseal(&line.text)));
        numbered.push((first.map_or(u64::MAX, |sealed| sealed.head.seq), file.clone()));
    }
    numbered.sort();
    Ok(numbered.into_iter().map(|(_, file)| file).collect())
}

struct Line {
    text: Vec<u8>,
    is_ended: bool,
}

fn lines(path: &Path) -> Result<impl Iterator<Item = Result<Line, AuditError>>, AuditError> {
    let mut reader = BufReader::new(File::open(path).map_err(AuditError::file("read", path))?);
    let path = path.to_owned();
    Ok(std::iter::from_fn(move || {
        let mut text = Vec::new();
        match reader.read_until(b'\n', &mut text) {
            Ok(0) => None,
            Ok(_) => {
                let is_ended = text.pop_if(|byte| *byte == b'\n').is_some();
                Some(Ok(Line { text, is_ended }))
            }
            Err(error) => Some(Err(AuditError::file("read", &path)(error))),
        }
    }))
}

/// A walk along the chain.
struct Walk<'a> {
    known: &'a [Head],
    verified: Verified,
    /// Bytes since the last record that are none, and the line they begin with.
    strange: Vec<u8>,
    strange_from: u64,
    line: u64,
}

impl<'a> Walk<'a> {
    fn new(known: &'a [Head]) -> Self {
        let verified = Verified { records: 0, first: 0, head: None, torn: 0, unfinished: 0, unused: Vec::new() };
        Self { known, verified, strange: Vec::new(), strange_from: 0, line: 0 }
    }

    fn file(&mut self, path: &Path, is_last: bool) -> Result<(), VerifyError> {
        self.line = 0;
        let mut is_ended = true;
        for line in lines(path)? {
            let line = line?;
            self.line += 1;
            is_ended = line.is_ended;
            self.step(&line).map_err(|problem| self.broken(path, problem))?;
        }
        if self.strange.is_empty() {
            return Ok(());
        }
        if is_last && !is_ended {
            self.verified.unfinished = self.strange.len() as u64;
            return Ok(());
        }
        Err(self.broken(path, Problem::Changed))
    }

    fn broken(&self, path: &Path, problem: Problem) -> VerifyError {
        let line = if problem == Problem::Changed { self.strange_from } else { self.line };
        VerifyError::Broken(Broken { file: path.to_owned(), line, problem })
    }

    fn step(&mut self, line: &Line) -> Result<(), Problem> {
        let Some(sealed) = unseal(&line.text) else {
            if self.strange.is_empty() {
                self.strange_from = self.line;
            }
            self.strange.extend_from_slice(&line.text);
            if line.is_ended {
                self.strange.push(b'\n');
            }
            return Ok(());
        };
        self.accept_strange(&line.text)?;
        self.link(&sealed)?;
        if let Some(known) =
            self.known.iter().find(|known| known.seq == sealed.head.seq && known.hash != sealed.head.hash)
        {
            return Err(Problem::NotAsKnown { known: *known });
        }
        self.verified.records += 1;
        self.verified.head = Some(sealed.head);
        Ok(())
    }

    /// Bytes that are no record are in order when the record behind them says what they are.
    fn accept_strange(&mut self, next: &[u8]) -> Result<(), Problem> {
        // The writer ended them with a line end of its own.
        let Some(strange) = self.strange.strip_suffix(b"\n") else { return Ok(()) };
        let vouched = Record::parse(next).is_some_and(|record| {
            record.event.as_deref() == Some(TORN)
                && record.bytes == Some(strange.len() as u64)
                && record.sha256.as_deref() == Some(Hash::of(strange).as_str())
        });
        if !vouched {
            return Err(Problem::Changed);
        }
        self.strange.clear();
        self.verified.torn += 1;
        Ok(())
    }

    fn link(&mut self, sealed: &Sealed) -> Result<(), Problem> {
        let found = sealed.head.seq;
        let Some(before) = self.verified.head else {
            self.verified.first = found;
            let is_first = found == Head::START.seq + 1;
            let follows = !is_first || sealed.previous == Head::START.hash;
            return if follows { Ok(()) } else { Err(Problem::Replaced { before: 0 }) };
        };
        let due = before.seq + 1;
        if found > due {
            Err(Problem::Missing { from: due, to: found - 1 })
        } else if found < due {
            Err(Problem::OutOfOrder { due, found })
        } else if sealed.previous != before.hash {
            Err(Problem::Replaced { before: before.seq })
        } else {
            Ok(())
        }
    }

    fn end(mut self, last_file: Option<&Path>) -> Result<Verified, VerifyError> {
        let last = self.verified.head.map_or(0, |head| head.seq);
        if let Some(known) = self.known.iter().find(|known| known.seq > last) {
            self.line += 1;
            let file = last_file.unwrap_or_else(|| Path::new(""));
            return Err(self.broken(file, Problem::Truncated { known: *known, last }));
        }
        self.verified.unused = self.known.iter().filter(|known| known.seq < self.verified.first).copied().collect();
        Ok(self.verified)
    }
}
