//! Which changes were noticed in earlier runs, so that a long run can be done in pieces. A file that is not as it was then is forgotten.

use crate::mutant::Mutant;
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write,
    path::Path,
};

/// What is remembered of a part.
#[derive(Debug)]
pub(crate) struct Memory {
    /// By file, what its text was.
    texts: BTreeMap<String, u64>,
    known: BTreeSet<String>,
    file: Option<fs::File>,
}

impl Memory {
    /// Remembers nothing, and keeps nothing.
    pub(crate) fn none() -> Self {
        Self { texts: BTreeMap::new(), known: BTreeSet::new(), file: None }
    }

    /// What a file says, of sources as they are now.
    pub(crate) fn open(path: &Path, sources: &[(String, String)]) -> Result<Self> {
        let texts = sources.iter().map(|(path, text)| (path.clone(), fingerprint(text))).collect();
        let known = fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect();
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        Ok(Self { texts, known, file: Some(file.with_context(|| path.display().to_string())?) })
    }

    pub(crate) fn knows(&self, mutant: &Mutant) -> bool {
        self.known.contains(&self.line(mutant))
    }

    pub(crate) fn learn(&mut self, mutant: &Mutant) -> Result<()> {
        let line = self.line(mutant);
        if let Some(file) = &mut self.file {
            writeln!(file, "{line}")?;
        }
        Ok(())
    }

    fn line(&self, mutant: &Mutant) -> String {
        let text = self.texts.get(&mutant.file).copied().unwrap_or_default();
        format!("{text:016x} {}", mutant.key())
    }
}

fn fingerprint(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
