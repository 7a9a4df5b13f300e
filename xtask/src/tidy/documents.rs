//! The documents that must exist, the form of decision records, and text that only makes sense on one machine.

use super::Finding;
use crate::repo::{File, Repo};

const REQUIRED: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs/config.md",
    "docs/errors.md",
];

/// Where decision records live.
const DECISIONS: &str = "docs/adr/";

/// What a decision record must have headings for.
const PARTS: &[&str] = &["Status", "Context", "Decision", "Consequences", "Rejected"];

/// Beginnings of paths that exist on one machine only.
const LOCAL: &[&str] = &[concat!("/wo", "rk/")];

/// Checks that the documents a stranger looks for are there.
pub(super) fn present(repo: &Repo) -> Vec<Finding> {
    let missing = REQUIRED.iter().filter(|path| !repo.paths.contains(**path));
    missing.map(|path| Finding::error(path, 1, "documents", "this document is missing")).collect()
}

/// Checks name, number and headings of each decision record.
pub(super) fn decisions(repo: &Repo) -> Vec<Finding> {
    const RULE: &str = "adr";
    let mut findings = Vec::new();
    let mut last = "";
    for file in repo.markdown().filter(|file| file.path.starts_with(DECISIONS) && file.name() != "README.md") {
        let number = file.name().split('-').next().unwrap_or_default();
        if number.len() != 4 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            findings.push(Finding::error(&file.path, 1, RULE, "call it NNNN-title.md (`cargo xtask adr new TITLE`)"));
        } else if number == last {
            findings.push(Finding::error(&file.path, 1, RULE, format!("two records have the number {number}")));
        }
        last = number;
        let missing = PARTS.iter().filter(|part| !has_heading(file, part));
        findings.extend(missing.map(|part| Finding::error(&file.path, 1, RULE, format!("no heading with `{part}`"))));
    }
    findings
}

fn has_heading(file: &File, part: &str) -> bool {
    let part = part.to_lowercase();
    file.text.lines().any(|line| line.starts_with("##") && line.to_lowercase().contains(&part))
}

/// Checks that no text names a path of the machine it was written on.
pub(super) fn no_local_paths(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &repo.files {
        for (line, text) in file.lines() {
            let found = LOCAL.iter().filter(|path| text.contains(*path));
            findings.extend(found.map(|path| {
                Finding::error(&file.path, line, "local-path", format!("`{path}` exists on one machine only"))
            }));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{super::places, *};

    #[test]
    fn missing_documents_are_named() {
        let found = places(&present(&Repo::of(&[("README.md", ""), ("docs/errors.md", "")])));
        assert!(found.contains(&"LICENSE:1".to_owned()) && !found.contains(&"README.md:1".to_owned()), "{found:?}");
    }

    #[test]
    fn a_decision_record_has_its_parts_and_its_own_number() {
        let whole = "# 1. x\n## Status\n## Context\n## Decision\n## Consequences\n## Alternatives rejected\n";
        let good =
            Repo::of(&[("docs/adr/0001-x.md", whole), ("docs/adr/0002-y.md", whole), ("docs/adr/README.md", "")]);
        assert_eq!(decisions(&good), []);
        let bad = Repo::of(&[
            ("docs/adr/0001-x.md", whole),
            ("docs/adr/0001-y.md", whole),
            ("docs/adr/02-z.md", "## Status\n## Context\n## Decision\n## Consequences\nRejected: none\n"),
        ]);
        assert_eq!(places(&decisions(&bad)), ["docs/adr/0001-y.md:1", "docs/adr/02-z.md:1", "docs/adr/02-z.md:1"]);
    }

    #[test]
    fn local_paths_are_found() {
        let local = format!("ok\nsee {}main\n", LOCAL[0]);
        assert_eq!(places(&no_local_paths(&Repo::of(&[("README.md", &local)]))), ["README.md:2"]);
        assert_eq!(no_local_paths(&Repo::of(&[("README.md", "/workers/ and work/x\n")])), []);
    }
}
