//! A crate depends only downwards. The table here is the layer diagram of ARCHITECTURE.md.

use super::Finding;
use crate::repo::{File, Repo};

const RULE: &str = "layers";

/// Each crate with its layer. Crates of one layer never depend on each other.
const LAYERS: &[(&str, u8)] = &[
    ("mctunnel-mux", 0),
    ("mctunnel-core", 1),
    ("mctunnel-tunnel", 2),
    ("mctunnel-identity", 2),
    ("mctunnel-authn", 2),
    ("mctunnel-policy", 2),
    ("mctunnel-http", 2),
    ("mctunnel-store", 2),
    ("mctunnel-audit", 2),
    ("mctunnel-hub", 3),
    ("mctunnel-agent", 3),
    ("mctunnel-gateway", 3),
    ("mctunnel-kube", 3),
    ("mctunnel-konnectivity", 3),
    ("mctunnel-report", 3),
    ("mctunnel", 4),
    ("mctunnel-cli", 5),
];

/// Crates for development: they may use any crate, and none of the above may use them outside its tests.
const DEVELOPMENT: &[&str] = &["mctunnel-testkit", "e2e", "bench", "fuzz", "mutants", "xtask"];

/// Crates that may take errors apart no further.
const MAY_USE_ANYHOW: &[&str] = &["mctunnel-cli", "mctunnel-testkit", "e2e", "bench", "fuzz", "mutants", "xtask"];

/// What the multiplexer may be built from. A clock, a socket or a hash map would come through one of these or not at all.
const MUX_MAY_USE: &[&str] = &["bytes"];

/// Checks every edge between our crates, and who uses `anyhow`.
pub(super) fn edges(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (owner, manifest) in manifests(repo) {
        let development = DEVELOPMENT.contains(&owner);
        let layer = layer_of(owner);
        if layer.is_none() && !development {
            let message =
                format!("`{owner}` has no layer; give it one in xtask/src/tidy/layers.rs and ARCHITECTURE.md");
            findings.push(Finding::error(&manifest.path, 1, RULE, message));
        }
        for (line, dependency) in dependencies(&manifest.text) {
            if let Some(problem) = judge(owner, layer, development, dependency) {
                findings.push(Finding::error(&manifest.path, line, RULE, problem));
            }
        }
    }
    findings
}

fn judge(owner: &str, layer: Option<u8>, development: bool, dependency: &str) -> Option<String> {
    if dependency == "anyhow" && !MAY_USE_ANYHOW.contains(&owner) {
        return Some(format!("`{owner}` is a library: its errors are enums; only the binary uses `anyhow`"));
    }
    if development {
        return None;
    }
    if DEVELOPMENT.contains(&dependency) {
        return Some(format!("`{dependency}` is for tests; move it to [dev-dependencies]"));
    }
    let (own, other) = (layer?, layer_of(dependency)?);
    (other >= own).then(|| {
        let direction = if other == own { "sideways" } else { "upwards" };
        format!("`{owner}` (L{own}) depends {direction} on `{dependency}` (L{other}); a crate depends only downwards")
    })
}

/// Checks that the multiplexer cannot reach a clock, a socket or a thread: `no_std`, and an allow-list of dependencies.
pub(super) fn mux_is_pure(repo: &Repo) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(manifest) = repo.file("crates/mctunnel-mux/Cargo.toml") {
        for (line, dependency) in dependencies(&manifest.text) {
            if !MUX_MAY_USE.contains(&dependency) {
                let message = format!("the multiplexer is built from {MUX_MAY_USE:?} alone, not `{dependency}`");
                findings.push(Finding::error(&manifest.path, line, RULE, message));
            }
        }
        let lib = repo.file("crates/mctunnel-mux/src/lib.rs");
        if !lib.is_some_and(|lib| lib.code_lines().any(|(_, line)| line.trim() == "#![no_std]")) {
            let message = "the multiplexer has `#![no_std]`: it is the proof that it does no I/O";
            findings.push(Finding::error("crates/mctunnel-mux/src/lib.rs", 1, RULE, message));
        }
    }
    for file in repo.rust().filter(|file| file.path.starts_with("crates/mctunnel-mux/src/")) {
        for (line, code) in file.code_lines().filter(|(line, _)| !file.is_test_line(*line)) {
            let only_for_tests =
                file.code.lines().nth(line.wrapping_sub(2)).is_some_and(|above| above.trim() == "#[cfg(test)]");
            if code.trim().starts_with("extern crate std") && !only_for_tests {
                findings.push(Finding::error(&file.path, line, RULE, "the multiplexer does without `std`"));
            }
        }
    }
    findings
}

/// Checks that each crate takes the lints of the workspace.
pub(super) fn lints_are_inherited(repo: &Repo) -> Vec<Finding> {
    let missing = manifests(repo).filter(|(owner, manifest)| {
        *owner != "fuzz"
            && !section(&manifest.text, |name| name == "lints")
                .any(|(_, line)| line.replace(' ', "") == "workspace=true")
    });
    missing
        .map(|(_, manifest)| Finding::error(&manifest.path, 1, RULE, "add `[lints]` with `workspace = true`"))
        .collect()
}

fn layer_of(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(member, _)| *member == name).map(|(_, layer)| *layer)
}

/// The manifests of our crates, with the crate's name (which is its directory's name).
fn manifests(repo: &Repo) -> impl Iterator<Item = (&str, &File)> {
    repo.files.iter().filter_map(|file| {
        let directory = file.path.strip_suffix("/Cargo.toml")?;
        Some((directory.rsplit('/').next()?, file))
    })
}

/// What a manifest names under `[dependencies]`, `[build-dependencies]` and their `[target.*]` forms.
fn dependencies(manifest: &str) -> impl Iterator<Item = (usize, &str)> {
    let ships = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        last == "dependencies" || last == "build-dependencies"
    };
    section(manifest, ships).filter_map(|(line, text)| {
        let (key, value) = text.split_once('=')?;
        let renamed = value.split_once("package = \"").and_then(|(_, rest)| rest.split('"').next());
        let name = key.trim().split('.').next().unwrap_or_default();
        Some((line, renamed.unwrap_or_else(|| name.trim_matches('"'))))
    })
}

/// Numbered lines of the sections whose header is wanted; comments and blank lines left out.
fn section(manifest: &str, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    (1..).zip(manifest.lines()).filter_map(move |(line, text)| {
        let text = text.trim();
        if let Some(header) = text.strip_prefix('[') {
            inside = wanted(header.trim_matches(['[', ']']));
            return None;
        }
        (inside && !text.is_empty() && !text.starts_with('#')).then_some((line, text))
    })
}

#[cfg(test)]
mod tests {
    use super::{super::places, *};

    fn edge(owner: &str, dependency: &str) -> usize {
        let manifest = format!("[package]\n[dependencies]\n{dependency} = {{ workspace = true }}\n");
        edges(&Repo::of(&[(&format!("crates/{owner}/Cargo.toml"), &manifest)])).len()
    }

    #[test]
    fn a_crate_depends_only_downwards() {
        for (owner, dependency) in [
            ("mctunnel-core", "mctunnel-mux"),
            ("mctunnel-hub", "mctunnel-tunnel"),
            ("mctunnel-cli", "mctunnel"),
            ("mctunnel-cli", "anyhow"),
            ("mctunnel-testkit", "mctunnel-hub"),
            ("mctunnel-hub", "tokio"),
        ] {
            assert_eq!(edge(owner, dependency), 0, "{owner} -> {dependency}");
        }
        for (owner, dependency) in [
            ("mctunnel-mux", "mctunnel-core"),
            ("mctunnel-hub", "mctunnel-agent"),
            ("mctunnel-gateway", "mctunnel-hub"),
            ("mctunnel-tunnel", "mctunnel-identity"),
            ("mctunnel-identity", "mctunnel-tunnel"),
            ("mctunnel-hub", "mctunnel"),
            ("mctunnel-hub", "anyhow"),
            ("mctunnel-hub", "mctunnel-testkit"),
            ("mctunnel-novel", "tokio"),
        ] {
            assert_eq!(edge(owner, dependency), 1, "{owner} -> {dependency}");
        }
    }

    #[test]
    fn every_form_of_a_dependency_is_seen_and_tests_are_free() {
        let manifest = "[dependencies]\n# mctunnel = 1\nhub.workspace = true\nx = { package = \"mctunnel\" }\n\
            [target.'cfg(unix)'.dependencies]\nmctunnel-cli = \"1\"\n[dev-dependencies]\nmctunnel-testkit = \"1\"\n";
        let names: Vec<_> = dependencies(manifest).collect();
        assert_eq!(names, [(3, "hub"), (4, "mctunnel"), (6, "mctunnel-cli")]);
    }

    #[test]
    fn the_mux_is_no_std_and_has_one_dependency() {
        let clean = "[dependencies]\nbytes = \"1\"\n[dev-dependencies]\nproptest = \"1\"\n";
        let lib = "//! Mux.\n#![no_std]\nextern crate alloc;\n#[cfg(test)]\nextern crate std;\n";
        let paths = ("crates/mctunnel-mux/Cargo.toml", "crates/mctunnel-mux/src/lib.rs");
        assert_eq!(mux_is_pure(&Repo::of(&[(paths.0, clean), (paths.1, lib)])), []);
        let impure = Repo::of(&[(paths.0, "[dependencies]\ntokio = \"1\"\n"), (paths.1, "//! x\nextern crate std;\n")]);
        assert_eq!(
            places(&mux_is_pure(&impure)),
            [format!("{}:2", paths.0), format!("{}:1", paths.1), format!("{}:2", paths.1)]
        );
    }

    #[test]
    fn lints_come_from_the_workspace() {
        let good = ("crates/mctunnel/Cargo.toml", "[lints]\nworkspace = true\n");
        let bad = ("crates/mctunnel-hub/Cargo.toml", "[package]\nworkspace = true\n");
        assert_eq!(places(&lints_are_inherited(&Repo::of(&[good, bad]))), ["crates/mctunnel-hub/Cargo.toml:1"]);
    }
}
