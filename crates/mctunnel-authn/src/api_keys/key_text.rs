//! What an API key looks like: `mctk_ID_SECRET_CHECKSUM`. The prefix lets scanners find keys that were lost; the checksum tells a
//! typo from a key, and a key from something that only looks like one, without asking anybody.

use crate::{AuthnError, digest};
use mctunnel_core::Secret;

/// What every key begins with.
pub const API_KEY_PREFIX: &str = "mctk_";

/// Bytes of the id: what a key is called. 8 letters.
const ID: usize = 5;
/// Bytes of the secret: 160 random bits, 32 letters.
const SECRET: usize = 20;
/// Bytes of the checksum, 8 letters.
const CHECKSUM: usize = 5;

/// RFC 4648 in lower case: nothing in it is taken for something else by a shell, a URL or a reader.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// A new key with its id.
pub(crate) fn generate() -> Result<(String, Secret), AuthnError> {
    let id = letters(&random::<ID>()?);
    let body = format!("{API_KEY_PREFIX}{id}_{}", letters(&random::<SECRET>()?));
    let checksum = checksum(&body);
    Ok((id, Secret::new(format!("{body}_{checksum}"))))
}

/// The id in a key that is spelt right.
pub(crate) fn id(key: &str) -> Option<&str> {
    let (body, sum) = key.rsplit_once('_')?;
    let (id, secret) = body.strip_prefix(API_KEY_PREFIX)?.split_once('_')?;
    let is_letter = |byte: u8| matches!(byte, b'a'..=b'z' | b'2'..=b'7');
    let spelt = |text: &str, bytes: usize| text.len() == bytes * 8 / 5 && text.bytes().all(is_letter);
    (spelt(id, ID) && spelt(secret, SECRET) && sum == checksum(body)).then_some(id)
}

/// Not secret and no proof of anything: whoever has the rest can compute it.
fn checksum(body: &str) -> String {
    letters(digest::of(body.as_bytes()).split_at(CHECKSUM).0)
}

fn random<const N: usize>() -> Result<[u8; N], AuthnError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| AuthnError::Random)?;
    Ok(bytes)
}

/// Base32; the bytes come in fives, so nothing is left over.
fn letters(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 8 / 5);
    for five in bytes.chunks(5) {
        let bits = five.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
        for place in (0..8).rev() {
            let index = usize::try_from(bits >> (place * 5) & 31).unwrap_or_default();
            text.extend(LETTERS.get(index).copied().map(char::from));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn t30_a_key_has_its_form_and_160_random_bits() {
        let keys: Vec<_> = (0..1_000).map(|_| generate().unwrap()).collect();
        for (id_given, key) in &keys {
            let parts: Vec<&str> = key.expose().split('_').collect();
            assert_eq!(
                parts.iter().map(|part| part.len()).collect::<Vec<_>>(),
                [4, 8, 32, 8],
                "mctk, id, secret, checksum"
            );
            assert_eq!(id(key.expose()), Some(id_given.as_str()));
        }
        let secrets: BTreeSet<_> =
            keys.iter().map(|(_, key)| key.expose().split('_').nth(2).unwrap().to_owned()).collect();
        assert_eq!(secrets.len(), keys.len());
        // Each letter stands at each place about as often as any other: 31 expected, and 80 would be nine deviations off.
        for place in 0..32 {
            for letter in LETTERS {
                let seen = secrets.iter().filter(|secret| secret.as_bytes()[place] == *letter).count();
                assert!(seen < 80, "{} at {place}: {seen}", char::from(*letter));
            }
        }
    }

    #[test]
    fn every_typo_is_a_typo() {
        let (_, key) = generate().unwrap();
        let key = key.expose();
        for at in 0..key.len() {
            for other in ["a", "2", "_", "A", "0", ""] {
                let typo = format!("{}{other}{}", &key[..at], &key[at + 1..]);
                assert!(typo == key || id(&typo).is_none(), "{typo}");
            }
        }
        for junk in ["", "mctk_", "mctk___", "mctk_a_b_c", &format!("{key}_"), &format!("{key}a"), &key.to_uppercase()]
        {
            assert_eq!(id(junk), None, "{junk}");
        }
    }

    #[test]
    fn letters_are_base32() {
        for (bytes, text) in [(&b"fooba"[..], "mzxw6ytb"), (&[0; 5], "aaaaaaaa"), (&[255; 5], "77777777")] {
            assert_eq!(letters(bytes), text);
        }
    }
}
