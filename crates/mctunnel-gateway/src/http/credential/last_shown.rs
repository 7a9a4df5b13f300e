//! What the clients of one connection have shown last. Most show one token with each of their requests, a kilobyte or more: it is
//! compared, and not read and digested anew. Who they are is asked each time. Why: ADR 0028.

use mctunnel_core::Authorization;
use parking_lot::Mutex;

/// The value that was a user's last; none of a stranger, so that nobody unknown can have us hold anything.
#[derive(Debug, Default)]
pub(in crate::http) struct LastShown(Mutex<Option<Authorization>>);

impl LastShown {
    /// The value with these bytes, if it was the last.
    pub(super) fn like(&self, bytes: &[u8]) -> Option<Authorization> {
        let last = self.0.lock().clone();
        last.filter(|last| last.is(bytes))
    }

    /// What has just been shown, and whether it is a user's.
    pub(in crate::http) fn judged(&self, shown: Option<Authorization>, is_a_users: bool) {
        if shown.is_some() {
            *self.0.lock() = shown.filter(|shown| is_a_users && shown.expose().len() <= LONGEST);
        }
    }
}

/// What is longer, by spaces before the token, is read anew each time.
const LONGEST: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_or_replaced_is_not_held() {
        let last = LastShown::default();
        let (alice, bob) = (Authorization::new("Bearer alice"), Authorization::new("Bearer bob"));
        let holds = |text: &str| last.like(text.as_bytes()).is_some();
        last.judged(Some(alice.clone()), false);
        assert!(!holds("Bearer alice"), "of a stranger");
        last.judged(Some(alice.clone()), true);
        assert!(holds("Bearer alice") && !holds("Bearer bob") && !holds("Bearer alic"));
        last.judged(None, true);
        assert!(holds("Bearer alice"), "nothing else was shown");
        last.judged(Some(bob), true);
        assert!(holds("Bearer bob") && !holds("Bearer alice"));
        last.judged(Some(alice), false);
        assert!(!holds("Bearer alice") && !holds("Bearer bob"));
    }

    #[test]
    fn what_is_too_long_to_be_held_takes_the_place_of_what_was() {
        let last = LastShown::default();
        for (length, is_held) in [(LONGEST, true), (LONGEST + 1, false)] {
            let text = "a".repeat(length);
            last.judged(Some(Authorization::new("Bearer alice")), true);
            last.judged(Some(Authorization::new(text.as_str())), true);
            assert_eq!(last.like(text.as_bytes()).is_some(), is_held, "{length}");
            assert!(last.like(b"Bearer alice").is_none());
        }
    }

    #[test]
    fn the_same_is_given_back_with_what_was_found_out_of_it() {
        let last = LastShown::default();
        let shown = Authorization::new("Bearer alice");
        shown.digest(|| [1; 32]);
        last.judged(Some(shown), true);
        assert_eq!(last.like(b"Bearer alice").unwrap().digest(|| [2; 32]), &[1; 32]);
    }
}
