//! The attacks of docs/security/tests.md: each has a number, and the table says which tests show it. A test that shows one begins
//! with its number, as in `t07_each_request_is_routed_by_itself`, or in a script of `e2e/` as in `"T10 Alice cannot exec"`; the last
//! column is written from those names.

use super::Finding;
use crate::repo::Repo;
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

const RULE: &str = "attacks";

/// Where the attacks are listed.
pub(crate) const TABLE: &str = "docs/security/tests.md";

/// Checks that source and table agree.
pub(super) fn listed(repo: &Repo) -> Vec<Finding> {
    let Some(table) = repo.file(TABLE) else { return Vec::new() };
    let mut findings = Vec::new();
    if rewritten(repo).is_ok_and(|text| text != table.text) {
        findings.push(Finding::error(TABLE, 1, RULE, "the tests have changed; run `cargo xtask attacks`"));
    }
    let mut rows = BTreeSet::new();
    for (line, number) in (1..).zip(table.text.lines().map(number)) {
        let Some(number) = number else { continue };
        if rows.last().is_some_and(|last| *last >= number) {
            findings.push(Finding::error(
                TABLE,
                line,
                RULE,
                format!("{number} has a row already, or stands behind a later one"),
            ));
        }
        rows.insert(number);
    }
    for (number, places) in shown(repo) {
        if !rows.contains(&number) {
            let place = places.first().map_or(TABLE, String::as_str);
            findings.push(Finding::error(place, 1, RULE, format!("{TABLE} has no row for {number}")));
        }
    }
    findings
}

/// The text of the table with its last column written anew.
pub(crate) fn rewritten(repo: &Repo) -> Result<String> {
    let old = &repo.file(TABLE).context(TABLE)?.text;
    let shown = shown(repo);
    let mut text = String::new();
    for line in old.lines() {
        match number(line) {
            Some(number) => {
                let mut cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
                cells.truncate(3);
                let places = shown.get(&number).map(|places| linked(places)).unwrap_or_default();
                writeln!(text, "| {} | {places} |", cells.join(" | "))?;
            }
            None => writeln!(text, "{line}")?,
        }
    }
    Ok(text)
}

fn linked(places: &[String]) -> String {
    let links = places.iter().map(|place| {
        let name = place.rsplit_once("crates/").map_or(place.as_str(), |(_, name)| name);
        let name = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
        format!("[{name}](../../{place})")
    });
    links.collect::<Vec<_>>().join(", ")
}

/// What a reader can do without.
const ENDINGS: [&str; 3] = [".rs", ".py", ".mjs"];

/// The number a row begins with: `| T07 | ...`.
fn number(line: &str) -> Option<String> {
    let cell = line.strip_prefix("| ")?.split(" |").next()?;
    let digits = cell.strip_prefix('T')?;
    (digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| cell.to_owned())
}

/// Which files have tests of which attack.
fn shown(repo: &Repo) -> BTreeMap<String, Vec<String>> {
    let mut shown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in repo.rust() {
        for line in file.code.lines() {
            let Some((_, name)) = line.split_once("fn t") else { continue };
            let name = format!("t{}", name.split('(').next().unwrap_or_default());
            for word in name.split('_').take_while(|word| is_number(word)) {
                shown.entry(word.to_uppercase()).or_default().insert(file.path.clone());
            }
        }
    }
    for file in repo.scripts() {
        for name in file.text.split('"').filter(|text| text.starts_with('T')) {
            for word in name.split(' ').take_while(|word| is_number(&word.to_lowercase())) {
                shown.entry(word.to_owned()).or_default().insert(file.path.clone());
            }
        }
    }
    shown.into_iter().map(|(number, places)| (number, places.into_iter().collect())).collect()
}

fn is_number(word: &str) -> bool {
    word.strip_prefix('t').is_some_and(|digits| digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "# Attacks\n\n| # | attack | expected | shown by |\n|---|---|---|---|\n";

    #[test]
    fn the_last_column_is_written_from_the_tests_names() {
        let table = format!("{ROWS}| T01 | a | b | old |\n| T02 | c | d |  |\nmore\n");
        let repo = Repo::of(&[
            (TABLE, &table),
            ("crates/a/src/lib.rs", "fn t01_t02_both() {}\nasync fn t01_again() {}\nfn trivial() {}\n"),
            ("crates/b/tests/x.rs", "fn t01_there() {}\n"),
            ("e2e/run", "check \"T02 it holds\" holds # T01\n"),
            ("e2e/front/all.py", "print(f\"T02 {name}\")\n"),
            ("e2e/front/page.mjs", "check(\"T02 a page\", []);\n"),
        ]);
        let text = rewritten(&repo).unwrap();
        let both = "[a/src/lib](../../crates/a/src/lib.rs)";
        let there = "[b/tests/x](../../crates/b/tests/x.rs)";
        let scripts = "[e2e/front/all](../../e2e/front/all.py), [e2e/front/page](../../e2e/front/page.mjs), [e2e/run](../../e2e/run)";
        assert_eq!(
            text,
            format!("{ROWS}| T01 | a | b | {both}, {there} |\n| T02 | c | d | {both}, {scripts} |\nmore\n")
        );
        assert_eq!(listed(&repo).len(), 1);
        assert_eq!(listed(&Repo::of(&[(TABLE, &text), ("crates/a/src/lib.rs", "fn t03_new() {}\n")])).len(), 2);
    }

    #[test]
    fn an_attack_has_one_row_and_the_rows_are_in_order() {
        let found = |rows: &str| listed(&Repo::of(&[(TABLE, &format!("{ROWS}{rows}"))])).len();
        assert_eq!(found("| T01 | a | b |  |\n| T02 | c | d |  |\n"), 0);
        assert_eq!(found("| T01 | a | b |  |\n| T01 | a, newer | b |  |\n"), 1);
        assert_eq!(found("| T02 | c | d |  |\n| T01 | a | b |  |\n"), 1);
    }
}
