//! The public keys of one issuer (its JWKS), by their ids. A key is good for the algorithms its kind and its own word allow, and
//! for no others; a token's header has no say in that.

use super::algorithm::SigningAlgorithm;
use jsonwebtoken::{DecodingKey, crypto::aws_lc};
use serde::Deserialize;
use std::collections::BTreeMap;

/// More keys than this no issuer has.
const MOST_KEYS: usize = 100;

/// The keys of an issuer.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    named: BTreeMap<String, Vec<Key>>,
    unnamed: Vec<Key>,
}

/// A public key.
#[derive(Debug)]
pub(crate) struct Key {
    key: DecodingKey,
    kind: Kind,
    /// The one algorithm the issuer gave it, if it did.
    only: Option<SigningAlgorithm>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rsa,
    P256,
    P384,
    Ed25519,
}

/// Which key a token means.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// This one.
    Key(&'a Key),
    /// One that is not there.
    Unknown,
    /// It names none, and there are several.
    Ambiguous,
}

impl KeySet {
    /// Reads a JWKS. Keys for other purposes or of kinds we do not know are left out.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let document: Document =
            serde_json::from_slice(json).map_err(|_| "the issuer's keys are not a JWKS document".to_owned())?;
        if document.keys.len() > MOST_KEYS {
            return Err(format!("the issuer has more than {MOST_KEYS} keys"));
        }
        let mut set = Self::default();
        for entry in document.keys {
            let Ok(entry) = Entry::deserialize(entry) else { continue };
            let Some(key) = entry.key() else { continue };
            match entry.kid {
                Some(id) => set.named.entry(id).or_default().push(key),
                None => set.unnamed.push(key),
            }
        }
        Ok(set)
    }

    /// The key with the id that can be used with the algorithm. Without an id it must be the only one that can.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: SigningAlgorithm) -> Found<'_> {
        let fits = |key: &&Key| key.permits(algorithm);
        if let Some(id) = id {
            return self.named.get(id).into_iter().flatten().find(fits).map_or(Found::Unknown, Found::Key);
        }
        let mut all = self.named.values().flatten().chain(&self.unnamed).filter(fits);
        match (all.next(), all.next()) {
            (None, _) => Found::Unknown,
            (Some(key), None) => Found::Key(key),
            (Some(_), Some(_)) => Found::Ambiguous,
        }
    }
}

impl Key {
    /// Whether it has signed the bytes.
    pub(crate) fn verify(&self, algorithm: SigningAlgorithm, signed: &[u8], signature: &Vec<u8>) -> bool {
        let Some(library) = algorithm.to_library().filter(|_| self.permits(algorithm)) else { return false };
        // The provider is named here: the library's own choice panics when another crate of the process enables a second one.
        let verifier = (aws_lc::DEFAULT_PROVIDER.verifier_factory)(&library, &self.key);
        verifier.is_ok_and(|verifier| verifier.verify(signed, signature).is_ok())
    }

    fn permits(&self, algorithm: SigningAlgorithm) -> bool {
        let by_kind = match self.kind {
            Kind::Rsa => algorithm.is_rsa(),
            Kind::P256 => algorithm == SigningAlgorithm::Es256,
            Kind::P384 => algorithm == SigningAlgorithm::Es384,
            Kind::Ed25519 => algorithm == SigningAlgorithm::EdDsa,
        };
        by_kind && self.only.is_none_or(|only| only == algorithm)
    }
}

// === Document ===

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

/// A key as the issuer writes it.
#[derive(Deserialize)]
struct Entry {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl Entry {
    fn key(&self) -> Option<Key> {
        let for_others = self.purpose.as_deref().is_some_and(|purpose| purpose != "sig");
        if for_others || self.key_ops.as_ref().is_some_and(|deeds| !deeds.iter().any(|deed| deed == "verify")) {
            return None;
        }
        let only = match self.alg.as_deref() {
            None => None,
            Some(name) => Some(SigningAlgorithm::parse(name)?),
        };
        let (key, kind) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => (DecodingKey::from_rsa_components(self.n.as_deref()?, self.e.as_deref()?), Kind::Rsa),
            ("EC", Some("P-256")) => (self.point()?, Kind::P256),
            ("EC", Some("P-384")) => (self.point()?, Kind::P384),
            ("OKP", Some("Ed25519")) => (DecodingKey::from_ed_components(self.x.as_deref()?), Kind::Ed25519),
            _ => return None,
        };
        Some(Key { key: key.ok()?, kind, only })
    }

    fn point(&self) -> Option<jsonwebtoken::errors::Result<DecodingKey>> {
        Some(DecodingKey::from_ec_components(self.x.as_deref()?, self.y.as_deref()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const N: &str = "sXchTnM";

    fn set(keys: &[serde_json::Value]) -> KeySet {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn has(set: &KeySet, id: Option<&str>, algorithm: SigningAlgorithm) -> bool {
        matches!(set.find(id, algorithm), Found::Key(_))
    }

    #[test]
    fn a_key_is_good_for_its_own_algorithms() {
        let set = set(&[
            json!({"kty": "RSA", "kid": "any", "n": N, "e": "AQAB"}),
            json!({"kty": "RSA", "kid": "one", "n": N, "e": "AQAB", "alg": "RS512", "use": "sig"}),
            json!({"kty": "EC", "kid": "p256", "crv": "P-256", "x": N, "y": N}),
            json!({"kty": "EC", "kid": "p384", "crv": "P-384", "x": N, "y": N}),
            json!({"kty": "OKP", "kid": "ed", "crv": "Ed25519", "x": N, "key_ops": ["verify"]}),
        ]);
        use SigningAlgorithm::{EdDsa, Es256, Es384, Ps256, Rs256, Rs512};
        for (id, algorithm, expected) in [
            ("any", Rs256, true),
            ("any", Ps256, true),
            ("any", Es256, false),
            ("one", Rs512, true),
            ("one", Rs256, false),
            ("p256", Es256, true),
            ("p256", Es384, false),
            ("p384", Es384, true),
            ("p384", Es256, false),
            ("ed", EdDsa, true),
            ("ed", Es256, false),
            ("gone", Rs256, false),
            ("../any", Rs256, false),
        ] {
            assert_eq!(has(&set, Some(id), algorithm), expected, "{id} {algorithm:?}");
        }
    }

    #[test]
    fn what_is_not_for_signatures_is_left_out() {
        let set = set(&[
            json!({"kty": "RSA", "kid": "enc", "n": N, "e": "AQAB", "use": "enc"}),
            json!({"kty": "RSA", "kid": "oaep", "n": N, "e": "AQAB", "alg": "RSA-OAEP"}),
            json!({"kty": "oct", "kid": "secret", "k": N}),
            json!({"kty": "RSA", "kid": "ops", "n": N, "e": "AQAB", "key_ops": ["encrypt"]}),
            json!({"kty": "RSA", "kid": "none", "n": N, "e": "AQAB", "key_ops": []}),
            json!({"kty": "EC", "kid": "p521", "crv": "P-521", "x": N, "y": N}),
            json!({"kty": "RSA", "kid": 5, "n": N, "e": "AQAB"}),
            json!("junk"),
            json!({"kty": "RSA", "kid": "half", "n": N}),
            json!({"kty": "RSA", "kid": "bad", "n": "+/", "e": "AQAB"}),
        ]);
        assert!(set.named.is_empty() && set.unnamed.is_empty(), "{set:?}");
    }

    #[test]
    fn without_an_id_there_must_be_no_choice() {
        let rsa = |id: &str| json!({"kty": "RSA", "kid": id, "n": N, "e": "AQAB"});
        let ec = json!({"kty": "EC", "crv": "P-256", "x": N, "y": N});
        let one = set(&[rsa("a"), ec.clone()]);
        assert!(has(&one, None, SigningAlgorithm::Rs256) && has(&one, None, SigningAlgorithm::Es256));
        let two = set(&[rsa("a"), rsa("b"), ec]);
        assert!(matches!(two.find(None, SigningAlgorithm::Rs256), Found::Ambiguous));
        assert!(matches!(two.find(None, SigningAlgorithm::EdDsa), Found::Unknown));
        let same = set(&[json!({"kty": "RSA", "kid": "x", "n": N, "e": "AQAB", "use": "enc"}), rsa("x")]);
        assert!(has(&same, Some("x"), SigningAlgorithm::Rs256), "two keys may share an id");
    }

    #[test]
    fn junk_is_not_a_key_set() {
        let many = json!({ "keys": vec![json!({}); MOST_KEYS + 1] }).to_string();
        for bad in ["", "{}", "[]", "<html>", &many] {
            assert!(KeySet::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
