//! Links between our own Markdown files: the file must exist, and so must the heading. Links to the web are not followed.

use super::Finding;
use crate::repo::{File, Repo};

const RULE: &str = "links";

/// Checks every relative link.
pub(super) fn resolve(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repo.markdown() {
        for (line, target) in links(file) {
            findings
                .extend(problem(repo, file, &target).map(|problem| Finding::error(&file.path, line, RULE, problem)));
        }
    }
    findings
}

fn problem(repo: &Repo, file: &File, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let path = if path.is_empty() { file.path.clone() } else { join(&file.path, path)? };
    if !path.is_empty() && !repo.paths.contains(&path) {
        return Some(format!("`{target}` leads to `{path}`, which does not exist"));
    }
    let anchor = anchor?;
    let has = |linked: &File| prose(linked).any(|(_, line)| line.starts_with('#') && slug(line) == anchor);
    let linked = repo.file(&path).filter(|linked| linked.path.ends_with(".md"))?;
    (!has(linked)).then(|| format!("`{path}` has no heading `#{anchor}`"))
}

/// The path a link means, seen from the file it stands in. `None` when it leaves the repository, as a link to a web page of
/// the same host may.
fn join(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = if link.starts_with('/') { Vec::new() } else { from.split('/').collect() };
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The targets of the relative links in a file, with their lines.
fn links(file: &File) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(file) {
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let inline = plain.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let reference =
            plain.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target.trim());
        let relative = |target: &&str| !target.contains("://") && !target.starts_with("mailto:") && !target.is_empty();
        found.extend(
            inline.chain(reference).filter(relative).map(|target| (number, target.trim_matches(['<', '>']).to_owned())),
        );
    }
    found
}

/// Numbered lines outside of fenced code.
fn prose(file: &File) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    file.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The anchor that a heading gets.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(markdown: &str) -> usize {
        let repo = Repo::of(&[
            ("docs/guide.md", markdown),
            ("docs/config.md", "# Config\n## What it `does`: all of it\n```\n# not a heading\n```\n"),
            ("README.md", ""),
            ("docs/adr/0001-x.md", ""),
        ]);
        resolve(&repo).len()
    }

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        for good in [
            "[a](config.md)",
            "[a](./config.md#config)",
            "[a](config.md#what-it-does-all-of-it)",
            "[a](../README.md \"title\")",
            "[a](adr/)",
            "[a](/README.md)",
            "[a](https://example.com/x.md)",
            "[a](mailto:x@example.com)",
            "`[a](gone.md)`",
            "```\n[a](gone.md)\n```",
            "# Here\n[a](#here)",
            "[a]: config.md",
        ] {
            assert_eq!(check(good), 0, "{good}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        for bad in [
            "[a](gone.md)",
            "x [a](config.md) [b](../config.md)",
            "[a](config.md#gone)",
            "[a](config.md#not-a-heading)",
            "[a](#gone)",
            "[a]: gone.md",
        ] {
            assert_eq!(check(bad), 1, "{bad}");
        }
    }
}
