//! The spelling of a request's target, judged on the bytes as they came. Nothing is decoded for use or normalised: a path that
//! two readers could take for two different ones is refused, so that what was checked is what is used.

use crate::{ErrorCode, InvalidClusterName, InvalidTarget};

/// The request's target is not one that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTarget {
    /// Absolute form, authority form, `*`, or nothing at all.
    #[error("the request's target does not begin with '/'")]
    NotAPath,
    /// The path is `/` alone.
    #[error("the path names no cluster")]
    NoCluster,
    /// The first segment is not a cluster's name.
    #[error("the path's first segment is not a cluster: {0}")]
    Cluster(InvalidClusterName),
    /// The segments in front of `proxy-service` do not name a service.
    #[error("the path does not name a service: {0}")]
    Service(InvalidTarget),
    /// `.` or `..` as a segment.
    #[error("the path has a segment '.' or '..'")]
    DotSegment,
    /// `//`.
    #[error("the path has an empty segment ('//')")]
    EmptySegment,
    /// `%2f`, `%5c`, `%2e` or a control character, encoded once or twice.
    #[error("the path has an encoded '/', '\\', '.' or control character")]
    EncodedSeparator,
    /// A `%` without two hexadecimal digits.
    #[error("the path has a '%' without two hexadecimal digits")]
    PercentCode,
    /// Percent codes that decode to something other than UTF-8.
    #[error("the path has percent codes that are not UTF-8")]
    NotUtf8,
    /// `;`, which some servers cut off together with what follows.
    #[error("the path has a ';': write %3B")]
    Semicolon,
    /// `\`, which some servers take for `/`.
    #[error("the path has a '\\'")]
    Backslash,
    /// `#`: a fragment is for the client alone.
    #[error("the target has a fragment ('#')")]
    Fragment,
    /// A space or a control character.
    #[error("the target has a space or control character")]
    Control,
    /// A byte above 127.
    #[error("the target has a byte that is not ASCII")]
    NotAscii,
    /// A character that a path or a query may have in encoded form only.
    #[error("the target has a character that must be percent-encoded")]
    NotEncoded,
}

impl BadTarget {
    /// The stable code and its remedy.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        ErrorCode {
            code: "MCT-HTTP-BAD-TARGET",
            remedy: "use https://HUB/CLUSTER/PATH, with PATH as kubectl would send it to the cluster, or \
                https://HUB/CLUSTER/api/v1/namespaces/NAMESPACE/services/NAME:PORT/proxy-service/PATH",
        }
    }
}

/// Checks a target in origin form; gives its path, and its query with the `?` in front.
pub fn split(target: &str) -> Result<(&str, &str), BadTarget> {
    if !target.starts_with('/') {
        return Err(BadTarget::NotAPath);
    }
    for byte in target.bytes() {
        match byte {
            b'#' => return Err(BadTarget::Fragment),
            0..=b' ' | 0x7f => return Err(BadTarget::Control),
            0x80.. => return Err(BadTarget::NotAscii),
            _ => {}
        }
    }
    let end = target.find('?').unwrap_or(target.len());
    let (path, query) = target.split_at_checked(end).unwrap_or((target, ""));
    check_path(path)?;
    // The parser of requests takes none of these, and would refuse them without a word or a record.
    if query.bytes().any(|byte| matches!(byte, b'"' | b'<' | b'>')) {
        return Err(BadTarget::NotEncoded);
    }
    Ok((path, query))
}

fn check_path(path: &str) -> Result<(), BadTarget> {
    let mut coded = false;
    for byte in path.bytes() {
        match byte {
            b';' => return Err(BadTarget::Semicolon),
            b'\\' => return Err(BadTarget::Backslash),
            b'%' => coded = true,
            b'"' | b'<' | b'>' | b'[' | b']' | b'^' | b'`' | b'{' | b'|' | b'}' => return Err(BadTarget::NotEncoded),
            _ => {}
        }
    }
    if coded {
        check_codes(path)?;
    }
    if path.contains("//") {
        return Err(BadTarget::EmptySegment);
    }
    if path.split('/').any(|segment| segment == "." || segment == "..") {
        return Err(BadTarget::DotSegment);
    }
    Ok(())
}

/// Checks what the percent codes of a path would decode to.
fn check_codes(path: &str) -> Result<(), BadTarget> {
    let decoded = decode(path).ok_or(BadTarget::PercentCode)?;
    // A reader that decodes twice would find codes in what the first decoding leaves.
    if codes(path.as_bytes()).chain(codes(&decoded)).any(is_separator) {
        return Err(BadTarget::EncodedSeparator);
    }
    str::from_utf8(&decoded).map_err(|_| BadTarget::NotUtf8)?;
    Ok(())
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\' | b'.' | 0..=31 | 127)
}

/// What the valid percent codes of a text stand for.
fn codes(text: &[u8]) -> impl Iterator<Item = u8> {
    text.split(|byte| *byte == b'%').skip(1).filter_map(code)
}

/// The byte that the two digits at the start of a text stand for.
fn code(text: &[u8]) -> Option<u8> {
    let digits = text.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// Decodes percent codes once; `None` if one is malformed.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.as_bytes().split(|byte| *byte == b'%');
    let mut decoded = parts.next().unwrap_or_default().to_vec();
    for part in parts {
        decoded.push(code(part)?);
        decoded.extend_from_slice(part.get(2..)?);
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_letter_of_a_path_has_one_reading_or_is_refused() {
        for letter in (0..=0x7f).map(char::from) {
            let expected = match letter {
                '?' | '%' => continue,
                '#' => Err(BadTarget::Fragment),
                '\0'..=' ' | '\x7f' => Err(BadTarget::Control),
                ';' => Err(BadTarget::Semicolon),
                '\\' => Err(BadTarget::Backslash),
                '"' | '<' | '>' | '[' | ']' | '^' | '`' | '{' | '|' | '}' => Err(BadTarget::NotEncoded),
                _ => Ok(()),
            };
            let path = format!("/a{letter}b");
            assert_eq!(split(&path).map(|parts| assert_eq!(parts, (path.as_str(), ""))), expected, "{letter:?}");
            // A query is for the target alone, which reads it in one way or another.
            let is_bad = matches!(expected, Err(BadTarget::Control | BadTarget::Fragment)) || "\"<>".contains(letter);
            assert_eq!(split(&format!("/a?b{letter}")).is_err(), is_bad, "{letter:?}");
        }
    }

    #[test]
    fn each_percent_code_is_a_letter_or_refused() {
        for byte in 0..=0x7f_u8 {
            let is_bad = byte < b' ' || matches!(byte, b'/' | b'\\' | b'.' | 0x7f);
            // Encoded once, and twice.
            for path in [format!("/a%{byte:02x}"), format!("/a%{byte:02X}b"), format!("/a%25{byte:02x}")] {
                let outcome = split(&path).map(drop);
                assert_eq!(outcome, if is_bad { Err(BadTarget::EncodedSeparator) } else { Ok(()) }, "{path}");
            }
            assert_eq!(decode(&format!("a%{byte:02x}b")), Some(vec![b'a', byte, b'b']));
        }
        assert_eq!(decode("a%2"), None);
    }
}
