//! The repository as values: which paths exist, and the text of the files that checks read. It does not ask git, so that it
//! works on a source archive too.

use crate::masked;
use anyhow::{Context, Result};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Directories at the root that hold no source.
const SKIPPED: &[&str] = &[".git", ".run"];

/// Cargo puts this into its build directories; a module called `target` does not have it.
const BUILD_MARK: &str = "CACHEDIR.TAG";

/// Endings and names of the files whose text is read.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".proto", ".yaml", ".yml", ".sh"];
const NAMES: &[&str] = &["Makefile", ".ci/run"];

/// Everything the checks look at.
#[derive(Debug, Default)]
pub(crate) struct Repo {
    /// Files and directories, relative to the root, with `/`.
    pub(crate) paths: BTreeSet<String>,
    /// Text files, by path.
    pub(crate) files: Vec<File>,
}

impl Repo {
    /// Reads the tree under `root`.
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let mut repo = Self::default();
        let mut pending = vec![PathBuf::new()];
        while let Some(directory) = pending.pop() {
            let full = root.join(&directory);
            for entry in fs::read_dir(&full).with_context(|| full.display().to_string())? {
                let entry = entry?;
                let path = slashed(&directory.join(entry.file_name()));
                let kind = entry.file_type()?;
                repo.paths.insert(path.clone());
                if kind.is_dir() && !SKIPPED.contains(&path.as_str()) && !entry.path().join(BUILD_MARK).exists() {
                    pending.push(path.into());
                } else if kind.is_file() && is_text(&path) {
                    let bytes = fs::read(entry.path()).with_context(|| path.clone())?;
                    repo.files.push(File::new(path, String::from_utf8_lossy(&bytes).into_owned()));
                }
            }
        }
        repo.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(repo)
    }

    /// A made-up tree.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut repo = Self::default();
        for (path, text) in files {
            for ancestor in Path::new(path).ancestors() {
                repo.paths.insert(slashed(ancestor));
            }
            repo.files.push(File::new((*path).to_owned(), (*text).to_owned()));
        }
        repo
    }

    /// The text file at exactly that path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Our Rust sources.
    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        const HOMES: &[&str] = &["crates/", "xtask/", "bench/", "fuzz/", "e2e/"];
        self.files
            .iter()
            .filter(|file| file.path.ends_with(".rs") && HOMES.iter().any(|home| file.path.starts_with(home)))
    }

    /// The scripts that check end to end.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| is_script(&file.path))
    }

    /// Our Markdown.
    pub(crate) fn markdown(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".md"))
    }
}

fn is_text(path: &str) -> bool {
    NAMES.contains(&path) || ENDINGS.iter().any(|ending| path.ends_with(ending)) || is_script(path)
}

/// What `e2e/` runs has no ending, or is Python or JavaScript.
fn is_script(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.starts_with("e2e/") && (name.ends_with(".py") || name.ends_with(".mjs") || !name.contains('.'))
}

fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

// === File ===

/// One text file.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    /// As it is on disk.
    pub(crate) text: String,
    /// For Rust: the text with comments and literals blanked, line for line the same.
    pub(crate) code: String,
    /// For Rust: how many lines precede the tests.
    pub(crate) production_lines: usize,
}

impl File {
    fn new(path: String, text: String) -> Self {
        let code = if path.ends_with(".rs") { masked::mask(&text) } else { String::new() };
        let production_lines = if is_test_path(&path) { 0 } else { lines_before_tests(&code) };
        Self { path, text, code, production_lines }
    }

    /// The last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Numbered lines of the text, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// Numbered lines without comments and literals, from 1.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.code.lines())
    }

    /// Whether that line is part of a test.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        line > self.production_lines
    }
}

fn is_test_path(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Counts the lines before the first inline test module. `#[cfg(test)]` on anything smaller hides nothing behind it.
fn lines_before_tests(code: &str) -> usize {
    let lines: Vec<&str> = code.lines().collect();
    let opens_module = |at: usize| {
        let rest = lines.iter().skip(at + 1).map(|line| line.trim());
        let item = rest.clone().find(|line| !line.is_empty() && !line.starts_with("#["));
        item.is_some_and(|item| item.contains("mod ") && item.ends_with('{'))
    };
    let tests = lines.iter().enumerate().position(|(at, line)| line.trim() == "#[cfg(test)]" && opens_module(at));
    tests.unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn production_ends_where_the_inline_tests_begin() {
        let inline = "fn a() {}\n\n#[cfg(test)]\n#[expect(x)]\nmod tests {\n}\n";
        assert_eq!(lines_before_tests(inline), 2);
        let outside = "#[cfg(test)]\nmod tests;\nfn a() {}\n";
        assert_eq!(lines_before_tests(outside), 3);
        let one_function = "#[cfg(test)]\nfn a() {\n}\nfn b() {}\n";
        assert_eq!(lines_before_tests(one_function), 4);
    }

    #[test]
    fn files_of_tests_have_no_production_lines() {
        for path in ["crates/a/tests/wire.rs", "crates/a/src/foo/tests.rs", "crates/a/src/foo/tests/bar.rs"] {
            assert_eq!(File::new(path.to_owned(), "fn a() {}\n".to_owned()).production_lines, 0, "{path}");
        }
    }
}
