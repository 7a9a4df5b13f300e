//! Names that say nothing: of files, modules and types. A reader should be able to guess what is inside.

use super::Finding;
use crate::repo::{File, Repo};

const RULE: &str = "names";

/// Modules that attract whatever has no home.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "helper", "helpers", "common", "misc", "types", "manager", "impl", "base"];

/// Endings that add nothing to a type's name.
const EMPTY_SUFFIXES: &[&str] = &["Impl", "Manager", "Helper", "Info", "Data"];

/// A frame of the wire is called so, and nothing else is.
const WIRE_NAME: &str = "Data";

/// What the standard library calls the way to what a wrapper wraps.
const WRAPPER_GETTERS: &[&str] = &["get_ref", "get_mut"];

/// Checks the names of files and directories.
pub(super) fn files(repo: &Repo) -> Vec<Finding> {
    repo.rust().filter_map(|file| Some(Finding::error(&file.path, 1, RULE, file_problem(file)?))).collect()
}

fn file_problem(file: &File) -> Option<String> {
    let mut parts: Vec<&str> = file.path.split('/').collect();
    let stem = parts.pop()?.trim_end_matches(".rs");
    if stem == "mod" {
        return Some("`foo.rs` beside `foo/`, not `foo/mod.rs`: the file's name says what it is".to_owned());
    }
    if let Some(empty) = parts.iter().chain([&stem]).find(|part| EMPTY_NAMES.contains(part)) {
        return Some(format!("`{empty}` says nothing; name the file after the thing or the deed inside"));
    }
    (parts.last() == Some(&stem)).then(|| format!("`{stem}/{stem}.rs` says the same twice; use `{stem}.rs`"))
}

/// Checks the names of inline modules, types and getters.
pub(super) fn items(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repo.rust() {
        for (line, code) in file.code_lines() {
            findings.extend(item_problem(code).map(|problem| Finding::error(&file.path, line, RULE, problem)));
        }
    }
    findings
}

fn item_problem(code: &str) -> Option<String> {
    let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).peekable();
    while let Some(keyword) = words.next() {
        let Some(&name) = words.peek() else { break };
        match keyword {
            "mod" if EMPTY_NAMES.contains(&name) => {
                return Some(format!("module `{name}` says nothing; name it after what is inside"));
            }
            // An associated type has the name its trait gave it.
            "type" if code.starts_with(char::is_whitespace) => {}
            "struct" | "enum" | "trait" | "type" | "union" if name != WIRE_NAME => {
                let suffix = EMPTY_SUFFIXES.iter().find(|suffix| name.ends_with(*suffix));
                if let Some(suffix) = suffix {
                    return Some(format!(
                        "`{name}` ends in `{suffix}`, which says nothing; name the situation or the thing"
                    ));
                }
            }
            "fn" if name.starts_with("get_") && !WRAPPER_GETTERS.contains(&name) => {
                return Some(format!("`{name}`: a getter has the name of what it gives, without `get_`"));
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{super::places, *};

    #[test]
    fn files_have_telling_names() {
        let repo = Repo::of(&[
            ("crates/mctunnel-hub/src/admit.rs", ""),
            ("crates/mctunnel-hub/src/utils.rs", ""),
            ("crates/mctunnel-hub/src/common/tls.rs", ""),
            ("crates/mctunnel-hub/src/drain/mod.rs", ""),
            ("crates/mctunnel-hub/src/drain/drain.rs", ""),
            ("docs/utils.md", ""),
        ]);
        let found = places(&files(&repo));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(!found.iter().any(|place| place.contains("admit") || place.contains("docs")), "{found:?}");
    }

    #[test]
    fn items_have_telling_names() {
        for good in [
            "pub struct Data {",
            "struct Registry;",
            "mod wire;",
            "fn target() {",
            "fn get_ref(&self)",
            "type Error = Never;",
            "    type ConnectInfo = ();",
            "impl Info for",
        ] {
            assert_eq!(item_problem(good), None, "{good}");
        }
        for bad in [
            "pub(crate) mod util;",
            "struct TunnelManager<T>",
            "enum PeerInfo {",
            "type PeerInfo = ();",
            "trait DialImpl:",
            "fn get_name(&self)",
        ] {
            assert!(item_problem(bad).is_some(), "{bad}");
        }
    }
}
