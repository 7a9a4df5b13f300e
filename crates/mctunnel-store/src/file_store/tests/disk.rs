//! A disk that keeps what was synced, and of the rest whatever it likes.

use parking_lot::Mutex;
use rand::{Rng as _, RngExt as _, rngs::StdRng};
use std::{io, sync::Arc};

/// What a disk writes whole.
const SECTOR: usize = 512;

/// A disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// As the running system sees it.
    seen: Vec<u8>,
    /// As it was at the last sync.
    synced: Vec<u8>,
    /// What was done since.
    since: Vec<Deed>,
    /// How many more deeds until the power goes; `None` is never.
    power: Option<usize>,
}

#[derive(Debug, Clone)]
enum Deed {
    Write { at: usize, bytes: Vec<u8> },
    Resize(usize),
}

impl Disk {
    /// Lets the power go after so many deeds.
    pub(super) fn cut_after(&self, deeds: usize) {
        self.0.lock().power = Some(deeds);
    }

    /// The disk as the next start finds it: all that was synced, and of what was not a part, sector by sector and in any order.
    pub(super) fn after_the_cut(&self, random: &mut StdRng) -> Self {
        let state = self.0.lock();
        let mut found = state.synced.clone();
        let mut deeds = state.since.clone();
        if random.random_bool(0.5) {
            // Some disks keep the order and some do not.
            deeds.sort_by_cached_key(|_| random.next_u64());
        }
        for deed in &deeds {
            deed.survive(&mut found, random);
        }
        Self(Arc::new(Mutex::new(State { seen: found.clone(), synced: found, since: Vec::new(), power: None })))
    }

    fn act(&self, deed: Deed) -> io::Result<()> {
        let mut state = self.0.lock();
        state.spend()?;
        deed.apply(&mut state.seen);
        state.since.push(deed);
        Ok(())
    }
}

impl State {
    fn spend(&mut self) -> io::Result<()> {
        match &mut self.power {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the power is gone")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

impl Deed {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => image[*at..at + bytes.len()].copy_from_slice(bytes),
            Self::Resize(length) => image.resize(*length, 0),
        }
    }

    fn survive(&self, image: &mut Vec<u8>, random: &mut StdRng) {
        match self {
            Self::Write { at, bytes } => {
                for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                    let from = at + index * SECTOR;
                    if random.random_bool(0.5) && image.len() >= from + sector.len() {
                        image[from..from + sector.len()].copy_from_slice(sector);
                    }
                }
            }
            Self::Resize(length) => {
                if random.random_bool(0.5) {
                    image.resize(*length, 0);
                }
            }
        }
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        let from = usize::try_from(offset).unwrap();
        let bytes = state.seen.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.act(Deed::Resize(usize::try_from(length).unwrap()))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.spend()?;
        let State { synced, since, .. } = &mut *state;
        for deed in since.drain(..) {
            deed.apply(synced);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.act(Deed::Write { at: usize::try_from(offset).unwrap(), bytes: bytes.to_vec() })
    }
}
