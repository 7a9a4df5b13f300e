//! Stable error codes: the table of docs/errors.md has each code that the crates can show, and no other. Code and remedy come
//! from the source; what happened starts as the variant's documentation and is kept when edited by hand.

use super::Finding;
use crate::repo::Repo;
use anyhow::{Context, Result};
use std::{collections::BTreeMap, fmt::Write as _};

const RULE: &str = "error-codes";
const BEGIN: &str = "<!-- codes: begin -->";
const END: &str = "<!-- codes: end -->";

/// Where the codes are explained.
pub(crate) const TABLE: &str = "docs/errors.md";

/// Checks that source and table agree.
pub(super) fn documented(repo: &Repo) -> Vec<Finding> {
    let Some(table) = repo.file(TABLE) else {
        return Vec::new();
    };
    let rows = rows(&table.text);
    let codes = codes(repo);
    let mut findings = Vec::new();
    for (code, Code { path, line, remedy, .. }) in &codes {
        match rows.get(code) {
            None => {
                let message = format!("`{code}` is not in {TABLE}; run `cargo xtask errors`");
                findings.push(Finding::error(path, *line, RULE, message));
            }
            Some(row) if remedy.as_ref().is_some_and(|remedy| *remedy != row.remedy) => {
                let message = format!("`{code}` has another remedy in {path}; run `cargo xtask errors`");
                findings.push(Finding::error(TABLE, row.line, RULE, message));
            }
            Some(row) if row.meaning.is_empty() || row.remedy.is_empty() => {
                let message = format!("say what `{code}` means and what to do about it");
                findings.push(Finding::error(TABLE, row.line, RULE, message));
            }
            Some(_) => {}
        }
    }
    for (code, row) in rows.iter().filter(|(code, _)| !codes.contains_key(*code)) {
        let message = format!("no crate has `{code}`; run `cargo xtask errors`");
        findings.push(Finding::error(TABLE, row.line, RULE, message));
    }
    findings
}

/// The text of docs/errors.md with its table written anew.
pub(crate) fn rewritten(repo: &Repo) -> Result<String> {
    let old = &repo.file(TABLE).context(TABLE)?.text;
    let markers = || format!("{TABLE} has no lines `{BEGIN}` and `{END}`");
    let (before, rest) = old.split_once(BEGIN).with_context(markers)?;
    let (_, after) = rest.split_once(END).with_context(markers)?;
    let rows = rows(old);
    let mut table = String::from("| code | what happened | what to do |\n|---|---|---|\n");
    for (code, Code { remedy, meaning, .. }) in codes(repo) {
        let row = rows.get(&code);
        let edited = row.map(|row| &row.meaning).filter(|text| !text.is_empty());
        let meaning = edited.cloned().or(meaning).unwrap_or_default();
        let kept = row.map_or("", |row| &row.remedy);
        let remedy = remedy.as_deref().unwrap_or(kept);
        writeln!(table, "| `{code}` | {meaning} | {remedy} |")?;
    }
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

// === Code ===

/// A code in the source.
struct Code {
    path: String,
    line: usize,
    /// The text right behind the code, as in `("MCT-A", "do this")`.
    remedy: Option<String>,
    /// What the variant in front of the code says of itself, as in `Self::A => ("MCT-A", ..)`.
    meaning: Option<String>,
}

/// The codes of production code, each with the place that states its remedy, or else the first that has it.
fn codes(repo: &Repo) -> BTreeMap<String, Code> {
    let mut codes: BTreeMap<String, Code> = BTreeMap::new();
    for file in repo.rust().filter(|file| file.path.starts_with("crates/")) {
        let mut offset = 0;
        for (line, text) in (1..).zip(file.text.split_inclusive('\n')) {
            let (before, rest) = file.text.split_at(offset);
            offset += text.len();
            if file.is_test_line(line) || text.trim_start().starts_with("//") {
                continue;
            }
            for (at, _) in text.match_indices("\"MCT-") {
                let Some((code, behind)) = literal(rest.split_at(at).1) else {
                    continue;
                };
                let remedy = remedy(behind);
                let better = codes.get(&code).is_none_or(|seen| seen.remedy.is_none() && remedy.is_some());
                if better && code.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-') {
                    let meaning = meaning(&file.text, &format!("{before}{}", text.split_at(at).0));
                    codes.insert(code, Code { path: file.path.clone(), line, remedy, meaning });
                }
            }
        }
    }
    codes
}

fn remedy(behind: &str) -> Option<String> {
    let behind = behind.trim_start().strip_prefix(',')?.trim_start();
    let behind = behind.strip_prefix("remedy:").unwrap_or(behind).trim_start();
    literal(behind).map(|(text, _)| text.replace('|', "\\|"))
}

/// The first sentence of the documentation of the variant that is matched last before the code.
fn meaning(source: &str, before_code: &str) -> Option<String> {
    let (_, arm) = before_code.rsplit_once("Self::")?;
    let variant: String = arm.chars().take_while(|c| c.is_alphanumeric()).collect();
    let declared = |line: &str| {
        let rest = line.trim().strip_prefix(&variant);
        rest.is_some_and(|rest| rest.starts_with([',', ' ', '(', '{']))
    };
    let lines: Vec<&str> = source.lines().collect();
    let at = lines.iter().position(|line| declared(line))?;
    let above = lines.iter().take(at).rev().map(|line| line.trim());
    let block =
        above.take_while(|line| !line.is_empty() && !line.ends_with([',', '}', '{']) || line.starts_with("///"));
    let mut documentation: Vec<&str> = block.filter_map(|line| line.strip_prefix("/// ")).collect();
    documentation.reverse();
    let text = documentation.join(" ");
    let sentence = text.split_once(". ").map_or(text.as_str(), |(first, _)| first).trim_end_matches('.');
    let mut letters = sentence.chars();
    let first = letters.next()?;
    Some(format!("{}{}", first.to_lowercase(), letters.as_str()).replace('|', "\\|"))
}

/// The string literal that starts here, and what is behind it.
fn literal(text: &str) -> Option<(String, &str)> {
    let mut letters = text.strip_prefix('"')?.chars();
    let mut value = String::new();
    loop {
        match letters.next()? {
            '"' => return Some((value, letters.as_str())),
            '\\' => match letters.next()? {
                '\n' => letters = letters.as_str().trim_start().chars(),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
}

// === Row ===

/// A line of the table.
struct Row {
    line: usize,
    meaning: String,
    remedy: String,
}

fn rows(document: &str) -> BTreeMap<String, Row> {
    let table = (1..).zip(document.lines()).skip_while(|(_, text)| *text != BEGIN);
    let table = table.take_while(|(_, text)| *text != END);
    table.filter_map(|(line, text)| row(line, text)).collect()
}

fn row(line: usize, text: &str) -> Option<(String, Row)> {
    let text = text.strip_prefix("| `")?.strip_suffix('|')?;
    let (code, text) = text.split_once("` |")?;
    let (meaning, remedy) = text.split_once(" | ")?;
    let row = Row { line, meaning: meaning.trim().to_owned(), remedy: remedy.trim().to_owned() };
    Some((code.to_owned(), row))
}

#[cfg(test)]
mod tests {
    use super::{super::places, *};

    const SOURCE: &str = "//! \"MCT-IN-COMMENT\"\n\
        (\"MCT-A\", \"do \\\"this\\\" | that, \\\n    and more\"),\n\
        code: \"MCT-B\",\n  remedy: \"do b\",\n\
        let code = \"MCT-C\";\n\
        \"MCT-...\", \"MCT-X: told in passing\"\n\
        #[cfg(test)]\nmod tests {\n\"MCT-T\"\n}\n";

    fn check(table: &str) -> (Vec<String>, String) {
        let table = format!("# Errors\n{BEGIN}\n{table}{END}\nthe end\n");
        let repo = Repo::of(&[("crates/a/src/lib.rs", SOURCE), (TABLE, &table)]);
        (places(&documented(&repo)), rewritten(&repo).unwrap())
    }

    #[test]
    fn a_table_that_agrees_is_left_alone() {
        let table = "| code | what happened | what to do |\n|---|---|---|\n\
            | `MCT-A` | a happened | do \"this\" \\| that, and more |\n\
            | `MCT-B` | b happened | do b |\n\
            | `MCT-C` | c happened | told by hand |\n";
        let (found, rewritten) = check(table);
        assert_eq!(found, [] as [&str; 0]);
        assert_eq!(rewritten, format!("# Errors\n{BEGIN}\n{table}{END}\nthe end\n"));
    }

    #[test]
    fn a_variant_explains_its_code() {
        let source = "enum E {\n    /// No tunnel\n    /// is up. Or so.\n    #[error(\n        \"x\", y\n    )]\n    NoTunnel {\n        /// When.\n        at: u8,\n    },\n\
            \x20   /// Busy.\n    Busy(u8),\n}\n";
        for (arm, expected) in
            [("Self::NoTunnel { .. } => (\n", "no tunnel is up"), ("Self::NoTunnel, Self::Busy(_) => (", "busy")]
        {
            assert_eq!(meaning(source, arm).as_deref(), Some(expected));
        }
        assert_eq!(meaning(source, "Self::Other => ("), None);
        assert_eq!(meaning(source, "code: "), None);
    }

    #[test]
    fn differences_are_found_and_mended() {
        let (found, rewritten) =
            check("| `MCT-B` | b happened | do c |\n| `MCT-C` |  | by hand |\n| `MCT-GONE` | x | y |\n");
        assert_eq!(found, ["crates/a/src/lib.rs:2", "docs/errors.md:3", "docs/errors.md:4", "docs/errors.md:5"]);
        assert!(rewritten.contains("| `MCT-A` |  | do \"this\"") && !rewritten.contains("GONE"), "{rewritten}");
        assert!(rewritten.contains("| `MCT-B` | b happened | do b |\n| `MCT-C` |  | by hand |\n"), "{rewritten}");
    }
}
