//! T27: the signatures and keys of project Wycheproof, through the code that judges tokens: the token is taken apart by `jwt.rs`, the
//! key is read and found by `key_set.rs`. Their payloads are no claims, so claims are not asked for here.

use super::{
    jwt::Unverified,
    key_set::{Found, KeySet},
};
use serde_json::{Value, json};
use wycheproof_ng_kdf_jose::json_web::{TestGroup, TestName, TestSet};

/// A group's public keys as an issuer would publish them; where a group has none, its secret one, which must not count.
fn published(group: &TestGroup) -> Value {
    let keys = group.public_key.as_ref().or(group.private_key.as_ref()).expect("a group has a key");
    if keys.get("keys").is_some() { keys.clone() } else { json!({ "keys": [keys] }) }
}

/// Whether the key set takes the signature of a token. Claims stand in for the payload where the token is taken apart, because most
/// payloads here are no JSON; what is verified is the token as it is.
fn is_taken(keys: &KeySet, token: &str) -> bool {
    let parts: Vec<&str> = token.split('.').collect();
    let &[header, _payload, signature] = parts.as_slice() else { return false };
    let Unverified::Jwt(jwt) = Unverified::parse(&format!("{header}.e30.{signature}")) else { return false };
    let (Ok(algorithm), Ok(id)) = (jwt.algorithm(), jwt.key_id()) else { return false };
    let Found::Key(key) = keys.find(id, algorithm) else { return false };
    let signed = token.rsplit_once('.').map_or("", |(signed, _)| signed);
    key.verify(algorithm, signed.as_bytes(), &jwt.signature)
}

/// Valid by the vectors, and refused here on purpose.
fn is_refused_on_purpose(group: &TestGroup, comment: &str) -> bool {
    let keys = published(group).to_string();
    // Secrets that the hub would have to share with the issuer.
    let is_symmetric = keys.contains(r#""kty":"oct""#);
    // A curve that is not on the list of algorithms.
    let is_p521 = keys.contains(r#""crv":"P-521""#);
    // The key says PS256 and the token PS384: a key is good for what its issuer says.
    let is_of_another_algorithm = comment == "Figure20" && keys.contains(r#""alg":"PS256""#);
    is_symmetric || is_p521 || is_of_another_algorithm
}

/// Invalid by the vectors, and not seen here: the weak key is one that the issuer itself publishes.
const ROCA: &str = "rejectsKeyWithRocaVulnerability";

/// How many were taken, and how many refused.
fn run(name: TestName) -> (usize, usize) {
    let (mut taken, mut refused) = (0, 0);
    for group in &TestSet::load(name).expect("the vectors").test_groups {
        let keys = KeySet::parse(published(group).to_string().as_bytes()).expect("a key set");
        for test in &group.tests {
            let what = format!("{} {}: {}", test.tc_id, group.group_comment, test.comment);
            let token = test.jws.as_ref().expect("a token");
            let token = token.as_str().map_or_else(|| token.to_string(), str::to_owned);
            let expected = if test.result.must_fail() {
                test.comment == ROCA
            } else {
                !is_refused_on_purpose(group, &test.comment)
            };
            assert_eq!(is_taken(&keys, &token), expected, "{what}");
            *(if expected { &mut taken } else { &mut refused }) += 1;
        }
    }
    (taken, refused)
}

#[test]
fn t27_wycheproof_signatures() {
    assert_eq!(run(TestName::JsonWebSignature), (32, 369), "all that is valid and not refused on purpose");
}

#[test]
fn t27_wycheproof_keys() {
    assert_eq!(run(TestName::JsonWebKey), (2, 24), "a good key, and the one of which nothing can be seen");
}
