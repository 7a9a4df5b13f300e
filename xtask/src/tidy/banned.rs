//! Words that must not appear in code, each with what to write instead.

use super::Finding;
use crate::repo::{File, Repo};

const RULE: &str = "banned";

const BANNED: &[(&str, &str)] = &[
    ("#[ignore", "a test that does not run shows nothing; mend it or delete it"),
    ("todo!(", "finish it, or return an error that says what is missing"),
    ("unimplemented!(", "finish it, or return an error that says what is missing"),
    ("unbounded_channel", "nothing between application and wire is unbounded; give the channel a size"),
    ("#[allow(", "use `#[expect(lint, reason = \"...\")]`: it goes away when its reason does"),
    ("#![allow(", "use `#![expect(lint, reason = \"...\")]`: it goes away when its reason does"),
];

/// What excuses a sleep in a test, followed by the reason.
const SLEEP_EXCUSE: &str = "// tidy: sleep because ";

/// Checks for banned words, in tests too.
pub(super) fn words(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repo.rust() {
        for (line, code) in file.code_lines() {
            let found = BANNED.iter().filter(|(word, _)| code.contains(word));
            findings.extend(
                found.map(|(word, instead)| Finding::error(&file.path, line, RULE, format!("`{word}`: {instead}"))),
            );
        }
    }
    findings
}

/// Checks that tests wait for what they need, not for a while.
pub(super) fn sleeps(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repo.rust() {
        for (line, code) in file.code_lines() {
            if file.is_test_line(line) && calls_sleep(code) && !is_excused(file, line) {
                let message =
                    format!("a test waits for an event or moves a paused clock; else say `{SLEEP_EXCUSE}...`");
                findings.push(Finding::error(&file.path, line, RULE, message));
            }
        }
    }
    findings
}

fn calls_sleep(code: &str) -> bool {
    code.match_indices("sleep(").any(|(at, _)| {
        let before = code.split_at(at).0;
        let is_whole_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        is_whole_word && !before.ends_with('.') && !before.trim_end().ends_with("fn")
    })
}

fn is_excused(file: &File, line: usize) -> bool {
    let nearby = file.text.lines().skip(line.saturating_sub(2)).take(2.min(line));
    nearby.into_iter().any(|text| text.split_once(SLEEP_EXCUSE).is_some_and(|(_, reason)| !reason.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::{super::places, *};

    fn banned(code: &str) -> usize {
        words(&Repo::of(&[("crates/a/src/lib.rs", code)])).len()
    }

    #[test]
    fn banned_words_are_found_in_code_only() {
        for bad in [
            "#[ignore]",
            "#[ignore = \"slow\"]",
            "todo!()",
            "unimplemented!(\"x\")",
            "mpsc::unbounded_channel()",
            "#[allow(dead_code)]",
            "#![allow(dead_code, reason = \"x\")]",
        ] {
            assert_eq!(banned(bad), 1, "{bad}");
        }
        for good in
            ["// todo!()", "let s = \"#[ignore]\";", "#[expect(dead_code, reason = \"x\")]", "/// `unbounded_channel`"]
        {
            assert_eq!(banned(good), 0, "{good}");
        }
    }

    #[test]
    fn tests_do_not_sleep_without_a_reason() {
        let text = "fn run() { sleep(1); }\n\
            #[cfg(test)]\nmod tests {\n\
            thread::sleep(d);\n\
            tokio::time::sleep(d).await; // tidy: sleep because the kernel has no event for it\n\
            // tidy: sleep because the clock is paused\n\
            sleep(d).await;\n\
            // tidy: sleep because \n\
            sleep(d).await;\n\
            fn sleep() {}\n\
            timer.sleep(d); nosleep(d);\n\
            }\n";
        assert_eq!(
            places(&sleeps(&Repo::of(&[("crates/a/src/b.rs", text)]))),
            ["crates/a/src/b.rs:4", "crates/a/src/b.rs:9"]
        );
        let whole = places(&sleeps(&Repo::of(&[("crates/a/tests/b.rs", "sleep(d);\n")])));
        assert_eq!(whole, ["crates/a/tests/b.rs:1"]);
    }
}
