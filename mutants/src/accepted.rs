//! The changes that may go unnoticed, with their reasons: a table of `docs/security/mutation.md`, one section for each part.

use anyhow::{Context, Result};
use std::{collections::BTreeSet, fs, path::Path};

pub(crate) const DOCUMENT: &str = "docs/security/mutation.md";

/// The keys of those that are accepted for a part.
pub(crate) fn read(root: &Path, part: &str) -> Result<BTreeSet<String>> {
    let text = fs::read_to_string(root.join(DOCUMENT)).context(DOCUMENT)?;
    Ok(section(&text, part))
}

fn section(text: &str, part: &str) -> BTreeSet<String> {
    let title = format!("### {part}");
    let lines = text.lines().skip_while(|line| *line != title).skip(1).take_while(|line| !line.starts_with('#'));
    lines.filter_map(key).collect()
}

/// File, function and change of a row with a reason.
fn key(line: &str) -> Option<String> {
    // A `|` inside a cell is written `\|`, as Markdown has it.
    let line = line.strip_prefix('|')?.strip_suffix('|')?.replace("\\|", "\u{1}");
    let cells: Vec<String> = line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
    let [file, function, change, reason] = cells.as_slice() else { return None };
    let plain = |cell: &String| cell.trim_matches('`').to_owned();
    let is_row = !file.starts_with("---") && file != "file" && !reason.is_empty();
    is_row.then(|| format!("{} | {} | {}", plain(file), plain(function), plain(change)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_a_reason_is_a_key() {
        let text = "### a\n\n| file | function | change | reason |\n|---|---|---|---|\n\
                    | `x.rs` | `f` | `a \\|\\| b` to `a && b` | both are the same there |\n\
                    | `x.rs` | `g` | no reason |  |\n### b\n| `y.rs` | `f` | `c` | why |\n";
        assert_eq!(section(text, "a"), BTreeSet::from(["x.rs | f | a || b` to `a && b".to_owned()]));
        assert_eq!(section(text, "b"), BTreeSet::from(["y.rs | f | c".to_owned()]));
    }
}
