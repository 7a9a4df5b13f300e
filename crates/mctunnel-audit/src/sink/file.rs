//! A file with rotation. It is only ever appended to; what a crash left torn stays where it is, with a record behind it that says so.
//! When it is shared, everything here happens within a turn, and what others wrote is read before the next record is numbered.

use super::{Batch, Sink, stdout::write_rest};
use crate::{
    AuditError, FileConfig,
    chain::Head,
    layout::Layout,
    recover::{Recovered, WINDOW, recover},
    turn::Turn,
};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::Duration,
};

/// How much of what others wrote is read at first: a few records, the last of which is enough.
const CATCH_UP: u64 = 16 << 10;

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
    /// Full files that were deleted and that nobody was told of.
    deleted: u64,
    /// What of the batch at hand was written.
    written: usize,
    /// Held as long as we write.
    _lock: File,
    /// Held while a batch is written, if others write as well.
    turn: Option<Turn>,
}

impl Files {
    /// Opens the record to go on with it; says where it ended.
    pub(crate) fn open(config: &FileConfig) -> Result<(Self, Recovered), AuditError> {
        let layout = Layout::of(&config.path);
        layout.make_directory()?;
        let lock = layout.lock(config.shared)?;
        let turn = if config.shared { Some(Turn::new(layout.open_turn()?, config.turn_within)) } else { None };
        let mut files = Self {
            layout,
            rotate_bytes: config.rotate_bytes,
            keep: config.keep,
            file: None,
            size: 0,
            first: None,
            deleted: 0,
            written: 0,
            _lock: lock,
            turn,
        };
        // It is given with the first batch, which goes on from what is found here.
        if let Some(turn) = &mut files.turn {
            turn.take().map_err(AuditError::file("write", &config.path))?;
        }
        let recovered = files.go_on(WINDOW)?;
        Ok((files, recovered))
    }

    /// Finds the end of the record, and opens the file that is written there.
    fn go_on(&mut self, window: u64) -> Result<Recovered, AuditError> {
        let recovered = recover(&self.layout, window)?;
        let wrong = || AuditError::file("write", self.layout.active());
        let mut file = self.layout.open_active().map_err(wrong())?;
        if recovered.unended || recovered.torn.is_some() {
            io::Write::write_all(&mut file, b"\n").map_err(wrong())?;
        }
        self.size = file.metadata().map_err(wrong())?.len();
        self.layout.sync_directory().map_err(wrong())?;
        (self.file, self.first) = (Some(file), recovered.first);
        Ok(recovered)
    }

    /// Before records are numbered: waits for the turn, which ends with the batch, and says where the record ends if others wrote.
    pub(crate) fn take_turn(&mut self) -> io::Result<Option<Recovered>> {
        let Some(turn) = &mut self.turn else { return Ok(None) };
        if !turn.take()? {
            return Ok(None);
        }
        let caught_up = self.catch_up();
        if caught_up.is_err() {
            self.give_turn();
        }
        caught_up
    }

    fn catch_up(&mut self) -> io::Result<Option<Recovered>> {
        if self.is_as_we_left_it()? {
            return Ok(None);
        }
        self.go_on(CATCH_UP).map(Some).map_err(io::Error::other)
    }

    fn is_as_we_left_it(&self) -> io::Result<bool> {
        let Some(file) = &self.file else { return Ok(false) };
        let own = file.metadata()?;
        match fs::metadata(self.layout.active()) {
            Ok(now) => Ok((now.dev(), now.ino(), now.len()) == (own.dev(), own.ino(), self.size)),
            // Somebody was killed between two files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn give_turn(&mut self) {
        self.turn.iter_mut().for_each(Turn::give);
    }

    /// Of several who write, the last one's checkpoint stays.
    fn write_newer_head(&self, head: &Head) -> io::Result<()> {
        let known = self.layout.read_head().map_err(io::Error::other)?;
        if known.is_some_and(|known| known.seq >= head.seq) { Ok(()) } else { self.layout.write_head(head) }
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
            let age = age_of(old);
            fs::remove_file(old)?;
            self.deleted += 1;
            tracing::warn!(
                file = %old.display(),
                age,
                "A full file of the audit log was deleted, as there are newer ones enough: its records are gone."
            );
        }
        Ok(())
    }

    /// How many full files were deleted since it was last asked.
    pub(crate) fn take_deleted(&mut self) -> u64 {
        std::mem::take(&mut self.deleted)
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

/// How long ago its last record was written, for people.
fn age_of(file: &Path) -> Option<String> {
    let age = fs::metadata(file).ok()?.modified().ok()?.elapsed().ok()?;
    Some(humantime::format_duration(Duration::from_secs(age.as_secs())).to_string())
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
        self.give_turn();
        Ok(())
    }

    fn sync(&mut self, head: &Head) -> io::Result<()> {
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        // The checkpoint comes after what it vouches for.
        let Some(turn) = &mut self.turn else { return self.layout.write_head(head) };
        turn.take()?;
        let written = self.write_newer_head(head);
        self.give_turn();
        written
    }
}
