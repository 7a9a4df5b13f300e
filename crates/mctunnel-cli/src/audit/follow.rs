//! Lines of a file as they are written, also when the file is set aside and another takes its place.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Until the next look.
const PAUSE: Duration = Duration::from_millis(200);

/// A file that grows.
#[derive(Debug)]
pub(super) struct Follow {
    path: PathBuf,
    file: Option<File>,
    position: u64,
    /// Of a line that is not finished, or lines that were not given yet.
    pending: Vec<u8>,
}

impl Follow {
    /// From where the file ends now; from the beginning when it is not there yet.
    pub(super) fn from_end_of(path: &Path) -> io::Result<Self> {
        let mut follow = Self { path: path.to_owned(), file: None, position: 0, pending: Vec::new() };
        if let Some(mut file) = open(path)? {
            follow.position = line_boundary(&mut file)?;
            follow.file = Some(file);
        }
        Ok(follow)
    }

    /// Where it begins.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// The next line, once it is whole.
    pub(super) fn next_line(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let rest = self.pending.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.pending, rest));
            }
            if !self.read_more()? {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Reads what is new; the next file when this one was set aside and is read to its end.
    fn read_more(&mut self) -> io::Result<bool> {
        let Some(file) = &mut self.file else {
            self.file = open(&self.path)?;
            return Ok(self.file.is_some());
        };
        // Asked before reading: what was written into the old one until then is read first.
        let was_replaced = is_another(file, &self.path)?;
        file.seek(SeekFrom::Start(self.position))?;
        let before = self.pending.len();
        file.read_to_end(&mut self.pending)?;
        let more = self.pending.len() - before;
        self.position += more as u64;
        if more == 0 && was_replaced {
            (self.file, self.position) = (None, 0);
        }
        Ok(more > 0 || was_replaced)
    }
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_another(file: &File, path: &Path) -> io::Result<bool> {
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(now) => Ok((now.dev(), now.ino()) != (own.dev(), own.ino())),
        // Between two files: wait for the next.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Behind the last whole line.
fn line_boundary(file: &mut File) -> io::Result<u64> {
    const WINDOW: u64 = 64 << 10;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(WINDOW);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(length - from).read_to_end(&mut bytes)?;
    let behind = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    Ok(from + behind as u64)
}
