//! Starts a decision record. Its form is checked by tidy; its content is up to people.

use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Writes `docs/adr/NNNN-title.md` with the next free number and gives its path.
pub(crate) fn create(root: &Path, title: &str) -> Result<PathBuf> {
    let directory = root.join("docs/adr");
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    let number = next_number(&names);
    let slug = slug(title);
    ensure!(!slug.is_empty(), "the title needs a letter or a digit");
    let path = directory.join(format!("{number:04}-{slug}.md"));
    fs::write(&path, template(number, title)).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn next_number(names: &[String]) -> u32 {
    let numbers = names.iter().filter_map(|name| name.split('-').next()?.parse::<u32>().ok());
    numbers.max().unwrap_or(0) + 1
}

fn slug(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

fn template(number: u32, title: &str) -> String {
    format!(
        "# {number:04}: {title}\n\n\
         ## Status\n\nProposed.\n\n\
         ## Context\n\nWhat forces a decision now, with numbers where there are any.\n\n\
         ## Decision\n\nWhat we do, in the present tense.\n\n\
         ## Consequences\n\nWhat becomes easier, what becomes harder, what must be watched.\n\n\
         ## Rejected\n\nEach alternative, and the reason it lost.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gets_the_next_number_and_a_plain_name() {
        let names = ["0001-a.md", "0012-b.md", "README.md"].map(str::to_owned);
        assert_eq!(next_number(&names), 13);
        assert_eq!(next_number(&[]), 1);
        assert_eq!(slug("  Windows: grow with the *BDP*! "), "windows-grow-with-the-bdp");
    }

    #[test]
    fn a_new_record_is_written_once_and_is_tidy() {
        let root = std::env::temp_dir().join(format!("mctunnel-xtask-adr-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/adr")).unwrap();
        let first = create(&root, "Use credit").unwrap();
        let second = create(&root, "Use credit").unwrap();
        let repo = crate::repo::Repo::load(&root).unwrap();
        let complaints: Vec<_> =
            crate::tidy::check(&repo).iter().map(ToString::to_string).filter(|text| text.contains("adr")).collect();
        fs::remove_dir_all(&root).unwrap();
        assert!(first.ends_with("docs/adr/0001-use-credit.md") && second.ends_with("docs/adr/0002-use-credit.md"));
        assert_eq!(complaints, [] as [String; 0]);
    }
}
