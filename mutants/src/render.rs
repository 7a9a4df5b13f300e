//! Writes a file anew with all its changes in it, each behind a switch.
//!
//! Every place is fenced with comments that hold the numbers of its changes, so that a compiler's error can be traced to them.

use std::{collections::BTreeSet, fmt::Write, ops::Range};

/// A place in a file's text.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) range: Range<usize>,
    /// The part of it that is written with the places inside it.
    pub(crate) inner: Range<usize>,
    pub(crate) form: Form,
}

/// How a place can be broken. The numbers are those of changes.
#[derive(Debug)]
pub(crate) enum Form {
    /// An expression that can be another one.
    Choice(Vec<(usize, String)>),
    /// An expression that can be true or false.
    Condition { is_true: Option<usize>, is_false: usize },
    /// A truth that can be its opposite.
    Flip(usize),
    /// An expression that can be false for some cases.
    Except(Vec<(usize, String)>),
    /// A statement that can be left out.
    Leave(usize),
    /// A pattern that can be without effect.
    Guard(usize),
    /// An arm with several patterns, each of which can be without effect.
    Cases { cases: Vec<(usize, Range<usize>)>, needs_comma: bool },
    /// Answers at the start of a function.
    Return(Vec<(usize, String)>),
    /// A word that has to go.
    Remove,
}

/// The text with every place broken, except for changes that are left out.
pub(crate) fn render(text: &str, mut sites: Vec<Site>, without: &BTreeSet<usize>) -> String {
    // Of two places at the same text the outer one was found first.
    sites.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end)));
    Renderer { text, without }.part(0..text.len(), &sites)
}

struct Renderer<'t> {
    text: &'t str,
    without: &'t BTreeSet<usize>,
}

impl Renderer<'_> {
    fn text_of(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    fn part(&self, range: Range<usize>, sites: &[Site]) -> String {
        let mut out = String::new();
        let (mut at, mut rest) = (range.start, sites);
        while let Some((site, behind)) = rest.split_first() {
            let count = behind.iter().take_while(|other| other.range.end <= site.range.end).count();
            let (inside, outside) = behind.split_at_checked(count).unwrap_or((behind, &[]));
            if site.range.start >= at {
                out.push_str(self.text_of(at..site.range.start));
                let first = inside.iter().take_while(|other| other.range.start < site.inner.start).count();
                let inner = self.part(site.inner.clone(), inside.get(first..).unwrap_or_default());
                self.write(&mut out, site, &inner);
                at = site.range.end;
            }
            rest = outside;
        }
        out.push_str(self.text_of(at..range.end));
        out
    }

    fn is_in(&self, id: usize) -> bool {
        !self.without.contains(&id)
    }

    fn write(&self, out: &mut String, site: &Site, inner: &str) {
        // Writing to a `String` cannot fail.
        let _ = self.try_write(out, site, inner);
    }

    fn try_write(&self, out: &mut String, site: &Site, inner: &str) -> std::fmt::Result {
        match &site.form {
            Form::Choice(alternatives) => {
                let own: Vec<_> = alternatives.iter().filter(|(id, _)| self.is_in(*id)).collect();
                if own.is_empty() {
                    return write!(out, "{inner}");
                }
                write!(out, "(")?;
                for (id, code) in own {
                    write!(out, "if {} {{ {} }} else ", switch(*id), fenced(*id, code))?;
                }
                write!(out, "{{ {inner} }})")
            }
            Form::Condition { is_true, is_false } => {
                let is_true = is_true
                    .filter(|id| self.is_in(*id))
                    .map_or_else(|| "false".to_owned(), |id| fenced(id, &switch(id)));
                let is_false =
                    if self.is_in(*is_false) { fenced(*is_false, &switch(*is_false)) } else { "false".to_owned() };
                write!(out, "({is_true} || !{is_false} && ({inner}))")
            }
            Form::Flip(id) if self.is_in(*id) => write!(out, "({} != {inner})", fenced(*id, &switch(*id))),
            Form::Except(cases) => {
                write!(out, "(({inner})")?;
                for (id, code) in cases.iter().filter(|(id, _)| self.is_in(*id)) {
                    write!(out, " && !({} && {})", switch(*id), fenced(*id, code))?;
                }
                write!(out, ")")
            }
            Form::Leave(id) if self.is_in(*id) => {
                write!(out, "{}", fenced(*id, &format!("if !{} {{ {inner} }}", switch(*id))))
            }
            Form::Guard(id) if self.is_in(*id) => write!(out, " if !{}", fenced(*id, &switch(*id))),
            Form::Cases { cases, needs_comma } => {
                for (id, pattern) in cases {
                    let guard = if self.is_in(*id) { format!(" if !{}", switch(*id)) } else { String::new() };
                    let comma = if *needs_comma { "," } else { "" };
                    writeln!(out, "{}{guard}{inner}{comma}", fenced(*id, self.text_of(pattern.clone())))?;
                }
                Ok(())
            }
            Form::Return(answers) => {
                for (id, code) in answers.iter().filter(|(id, _)| self.is_in(*id)) {
                    write!(out, " if {} {{ {} }}", switch(*id), fenced(*id, &format!("return {code};")))?;
                }
                Ok(())
            }
            Form::Remove => Ok(()),
            Form::Flip(_) | Form::Leave(_) | Form::Guard(_) => write!(out, "{inner}"),
        }
    }
}

/// The name of the function that says which change is on.
pub(crate) const SWITCH: &str = "mutant_is_on";

fn switch(id: usize) -> String {
    format!("crate::{SWITCH}({id})")
}

fn fenced(id: usize, code: &str) -> String {
    format!("/*<{id}*/{code}/*{id}>*/")
}

/// The change whose code is around a position of a written text: the innermost.
pub(crate) fn around(written: &str, position: usize) -> Option<usize> {
    let (before, behind) = written.split_at_checked(position)?;
    let mut closed = BTreeSet::new();
    let mut rest = before;
    loop {
        let (front, id, is_open) = last_fence(rest)?;
        if !is_open {
            closed.insert(id);
        } else if !closed.contains(&id) && behind.contains(&format!("/*{id}>*/")) {
            return Some(id);
        }
        rest = front;
    }
}

/// The last fence of a text: what is in front of it, its number, and whether it opens.
fn last_fence(text: &str) -> Option<(&str, usize, bool)> {
    let mut end = text.len();
    loop {
        let start = text.get(..end)?.rfind("/*")?;
        let inside = text.get(start + 2..)?.split_once("*/").map_or("", |(inside, _)| inside);
        let opens = inside.strip_prefix('<').and_then(|digits| digits.parse().ok()).map(|id| (id, true));
        let closes = inside.strip_suffix('>').and_then(|digits| digits.parse().ok()).map(|id| (id, false));
        if let Some((id, is_open)) = opens.or(closes) {
            return Some((text.get(..start)?, id, is_open));
        }
        end = start;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites;

    fn broken(text: &str) -> (String, Vec<String>) {
        let (sites, mutants) = sites::find("x.rs", text, 1).unwrap();
        (render(text, sites, &BTreeSet::new()), mutants.into_iter().map(|mutant| mutant.change).collect())
    }

    #[test]
    fn what_is_written_is_rust_and_has_every_change() {
        let (written, changes) = broken(
            "const fn f(a: u8, b: &str) -> bool {\n    if a == 1 && !b.is_empty() { g(); return false; }\n    \
             match b { \"x\" | \"y\" => a < 3, \"z\" if a > 4 => true, _ => matches!(a, 1 | 2) }\n}\n\
             #[cfg(test)] mod tests { fn g() -> bool { true } }\nconst X: usize = 1 + 2;",
        );
        syn::parse_file(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
        let expected = [
            "gives true at once",
            "true instead of: a == 1 && !b.is_empty()",
            "|| instead of &&: a == 1 && !b.is_empty()",
            "!= instead of ==: a == 1",
            "without the !: !b.is_empty()",
            "without: g();",
            "true instead of: false",
            "without the case: \"x\"",
            "without the case: \"y\"",
            "<= instead of <: a < 3",
            "one more: 3",
            "without the case: \"z\"",
            "true instead of: a > 4",
            "without the case: 2",
        ];
        for change in expected {
            assert!(changes.iter().any(|own| own == change), "{change} is not in {changes:#?}");
        }
        assert!(!written.contains("const fn") && written.contains("const X: usize = 1 + 2;"));
        assert!(written.contains("mod tests { fn g() -> bool { true } }"));
        // What constants are made with stays as it is.
        let made = "const fn f() -> u8 { 1 }\nconst X: u8 = f();";
        assert_eq!(broken(made), (made.to_owned(), Vec::new()));
        // Without something that takes all there would be a case that nothing is about.
        let (_, changes) = broken("fn f(a: Option<u8>) -> u8 { match a { Some(b) => b, None => 7 } }");
        assert!(!changes.iter().any(|own| own.starts_with("without the case")), "{changes:#?}");
    }

    #[test]
    fn a_chain_with_a_let_keeps_it() {
        let (written, changes) = broken("fn f(a: Option<u8>) { if let Some(b) = a && b > 1 { g(b) } }");
        syn::parse_file(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert!(
            changes.iter().any(|own| own == "false instead of: b > 1")
                && !changes.iter().any(|own| own.starts_with("||"))
        );
    }

    #[test]
    fn an_error_is_traced_to_the_change_around_it() {
        let written = "a /*<1*/b /*<2*/c/*2>*/ d/*1>*/ e";
        let at = |letter| written.find(letter).and_then(|position| around(written, position));
        assert_eq!([at('a'), at('b'), at('c'), at('d'), at('e')], [None, Some(1), Some(2), Some(1), None]);
    }
}
