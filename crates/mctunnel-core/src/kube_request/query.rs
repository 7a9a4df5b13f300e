//! The two parameters of a query that change what a request means, read as Kubernetes reads them.

use crate::bad_target::decode;

/// A query, without its `?`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query<'a>(pub(super) &'a str);

impl Query<'_> {
    /// Whether a request for many is one to follow their changes.
    pub(super) fn watches(self) -> bool {
        self.first("watch").is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// The one name that a field selector lets through.
    pub(super) fn exact_name(self) -> Option<String> {
        let selector = self.first("fieldSelector")?;
        let mut terms: Vec<&str> = split_terms(&selector).filter(|term| !term.is_empty()).collect();
        // Of two names the first in this order counts.
        terms.sort_unstable();
        let mut exact = None;
        for term in terms {
            let (field, value, is_equal) = split_operator(term)?;
            let value = unescape(value)?;
            if field == "metadata.name" && is_equal && exact.is_none() {
                exact = Some(value);
            }
        }
        let is_segment = |name: &String| !matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '%']);
        exact.filter(is_segment)
    }

    /// The first value of a parameter. A pair that cannot be read does not count, as in Go.
    fn first(self, wanted: &str) -> Option<String> {
        self.0.split('&').filter(|pair| !pair.contains(';')).find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (form_decode(key)?, form_decode(value)?);
            (key == wanted.as_bytes()).then(|| String::from_utf8_lossy(&value).into_owned())
        })
    }
}

fn form_decode(text: &str) -> Option<Vec<u8>> {
    decode(&text.replace('+', " "))
}

/// Splits at commas that have no backslash in front.
fn split_terms(selector: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    selector.split(move |letter| {
        let is_end = letter == ',' && !escaped;
        escaped = letter == '\\' && !escaped;
        is_end
    })
}

/// Splits a term at its first operator; gives whether it is one for equality.
fn split_operator(term: &str) -> Option<(&str, &str, bool)> {
    let (field, value) = term.split_once('=')?;
    Some(match field.strip_suffix('!') {
        Some(field) => (field, value, false),
        None => (field, value.strip_prefix('=').unwrap_or(value), true),
    })
}

/// Takes the backslashes out of a value; `None` if one is in front of something that needs none.
fn unescape(value: &str) -> Option<String> {
    let mut letters = value.chars();
    let mut plain = String::with_capacity(value.len());
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => letters.next().filter(|next| matches!(next, '\\' | ',' | '='))?,
            ',' | '=' => return None,
            letter => letter,
        });
    }
    Some(plain)
}
