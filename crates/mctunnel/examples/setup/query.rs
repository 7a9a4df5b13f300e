//! So much of GraphQL as routing needs: the name of a query's one top-level field. It is *not* a parser for GraphQL.

/// The one top-level field of a query or mutation, without its alias.
pub(crate) fn top_level_field(query: &str) -> Result<&str, &'static str> {
    let tokens = tokens(query)?;
    let mut rest = tokens.as_slice();
    if let [Token::Name("query" | "mutation"), behind @ ..] = rest {
        rest = match behind {
            [Token::Name(_), behind @ ..] => behind,
            _ => behind,
        };
        if let [Token::Mark('('), ..] = rest {
            rest = behind_brackets(rest).ok_or(UNBALANCED)?;
        }
    }
    let [Token::Mark('{'), rest @ ..] = rest else { return Err("the query does not begin with its fields") };
    let (field, rest) = match rest {
        [Token::Name(_), Token::Mark(':'), Token::Name(field), rest @ ..] | [Token::Name(field), rest @ ..] => {
            (*field, rest)
        }
        _ => return Err("the query does not begin with a field"),
    };
    only_one(rest).map(|()| field)
}

const UNBALANCED: &str = "the query's brackets do not match";

/// Checks that nothing but arguments, directives and inner fields follows up to the end.
fn only_one(mut rest: &[Token<'_>]) -> Result<(), &'static str> {
    loop {
        rest = match rest {
            [Token::Mark('(' | '{'), ..] => behind_brackets(rest).ok_or(UNBALANCED)?,
            [Token::Mark('@'), Token::Name(_), behind @ ..] => behind,
            [Token::Mark('}')] => return Ok(()),
            [] => return Err(UNBALANCED),
            _ => return Err("a query may have one top-level field here: answers of two clusters are not merged"),
        };
    }
}

/// What follows the brackets with which `tokens` begin.
fn behind_brackets<'a, 'q>(tokens: &'a [Token<'q>]) -> Option<&'a [Token<'q>]> {
    let mut depth = 0_u32;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => depth = depth.checked_sub(1)?,
            Token::Mark(_) | Token::Name(_) | Token::Text => {}
        }
        if depth == 0 {
            return tokens.get(at + 1..);
        }
    }
    None
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'q> {
    Name(&'q str),
    Mark(char),
    /// A string: what it says does not matter here.
    Text,
}

fn tokens(query: &str) -> Result<Vec<Token<'_>>, &'static str> {
    let mut tokens = Vec::new();
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let (token, len) = match first {
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            '"' => (Some(Token::Text), text_len(rest).ok_or("a string in the query does not end")?),
            c if c.is_whitespace() || matches!(c, ',' | '\u{feff}') => (None, c.len_utf8()),
            c if is_name(c) => {
                let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                (rest.get(..len).map(Token::Name), len)
            }
            c => (Some(Token::Mark(c)), c.len_utf8()),
        };
        tokens.extend(token);
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(tokens)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The length of the string with which `text` begins, quotes included.
fn text_len(text: &str) -> Option<usize> {
    let quote = if text.starts_with("\"\"\"") { "\"\"\"" } else { "\"" };
    let mut at = quote.len();
    loop {
        let rest = text.get(at..)?;
        if rest.starts_with(quote) {
            return Some(at + quote.len());
        }
        let mut chars = rest.chars();
        at += match chars.next()? {
            '\\' => 1 + chars.next()?.len_utf8(),
            c => c.len_utf8(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::top_level_field;

    #[test]
    fn the_field_is_found() {
        for query in [
            "{ orders { id } }",
            "{orders}",
            "query { orders { id } }",
            "query Open($n: [Int!] = [1]) { orders(first: $n) { id, items { name } } }",
            "mutation { orders(note: \"} { \\\" invoices\") { id } }",
            "{ mine: orders @include(if: true) { id } } # { invoices }",
            "{ orders(note: \"\"\"a \" } b\"\"\") { id } }",
        ] {
            assert_eq!(top_level_field(query), Ok("orders"), "{query}");
        }
    }

    #[test]
    fn what_is_not_one_field_is_refused() {
        for query in [
            "",
            "{}",
            "orders",
            "{ orders",
            "{ orders } }",
            "{ orders { id }",
            "{ orders { id } invoices { id } }",
            "{ orders { id } ...rest }",
            "{ ...rest }",
            "{ orders } fragment rest on Query { invoices }",
            "subscription { orders }",
            "{ orders(note: \"a) }",
        ] {
            assert!(top_level_field(query).is_err(), "{query}");
        }
    }
}
