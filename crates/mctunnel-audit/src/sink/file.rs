//! A file with rotation. It is only ever appended to; what a crash left torn stays where it is, with a record behind it that says so.

use super::{Batch, Sink, stdout::write_rest};
use crate::{
    AuditError, FileConfig,
    chain::Head,
    layout::Layout,
    recover::{Recovered, recover},
};
use std::{
    fs::{self, File},
    io,
};

/// The record in files.
#[derive(Debug)]
pub(crate) struct Files {
    layout: Layout,
    rotate_bytes: u64,
    keep: usize,
    /// The file that is written; `None` between two.
    file: Option<File>,
    /// Its size.
    size: u64,
    /// The number of its first record.
    first: Option<u64>,
    /// What of the batch at hand was written.
    written: usize,
    /// Held as long as we write.
    _lock: File,
}

impl Files {
    /// Opens the record to go on with it; says where it ended.
    pub(crate) fn open(config: &FileConfig) -> Result<(Self, Recovered), AuditError> {
        let layout = Layout::of(&config.path);
        layout.make_directory()?;
        let lock = layout.lock()?;
        let recovered = recover(&layout)?;
        let wrong = || AuditError::file("write", &config.path);
        let mut file = layout.open_active().map_err(wrong())?;
        if recovered.unended || recovered.torn.is_some() {
            io::Write::write_all(&mut file, b"\n").map_err(wrong())?;
        }
        let size = file.metadata().map_err(wrong())?.len();
        layout.sync_directory().map_err(wrong())?;
        let files = Self {
            layout,
            rotate_bytes: config.rotate_bytes,
            keep: config.keep,
            file: Some(file),
            size,
            first: recovered.first,
            written: 0,
            _lock: lock,
        };
        Ok((files, recovered))
    }

    fn is_full_for(&self, batch: &Batch) -> bool {
        let more = batch.lines.len() as u64;
        self.written == 0 && self.first.is_some() && self.size.saturating_add(more) > self.rotate_bytes
    }

    /// Sets the full file aside and begins the next. Each step may fail and be tried again.
    fn rotate(&mut self) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.sync_data()?;
            self.file = None;
        }
        if let Some(first) = self.first {
            fs::rename(self.layout.active(), self.layout.full_name(first))?;
            (self.first, self.size) = (None, 0);
        }
        self.layout.sync_directory()?;
        let full = self.layout.full().map_err(io::Error::other)?;
        for old in full.iter().rev().skip(self.keep) {
            fs::remove_file(old)?;
        }
        Ok(())
    }

    fn open_next(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let file = self.layout.open_active()?;
            self.size = file.metadata()?.len();
            self.layout.sync_directory()?;
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Sink for Files {
    fn name(&self) -> &'static str {
        "file"
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        if self.is_full_for(batch) {
            self.rotate()?;
        }
        let mut written = self.written;
        let result = write_rest(self.open_next()?, &batch.lines, &mut written);
        self.size += (written - self.written) as u64;
        self.written = written;
        result?;
        self.written = 0;
        self.first.get_or_insert(batch.first);
        Ok(())
    }

    fn sync(&mut self, head: &Head) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        // The checkpoint comes after what it vouches for.
        self.layout.write_head(head)
    }
}
