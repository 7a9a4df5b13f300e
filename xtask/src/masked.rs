//! Rust source with comments and literals blanked, so that a check for a word finds code only. Not a parser: it knows just
//! enough of the lexer to tell what is not code.

/// Replaces the inside of comments, strings and character literals by spaces. Lines stay where they are.
pub(crate) fn mask(source: &str) -> String {
    let mut masked = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(next) = rest.chars().next() {
        let in_word = masked.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
        let hidden = match next {
            '/' => comment(rest),
            '"' => Some(quoted(rest, 1)),
            'r' | 'b' | 'c' if !in_word => prefixed(rest),
            '\'' => character(rest),
            _ => None,
        };
        let length = hidden.unwrap_or_else(|| next.len_utf8());
        let (piece, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        match hidden {
            Some(_) => masked.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' })),
            None => masked.push_str(piece),
        }
        rest = behind;
    }
    masked
}

/// The length of the comment that starts here.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0_usize;
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(pair) = bytes.get(at..at + 2) {
        match pair {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
    Some(text.len())
}

/// The length of the string whose opening quote ends at `start`.
fn quoted(text: &str, start: usize) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a string with a prefix such as `b"`, `r"` or `br##"`.
fn prefixed(text: &str) -> Option<usize> {
    let letters = text.bytes().take_while(|byte| b"rbc".contains(byte)).count();
    let (prefix, behind) = text.split_at_checked(letters)?;
    if !matches!(prefix, "r" | "b" | "c" | "br" | "cr") {
        return None;
    }
    let hashes = behind.bytes().take_while(|byte| *byte == b'#').count();
    let body = letters + hashes + 1;
    if behind.as_bytes().get(hashes) != Some(&b'"') {
        return None;
    }
    if !prefix.ends_with('r') {
        return (hashes == 0).then(|| quoted(text, body));
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let (_, inside) = text.split_at_checked(body)?;
    Some(inside.find(&end).map_or(text.len(), |at| body + at + end.len()))
}

/// The length of a character literal; `None` for a lifetime or label.
fn character(text: &str) -> Option<usize> {
    let mut letters = text.char_indices().skip(1);
    let (_, first) = letters.next()?;
    if first == '\\' {
        letters.next()?;
        return letters.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
    }
    let (at, second) = letters.next()?;
    (second == '\'').then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masks, then squeezes each run of spaces.
    fn check(source: &str, expected: &str) {
        let masked = mask(source);
        assert_eq!(masked.lines().count(), source.lines().count(), "{source}");
        assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{source}");
    }

    #[test]
    fn comments_are_blank() {
        check("a // todo!()\nb", "a b");
        check("a /* x /* y */\n z */ b", "a b");
        check("a / b", "a / b");
        check("//! doc\n/// doc\nfn f() {}", "fn f() {}");
        check("a /* open", "a");
    }

    #[test]
    fn literals_are_blank() {
        check(r#"a("todo!(\" // no") b"#, "a( ) b");
        check("a(r#\"x \" y\"#, br\"\\\") b", "a( , ) b");
        check("a(b\"x\", b'x', '\\'', '\"', 'é') b", "a( , b , , , ) b");
        check("\"first\nsecond\" b", "b");
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        check("fn f<'a>(x: &'a str) -> r#type { 'b: loop {} }", "fn f<'a>(x: &'a str) -> r#type { 'b: loop {} }");
        check("bar + car", "bar + car");
    }
}
