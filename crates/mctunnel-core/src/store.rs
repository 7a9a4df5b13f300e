//! Port: what the hub must remember over restarts: small values under keys, in namespaces.
//!
//! A change is one key, whole or not at all. Whoever needs a look and a change in one step (a token that counts once) uses
//! [`Store::update`].

pub mod contract;
mod memory;

pub use memory::MemoryStore;

use crate::ErrorCode;
use std::{error::Error, fmt};

/// The longest key, in bytes.
pub const MOST_KEY_BYTES: usize = 512;
/// The largest value, in bytes. The store is for records, not for files.
pub const MOST_VALUE_BYTES: usize = 1 << 20;

/// Keys of one kind, apart from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(&'static str);

impl Namespace {
    /// A namespace; its name is made of a-z, 0-9 and '-', which a constant checks when it is compiled.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        assert!(!name.is_empty(), "a namespace has a name");
        let mut rest = name.as_bytes();
        while let [byte, tail @ ..] = rest {
            assert!(
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-',
                "a namespace is a-z, 0-9 and '-'"
            );
            rest = tail;
        }
        Self(name)
    }

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// What becomes of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It stays as it is.
    Keep,
    /// It gets this value.
    Put(Vec<u8>),
    /// It goes away.
    Delete,
}

/// Remembers.
///
/// Obligations: 1. what a call acknowledged is there after any crash, of the process or of the machine; 2. a change is seen whole
/// or not at all; 3. `update` of one key is never interleaved with another change of it; 4. reading waits for nobody who writes;
/// 5. the generation of a namespace is raised after a change can be read and before it is acknowledged.
///
/// The calls are not async: reading is short, and a change waits for the disk, milliseconds as a rule. On a runtime, make changes
/// where blocking is allowed (`spawn_blocking`). A change that failed may have happened or not; look again.
pub trait Store: Send + Sync + 'static {
    /// The value of a key.
    fn get(&self, namespace: Namespace, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// The keys that begin with `prefix`, in order, with their values: one state of the namespace, never a mixture of two.
    fn list(&self, namespace: Namespace, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError>;

    /// Looks at a key and decides what becomes of it, in one step. `decide` is called once, or never when the store fails before;
    /// what it found out counts only when the answer is `Ok`. It must not use the store. See also `update_with`.
    fn update(
        &self,
        namespace: Namespace,
        key: &str,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Change,
    ) -> Result<(), StoreError>;

    /// Another number whenever something in the namespace may have changed. Who keeps a copy asks for the number first and reads
    /// then, and reads again when the number is another. It does not outlive the process.
    fn generation(&self, namespace: Namespace) -> u64;

    /// Sets the value of a key.
    fn put(&self, namespace: Namespace, key: &str, value: &[u8]) -> Result<(), StoreError> {
        self.update(namespace, key, &mut |_| Change::Put(value.to_vec()))
    }

    /// Removes a key; says whether it was there.
    fn delete(&self, namespace: Namespace, key: &str) -> Result<bool, StoreError> {
        let mut existed = false;
        self.update(namespace, key, &mut |before| {
            existed = before.is_some();
            if existed { Change::Delete } else { Change::Keep }
        })?;
        Ok(existed)
    }
}

impl dyn Store + '_ {
    /// [`Store::update`] with an answer: what `decide` gives beside the change comes back once the change is durable.
    pub fn update_with<T>(
        &self,
        namespace: Namespace,
        key: &str,
        decide: impl FnOnce(Option<&[u8]>) -> (Change, T),
    ) -> Result<T, StoreError> {
        let (mut decide, mut answer) = (Some(decide), None);
        self.update(namespace, key, &mut |before| {
            let Some(decide) = decide.take() else { return Change::Keep };
            let (change, given) = decide(before);
            answer = Some(given);
            change
        })?;
        answer.ok_or_else(|| StoreError::Failed("the store did not ask what to change".into()))
    }
}

impl fmt::Debug for dyn Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Store")
    }
}

/// The store did not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The key is empty or too long.
    #[error("a key of the store has 1 to {MOST_KEY_BYTES} bytes, not {0}")]
    BadKey(usize),
    /// The value is too large.
    #[error("a value in the store has at most {MOST_VALUE_BYTES} bytes, not {0}")]
    TooLarge(usize),
    /// The disk, or what is on it, failed.
    #[error("the store cannot be read or written")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl StoreError {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        let (code, remedy) = match self {
            Self::BadKey(_) => ("MCT-STORE-BAD-KEY", "choose a shorter name"),
            Self::TooLarge(_) => ("MCT-STORE-TOO-LARGE", "store less under one name"),
            Self::Failed(_) => {
                ("MCT-STORE-FAILED", "check the disk of the data directory and the room on it, then restart the hub")
            }
        };
        ErrorCode { code, remedy }
    }

    /// Checks what every implementation must refuse.
    pub fn check_key(key: &str) -> Result<(), Self> {
        if (1..=MOST_KEY_BYTES).contains(&key.len()) { Ok(()) } else { Err(Self::BadKey(key.len())) }
    }

    /// Checks what every implementation must refuse.
    pub fn check_value(value: &[u8]) -> Result<(), Self> {
        if value.len() <= MOST_VALUE_BYTES { Ok(()) } else { Err(Self::TooLarge(value.len())) }
    }
}
