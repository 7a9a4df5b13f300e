//! Stable error codes: the table of docs/errors.md has each code that the crates can show, and no other. Code and remedy come
//! from the source; what happened is told by hand and kept.

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
    for (code, Code { path, line, remedy }) in &codes {
        match rows.get(code) {
            None => {
                let message = format!("`{code}` is not in {TABLE}; run `cargo xtask errors`");
                findings.push(Finding::error(path, *line, RULE, message));
            }
            Some(row) if remedy.as_ref().is_some_and(|remedy| *remedy != row.remedy) => {
                let message =
                    format!("`{code}` has another remedy in {path}; run `cargo xtask errors`");
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
    for (code, Code { remedy, .. }) in codes(repo) {
        let row = rows.get(&code);
        let meaning = row.map_or("", |row| &row.meaning);
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
}

/// The codes of production code, each with the place that states its remedy, or else the first that has it.
fn codes(repo: &Repo) -> BTreeMap<String, Code> {
    let mut codes: BTreeMap<String, Code> = BTreeMap::new();
    for file in repo.rust().filter(|file| file.path.starts_with("crates/")) {
        let mut offset = 0;
        for (line, text) in (1..).zip(file.text.split_inclusive('\n')) {
            let rest = file.text.split_at(offset).1;
            offset += text.len();
            if file.is_test_line(line) || text.trim_start().starts_with("//") {
                continue;
            }
            for (at, _) in text.match_indices("\"MCT-") {
                let Some((code, behind)) = literal(rest.split_at(at).1) else {
                    continue;
                };
                let remedy = remedy(behind);
                let better = codes
                    .get(&code)
                    .is_none_or(|seen| seen.remedy.is_none() && remedy.is_some());
                if better
                    && code
                        .chars()
                        .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '-')
                {
                    codes.insert(
                        code,
                        Code {
                            path: file.path.clone(),
                            line,
                            remedy,
                        },
                    );
                }
            }
        }
    }
    codes
}

fn remedy(behind: &str) -> Option<String> {
    let behind = behind.trim_start().strip_prefix(',')?.trim_start();
    let behind = behind
        .strip_prefix("remedy:")
        .unwrap_or(behind)
        .trim_start();
    literal(behind).map(|(text, _)| text.replace('|', "\\|"))
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
    let table = (1..)
        .zip(document.lines())
        .skip_while(|(_, text)| *text != BEGIN);
    let table = table.take_while(|(_, text)| *text != END);
    table.filter_map(|(line, text)| row(line, text)).collect()
}

fn row(line: usize, text: &str) -> Option<(String, Row)> {
    let text = text.strip_prefix("| `")?.strip_suffix('|')?;
    let (code, text) = text.split_once("` |")?;
    let (meaning, remedy) = text.split_once(" | ")?;
    let row = Row {
        line,
        meaning: meaning.trim().to_owned(),
        remedy: remedy.trim().to_owned(),
    };
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
        assert_eq!(
            rewritten,
            format!("# Errors\n{BEGIN}\n{table}{END}\nthe end\n")
        );
    }

    #[test]
    fn differences_are_found_and_mended() {
        let (found, rewritten) = check(
            "| `MCT-B` | b happened | do c |\n| `MCT-C` |  | by hand |\n| `MCT-GONE` | x | y |\n",
        );
        assert_eq!(
            found,
            [
                "crates/a/src/lib.rs:2",
                "docs/errors.md:3",
                "docs/errors.md:4",
                "docs/errors.md:5"
            ]
        );
        assert!(
            rewritten.contains("| `MCT-A` |  | do \"this\"") && !rewritten.contains("GONE"),
            "{rewritten}"
        );
        assert!(
            rewritten.contains("| `MCT-B` | b happened | do b |\n| `MCT-C` |  | by hand |\n"),
            "{rewritten}"
        );
    }
}
