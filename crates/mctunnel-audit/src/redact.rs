//! What must not stand in the record although somebody wrote it into a text: queries, passwords in addresses, bearer tokens.
//!
//! The subject has no field for a secret. This is for the texts in it that come from elsewhere: paths and messages.

use std::borrow::Cow;

/// What stands for what was left out.
const LEFT_OUT: &str = "***";

/// A path without its query. A decoded path may have a `?` that was `%3F`; it goes the same way.
pub(crate) fn path(path: &str) -> Cow<'_, str> {
    match path.split_once('?') {
        Some((path, _)) => Cow::Owned(format!("{path}?{LEFT_OUT}")),
        None if looks_like_a_token(path) => path.split('/').map(segment).collect::<Vec<_>>().join("/").into(),
        None => Cow::Borrowed(path),
    }
}

fn segment(segment: &str) -> &str {
    if looks_like_a_token(segment) { LEFT_OUT } else { segment }
}

/// A message without what may be secret in it, word by word.
pub(crate) fn message(text: &str) -> Cow<'_, str> {
    let suspicious = text.contains(['?', '@', '=']) || looks_like_a_token(text) || has_scheme(text);
    if !suspicious {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut behind_scheme = false;
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let space = piece.get(word.len()..).unwrap_or_default();
        if behind_scheme || looks_like_a_token(word) {
            shown.push_str(LEFT_OUT);
        } else {
            shown.push_str(&word_without_secrets(word));
        }
        shown.push_str(space);
        behind_scheme = is_scheme(word);
    }
    Cow::Owned(shown)
}

/// Cuts `?query`, `user:password@` and what follows `=` from a word.
fn word_without_secrets(word: &str) -> String {
    let (word, query) =
        word.split_once('?').map_or((word, ""), |(word, query)| (word, if query.is_empty() { "?" } else { "?***" }));
    let word = match word.rsplit_once('@') {
        Some((before, host)) if before.contains(':') => {
            let scheme = before.split_once("//").map_or("", |(scheme, _)| scheme);
            let slashes = if scheme.is_empty() { "" } else { "//" };
            format!("{scheme}{slashes}{LEFT_OUT}@{host}")
        }
        _ => word.to_owned(),
    };
    let word = match word.split_once('=') {
        Some((name, value)) if !value.is_empty() => format!("{name}={LEFT_OUT}"),
        _ => word,
    };
    format!("{word}{query}")
}

/// `Bearer`, `Basic` and the like, alone or behind `Authorization:`.
fn is_scheme(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    ["bearer", "basic", "negotiate"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

fn has_scheme(text: &str) -> bool {
    text.split_whitespace().any(is_scheme)
}

/// The form of a JWT, or of one of our own API keys or join tokens, somewhere in it.
fn looks_like_a_token(text: &str) -> bool {
    text.contains("eyJ") || text.contains("mct_") || text.contains("mctk_") || text.contains("mctj_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t36_a_query_is_never_part_of_a_path() {
        for (given, shown) in [
            ("/a/b", "/a/b"),
            ("/a?token=canary", "/a?***"),
            ("/a?", "/a?***"),
            ("/a/eyJhbGciOi.eyJzdWIi.c2ln/b", "/a/***/b"),
            ("", ""),
        ] {
            assert_eq!(path(given), shown);
        }
    }

    #[test]
    fn t36_a_message_loses_its_secrets_and_keeps_its_sense() {
        for (given, shown) in [
            ("MCT-OPEN-TIMEOUT: no answer in 10 s", "MCT-OPEN-TIMEOUT: no answer in 10 s"),
            ("GET https://h/p?key=canary failed", "GET https://h/p?*** failed"),
            ("https://user:canary@host:1/ refused", "https://***@host:1/ refused"),
            ("user:canary@host", "***@host"),
            ("mail alice@example.com", "mail alice@example.com"),
            ("header Authorization: Bearer canary was bad", "header Authorization: Bearer *** was bad"),
            ("basic\tY2FuYXJ5 x", "basic\t*** x"),
            ("password=canary\nx", "password=***\nx"),
            ("got eyJhbGciOi.eyJ.x here", "got *** here"),
            ("why? no reason", "why? no reason"),
        ] {
            assert_eq!(message(given), shown, "{given}");
        }
    }
}
