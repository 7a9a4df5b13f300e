//! Where the record ended when its writer stopped, however it stopped: read from the end of the newest file and compared with the
//! checkpoint. What is damaged is said in the record; nothing of it is taken away.

use crate::{
    AuditError,
    chain::{Hash, Head, unseal},
    layout::Layout,
};
use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::Path,
};

/// Where to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// The place that the next record follows.
    pub(crate) head: Head,
    /// The number of the first record in the file that is written, if it has one.
    pub(crate) first: Option<u64>,
    /// Whether the last line lacks its end.
    pub(crate) unended: bool,
    /// Bytes behind the last whole record.
    pub(crate) torn: Option<Torn>,
    /// Records that the checkpoint knows and the files do not, or not so.
    pub(crate) lost: Option<Lost>,
}

/// Bytes that are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Torn {
    pub(crate) bytes: u64,
    pub(crate) sha256: Hash,
}

/// What the checkpoint says against the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The last record that was found.
    pub(crate) found: Head,
    /// What the checkpoint says.
    pub(crate) known: Head,
}

/// Reads the end of the record, of its last file so many bytes at first.
pub(crate) fn recover(layout: &Layout, window: u64) -> Result<Recovered, AuditError> {
    let known = layout.read_head()?;
    let active = Tail::read(layout.active(), known, window)?;
    // Between two files, or before the first record of one, the file before it has the last record.
    let before = match active.last {
        Some(_) => None,
        None => layout.full()?.last().map(|path| Tail::read(path, known, window)).transpose()?,
    };
    let found = active.last.or_else(|| before.and_then(|tail| tail.last)).unwrap_or(Head::START);
    let (head, lost) = match known {
        // The chain goes on from what was known, so that it shows where it was broken.
        Some(known) if known.seq > found.seq => (known, Some(Lost { found, known })),
        Some(known) if active.contradicts || before.is_some_and(|tail| tail.contradicts) => {
            (Head { seq: found.seq, hash: known.hash }, Some(Lost { found, known }))
        }
        _ => (found, None),
    };
    Ok(Recovered { head, first: active.first, unended: active.unended, torn: active.torn, lost })
}

/// The end of one file.
#[derive(Debug, Clone, Copy, Default)]
struct Tail {
    first: Option<u64>,
    last: Option<Head>,
    unended: bool,
    torn: Option<Torn>,
    /// Whether the record that the checkpoint names is another.
    contradicts: bool,
}

/// How much is read at first when it is opened.
pub(crate) const WINDOW: u64 = 1 << 20;

impl Tail {
    fn read(path: &Path, known: Option<Head>, mut window: u64) -> Result<Self, AuditError> {
        let mut file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            file => file.map_err(AuditError::file("read", path))?,
        };
        loop {
            let (bytes, whole) = last_bytes(&mut file, window).map_err(AuditError::file("read", path))?;
            if let Some(tail) = Self::of(&bytes, whole, known) {
                return Ok(Self { first: first_record(&mut file).map_err(AuditError::file("read", path))?, ..tail });
            }
            window = window.saturating_mul(8);
        }
    }

    /// From the last bytes of a file; `None` if more are needed.
    fn of(bytes: &[u8], whole: bool, known: Option<Head>) -> Option<Self> {
        let mut end = bytes.len();
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').rev();
        let (last, unended) = loop {
            let Some(line) = lines.next() else {
                let torn = Some(torn(bytes)).filter(|_| !bytes.is_empty());
                return whole.then_some(Self { torn, ..Self::default() });
            };
            let ended = line.strip_suffix(b"\n");
            if let Some(sealed) = unseal(ended.unwrap_or(line)) {
                break (sealed.head, ended.is_none());
            }
            end -= line.len();
        };
        let behind = bytes.get(end..).unwrap_or_default();
        let contradicts = known.is_some_and(|known| {
            let sealed = bytes.split(|byte| *byte == b'\n').filter_map(unseal);
            sealed.into_iter().any(|sealed| sealed.head.seq == known.seq && sealed.head.hash != known.hash)
        });
        let torn = Some(torn(behind)).filter(|_| !behind.is_empty());
        Some(Self { first: None, last: Some(last), unended, torn, contradicts })
    }
}

fn torn(bytes: &[u8]) -> Torn {
    Torn { bytes: bytes.len() as u64, sha256: Hash::of(bytes) }
}

fn last_bytes(file: &mut File, most: u64) -> io::Result<(Vec<u8>, bool)> {
    let length = file.metadata()?.len();
    let from = length.saturating_sub(most);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok((bytes, from == 0))
}

/// The number of the first record in a file.
fn first_record(file: &mut File) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(0))?;
    for line in BufReader::new(file.take(WINDOW)).split(b'\n') {
        if let Some(sealed) = unseal(&line?) {
            return Ok(Some(sealed.head.seq));
        }
    }
    Ok(None)
}
