//! A JSON Web Token taken apart. Nothing of it is believed here: what is read serves to find out whose token it would be, and to
//! refuse it.

use super::{algorithm::SigningAlgorithm, strict_json};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

/// What a bearer token looks like.
pub(crate) enum Unverified {
    /// Not like a JWT: an opaque token.
    Opaque,
    /// Like a JWT, but it cannot be read without doubt: base64, JSON, or a name that occurs twice.
    Malformed,
    /// A JWT.
    Jwt(Box<Jwt>),
}

/// The parts of a JWT.
pub(crate) struct Jwt {
    header: Map<String, Value>,
    /// What it claims.
    pub(crate) claims: Map<String, Value>,
    /// How many bytes of the token are signed.
    signed: usize,
    /// The signature.
    pub(crate) signature: Vec<u8>,
}

impl Unverified {
    pub(crate) fn parse(token: &str) -> Self {
        let parts: Vec<&str> = token.split('.').collect();
        let &[header, claims, signature] = parts.as_slice() else { return Self::Opaque };
        // Lenient here: a token with a header of JSON is a JWT, and a doubtful one must not pass for an opaque token.
        let lenient = URL_SAFE_NO_PAD.decode(header.trim_end_matches('=')).unwrap_or_default();
        if !matches!(serde_json::from_slice(&lenient), Ok(Value::Object(header)) if header.contains_key("alg")) {
            return Self::Opaque;
        }
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
        let object = |part: &str| decode(part).and_then(|bytes| strict_json::object(&bytes));
        let (Some(header_fields), Some(claims_fields), Some(signature)) =
            (object(header), object(claims), decode(signature))
        else {
            return Self::Malformed;
        };
        let signed = header.len() + 1 + claims.len();
        Self::Jwt(Box::new(Jwt { header: header_fields, claims: claims_fields, signed, signature }))
    }
}

impl Jwt {
    /// Who it says has issued it; `None` if that is not a text.
    pub(crate) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss").and_then(Value::as_str)
    }

    /// The bytes of the token that are signed.
    pub(crate) fn signed<'a>(&self, token: &'a str) -> &'a [u8] {
        token.as_bytes().get(..self.signed).unwrap_or_default()
    }

    /// The key's id, which is nothing but a key of a map; an error if it is not a text.
    pub(crate) fn key_id(&self) -> Result<Option<&str>, &'static str> {
        match self.header.get("kid") {
            None => Ok(None),
            Some(Value::String(id)) => Ok(Some(id)),
            Some(_) => Err("its kid is not a text"),
        }
    }

    /// The algorithm, if the header has nothing that we would have to know and do not, and nothing that brings a key along.
    pub(crate) fn algorithm(&self) -> Result<SigningAlgorithm, &'static str> {
        if self.header.contains_key("crit") {
            return Err("its header has critical extensions");
        }
        if ["jku", "jwk", "x5u", "x5c"].iter().any(|name| self.header.contains_key(*name)) {
            return Err("its header brings a key along, or says where to get one");
        }
        let kind = self.header.get("typ").map(|kind| kind.as_str().unwrap_or("?").to_ascii_lowercase());
        if kind.is_some_and(|kind| !["jwt", "at+jwt", "application/jwt", "application/at+jwt"].contains(&kind.as_str()))
        {
            return Err("its type is neither JWT nor at+jwt");
        }
        let name = self.header.get("alg").and_then(Value::as_str).unwrap_or_default();
        SigningAlgorithm::parse(name).ok_or("its algorithm is not one of the asymmetric ones")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        format!("{}.{}.c2ln", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn what_is_a_jwt_is_told_by_its_header() {
        for opaque in ["", "abc", "a.b", "a.b.c", "a.b.c.d", "YQ.YQ.YQ", &token("{}", "{}"), &token("[]", "{}")] {
            assert!(matches!(Unverified::parse(opaque), Unverified::Opaque), "{opaque}");
        }
        let good = token(r#"{"alg":"RS256"}"#, r#"{"iss":"x"}"#);
        let Unverified::Jwt(jwt) = Unverified::parse(&good) else { panic!("{good}") };
        assert_eq!(jwt.issuer(), Some("x"));
        assert_eq!(jwt.signed(&good), good.rsplit_once('.').unwrap().0.as_bytes());
        for malformed in [
            token(r#"{"alg":"RS256","alg":"none"}"#, "{}"),
            token(r#"{"alg":"RS256"}"#, r#"{"sub":"a","sub":"b"}"#),
            token(r#"{"alg":"RS256"}"#, "[]"),
            good.replace('.', "=."),
            format!("{good}="),
            good.replace("c2ln", "c2l+"),
        ] {
            assert!(matches!(Unverified::parse(&malformed), Unverified::Malformed), "{malformed}");
        }
    }

    #[test]
    fn t27_a_header_brings_no_key_and_no_rules() {
        let algorithm = |header: &str| match Unverified::parse(&token(header, "{}")) {
            Unverified::Jwt(jwt) => jwt.algorithm(),
            Unverified::Opaque | Unverified::Malformed => Err("not a JWT"),
        };
        for good in [
            r#"{"alg":"RS256"}"#,
            r#"{"alg":"RS256","typ":"JWT","x5t":"abc","kid":"1"}"#,
            r#"{"alg":"RS256","typ":"at+JWT"}"#,
        ] {
            assert_eq!(algorithm(good), Ok(SigningAlgorithm::Rs256), "{good}");
        }
        for bad in [
            r#"{"alg":"none"}"#,
            r#"{"alg":"None"}"#,
            r#"{"alg":""}"#,
            r#"{"alg":null}"#,
            r#"{"alg":["RS256"]}"#,
            r#"{"alg":"HS256"}"#,
            r#"{"alg":"rs256"}"#,
            r#"{"alg":"RS256","jku":"https://evil"}"#,
            r#"{"alg":"RS256","jwk":{}}"#,
            r#"{"alg":"RS256","x5u":"https://evil"}"#,
            r#"{"alg":"RS256","x5c":["x"]}"#,
            r#"{"alg":"RS256","crit":[]}"#,
            r#"{"alg":"RS256","crit":["b64"],"b64":false}"#,
            r#"{"alg":"RS256","typ":"logout+jwt"}"#,
            r#"{"alg":"RS256","typ":"dpop+jwt"}"#,
            r#"{"alg":"RS256","typ":5}"#,
        ] {
            assert!(algorithm(bad).is_err(), "{bad}");
        }
    }
}
