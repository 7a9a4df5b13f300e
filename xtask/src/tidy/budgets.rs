//! Files stay short and say what they are. Functions are clippy's business (`too_many_lines`).

use super::Finding;
use crate::repo::Repo;

/// Above this a file should be split.
const SOFT_LINES: usize = 400;
/// Above this it must be.
const HARD_LINES: usize = 700;
/// Above this an inline test module moves to `foo/tests.rs`.
const INLINE_TEST_LINES: usize = 100;

/// Checks that every file starts with what it is, and is not.
pub(super) fn headers(repo: &Repo) -> Vec<Finding> {
    let silent = repo.rust().filter(|file| !file.text.starts_with("//!"));
    silent
        .map(|file| Finding::error(&file.path, 1, "header", "begin with `//!`: what this file is, and is not"))
        .collect()
}

/// Checks the lengths of files; tests count apart.
pub(super) fn lengths(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repo.rust() {
        let lines = file.production_lines;
        if lines > HARD_LINES {
            let message = format!("{lines} lines without tests, {HARD_LINES} is the limit: split it");
            findings.push(Finding::error(&file.path, HARD_LINES + 1, "budget", message));
        } else if lines > SOFT_LINES {
            let message = format!("{lines} lines without tests, {SOFT_LINES} is the budget");
            findings.push(Finding::warning(&file.path, SOFT_LINES + 1, "budget", message));
        }
        let inline_tests = file.text.lines().count().saturating_sub(lines);
        if lines > 0 && inline_tests > INLINE_TEST_LINES {
            let stem = file.name().trim_end_matches(".rs");
            let home = if stem == "lib" || stem == "main" { "tests.rs".to_owned() } else { format!("{stem}/tests.rs") };
            let message =
                format!("{inline_tests} lines of tests, {INLINE_TEST_LINES} is the budget: move them to {home}");
            findings.push(Finding::warning(&file.path, lines + 1, "budget", message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{super::places, *};

    #[test]
    fn a_file_says_what_it_is() {
        let repo = Repo::of(&[
            ("crates/a/src/lib.rs", "//! A thing.\n"),
            ("crates/a/src/b.rs", "use x;\n//! Too late.\n"),
            ("scripts/c.rs", ""),
        ]);
        assert_eq!(places(&headers(&repo)), ["crates/a/src/b.rs:1"]);
    }

    #[test]
    fn long_files_are_advice_first_and_an_error_later() {
        let check = |lines: usize, tests: usize| {
            let text = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(lines), "\n".repeat(tests));
            lengths(&Repo::of(&[("crates/a/src/b.rs", &text)])).iter().map(Finding::is_error).collect::<Vec<_>>()
        };
        assert_eq!(check(400, 97), [] as [bool; 0]);
        assert_eq!(check(401, 97), [false]);
        assert_eq!(check(701, 97), [true]);
        assert_eq!(check(10, 98), [false]);
    }

    #[test]
    fn files_of_tests_have_no_budget() {
        let long = format!("//! Tests.\n{}", "\n".repeat(2000));
        assert_eq!(lengths(&Repo::of(&[("crates/a/tests/b.rs", &long), ("crates/a/src/c/tests.rs", &long)])), []);
    }
}
