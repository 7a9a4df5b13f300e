//! `mctunnel explain`: the table of docs/errors.md at hand. The table is made from the codes in the source and checked against
//! them, so it has all of them.

use crate::{output, settings::nearest};
use mctunnel::ErrorCode;

const TABLE: &str = include_str!("../../../docs/errors.md");

/// A line of the table.
struct Row<'a> {
    code: &'a str,
    meaning: String,
    remedy: String,
}

/// Says what a code means, or lists all codes.
pub(crate) fn run(code: Option<&str>) -> Result<(), UnknownCode> {
    let Some(asked) = code else {
        for row in rows() {
            output::say(&format!("{:<30} {}", row.code, row.meaning));
        }
        return Ok(());
    };
    let asked = asked.trim().to_ascii_uppercase();
    let Some(row) = rows().find(|row| row.code == asked) else {
        let suggestion = nearest(&asked, rows().map(|row| row.code)).map(str::to_owned);
        return Err(UnknownCode { asked, suggestion });
    };
    output::say(&format!("{}\n  what happened: {}\n  what to do: {}", row.code, row.meaning, row.remedy));
    Ok(())
}

fn rows() -> impl Iterator<Item = Row<'static>> {
    TABLE.lines().filter_map(|line| {
        let (code, rest) = line.strip_prefix("| `MCT-")?.split_once("` | ")?;
        let code = line.get("| `".len().."| `MCT-".len() + code.len())?;
        let (meaning, remedy) = rest.strip_suffix(" |")?.split_once(" | ")?;
        let plain = |text: &str| text.replace("\\|", "|");
        Some(Row { code, meaning: plain(meaning), remedy: plain(remedy) })
    })
}

/// No such code.
#[derive(Debug, thiserror::Error)]
#[error("no error has the code {asked}{}", suggestion.as_deref().map(|code| format!("; did you mean {code}?")).unwrap_or_default())]
pub(crate) struct UnknownCode {
    asked: String,
    suggestion: Option<String>,
}

impl UnknownCode {
    pub(crate) fn code(&self) -> ErrorCode {
        ErrorCode { code: "MCT-EXPLAIN-UNKNOWN-CODE", remedy: "'mctunnel explain' without a code lists all of them" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_meaning_and_a_remedy() {
        let rows: Vec<_> = rows().collect();
        assert_eq!(rows.len(), TABLE.matches("\n| `MCT-").count());
        assert!(rows.iter().any(|row| row.code == "MCT-OPEN-NO-TUNNEL" && row.remedy.contains("agent runs")));
        for Row { code, meaning, remedy } in rows {
            assert!(!meaning.trim().is_empty() && !remedy.trim().is_empty(), "{code}");
        }
    }
}
