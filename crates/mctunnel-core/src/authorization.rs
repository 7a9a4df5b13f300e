//! The value of an `Authorization` field, and what its bytes alone say.

use crate::Secret;
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// The value of an `Authorization` field. Never prints. Cheap to clone.
///
/// A client that shows the same again on the same connection is given the same value, so that its bytes are read and digested once.
/// What it is *worth* is nowhere in it: that is asked for every request. Why: ADR 0028.
#[derive(Clone)]
pub struct Authorization(Arc<Value>);

struct Value {
    text: Secret,
    is_well_formed: OnceLock<bool>,
    digest: OnceLock<[u8; 32]>,
}

impl Authorization {
    /// Wraps the text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let (is_well_formed, digest) = (OnceLock::new(), OnceLock::new());
        Self(Arc::new(Value { text: Secret::new(text), is_well_formed, digest }))
    }

    /// The text itself, for the one place that checks it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.text.expose()
    }

    /// Whether it is this text. It takes as long for one that differs early as for one that differs late: behind a front proxy,
    /// connections have more clients than one.
    #[must_use]
    pub fn is(&self, text: &[u8]) -> bool {
        let own = self.expose().as_bytes();
        own.len() == text.len() && own.iter().zip(text).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    /// Whether it has the form that whoever authenticates reads. It must depend on the text alone: it is looked at once.
    pub fn is_well_formed(&self, look: impl FnOnce() -> bool) -> bool {
        *self.0.is_well_formed.get_or_init(look)
    }

    /// The digest by which whoever authenticates knows it. It must depend on the text alone: it is made once.
    pub fn digest(&self, make: impl FnOnce() -> [u8; 32]) -> &[u8; 32] {
        self.0.digest.get_or_init(make)
    }
}

impl PartialEq for Authorization {
    fn eq(&self, other: &Self) -> bool {
        self.is(other.expose().as_bytes())
    }
}

impl Eq for Authorization {}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_its_own_text_and_no_other() {
        let shown = Authorization::new("Bearer abc");
        assert!(shown.is(b"Bearer abc"));
        for other in ["", "Bearer ab", "Bearer abcd", "bearer abc", "Bearer abd", "Cearer abc", "Bearer\u{0}abc"] {
            assert!(!shown.is(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn its_form_is_looked_at_once() {
        for is_good in [true, false] {
            let shown = Authorization::new("Bearer abc");
            let [one, other] = [shown.clone(), shown];
            assert_eq!(one.is_well_formed(|| is_good), is_good);
            assert_eq!(other.is_well_formed(|| !is_good), is_good);
        }
    }

    #[test]
    fn the_digest_is_made_once() {
        let shown = Authorization::new("Bearer abc");
        let [one, other] = [shown.clone(), shown];
        assert_eq!(one.digest(|| [1; 32]), &[1; 32]);
        assert_eq!(other.digest(|| [2; 32]), &[1; 32]);
        assert_eq!(Authorization::new("Bearer abc").digest(|| [2; 32]), &[2; 32]);
    }

    #[test]
    fn t36_it_prints_as_stars() {
        assert_eq!(format!("{:?}", Authorization::new("Bearer canary")), "***");
    }
}
