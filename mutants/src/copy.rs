//! A copy of the workspace in which the chosen files are broken in every way at once.

use crate::{
    mutant::Mutant,
    plan::Part,
    render::{SWITCH, render},
    sites,
};
use anyhow::{Context, Result, ensure};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The copy, and what is broken in it.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds: dependencies are shared with ordinary builds.
    pub(crate) target: PathBuf,
    /// Path from the root, and text.
    pub(crate) files: Vec<(String, String)>,
    pub(crate) mutants: Vec<Mutant>,
}

/// Copies the workspace and finds what can be broken of a part.
pub(crate) fn make(root: &Path, part: &Part, only: Option<&str>) -> Result<Broken> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let copy = target.join("mutants").join(part.name);
    copy_tracked(root, &copy)?;
    let manifest = copy.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    write_if_changed(&manifest, &marked(&text, part.name))?;
    let mut broken = Broken { root: copy, target, files: Vec::new(), mutants: Vec::new() };
    for file in part.files {
        let path = format!("crates/{}/src/{file}", part.package);
        if only.is_some_and(|only| !path.contains(only)) {
            continue;
        }
        let text = fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        let (_, mutants) = sites::find(&path, &text, broken.mutants.len() + 1).with_context(|| path.clone())?;
        broken.mutants.extend(mutants);
        broken.files.push((path, text));
    }
    let library = broken.root.join("crates").join(part.package).join("src/lib.rs");
    let text = fs::read_to_string(&library)?;
    write_if_changed(&library, &format!("{text}\n{}", switch()))?;
    Ok(broken)
}

impl Broken {
    /// Writes the broken files, without some of the changes.
    pub(crate) fn write(&self, without: &BTreeSet<usize>) -> Result<()> {
        let mut first = 1;
        for (path, text) in &self.files {
            let (sites, mutants) = sites::find(path, text, first)?;
            first += mutants.len();
            write_if_changed(&self.root.join(path), &render(text, sites, without))?;
        }
        Ok(())
    }
}

/// The workspace's manifest with another version: other packages to cargo, so that neither ordinary builds nor those of other parts
/// build upon what is broken here.
fn marked(manifest: &str, part: &str) -> String {
    let mut is_own = false;
    let lines = manifest.lines().map(|line| {
        is_own = if line.starts_with('[') { line == "[workspace.package]" } else { is_own };
        match line.strip_prefix("version = \"").filter(|_| is_own) {
            Some(version) => {
                format!("version = \"{}+mutants.{part}\"\n", version.split(['+', '"']).next().unwrap_or_default())
            }
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// Copies what git knows and what is new, and keeps the time of what is the same already, so that little is built anew.
fn copy_tracked(root: &Path, copy: &Path) -> Result<()> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .output()
        .context("git ls-files")?;
    ensure!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    for path in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(path), copy.join(path));
        if from.is_file() {
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            let bytes = fs::read(&from)?;
            if fs::read(&to).ok().is_none_or(|old| old != bytes) {
                fs::write(&to, bytes)?;
            }
        }
    }
    Ok(())
}

fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).ok().is_none_or(|old| old != text) {
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The function that says which change is on, and notes which of them were come by.
fn switch() -> String {
    format!(
        r#"
pub(crate) fn {SWITCH}(id: usize) -> bool {{
    use std::{{collections::BTreeSet, io::Write, sync::{{Mutex, OnceLock}}}};
    static ON: OnceLock<Option<usize>> = OnceLock::new();
    static TRACE: OnceLock<Option<Mutex<(BTreeSet<usize>, std::fs::File)>>> = OnceLock::new();
    let trace = TRACE.get_or_init(|| {{
        let path = std::env::var_os("MUTANT_TRACE")?;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path).ok()?;
        Some(Mutex::new((BTreeSet::new(), file)))
    }});
    if let Some(trace) = trace {{
        let mut trace = trace.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if trace.0.insert(id) {{
            let _ = writeln!(trace.1, "{{id}}");
        }}
    }}
    *ON.get_or_init(|| std::env::var("MUTANT").ok()?.parse().ok()) == Some(id)
}}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_of_the_workspace_changes() {
        let manifest = "[package]\nversion = \"1.0.0\"\n[workspace.package]\nedition = \"2024\"\nversion = \"0.1.0\"\n\
                        [workspace.dependencies]\nversion = \"2.0.0\"\n";
        assert_eq!(marked(manifest, "a"), manifest.replace("0.1.0", "0.1.0+mutants.a"));
        assert_eq!(marked(&marked(manifest, "a"), "b"), marked(manifest, "b"));
    }
}
