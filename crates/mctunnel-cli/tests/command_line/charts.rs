//! The charts and the tutorials: what they say is what the binary takes.

use crate::rig::{Role, run};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The flags in the arguments of a chart's container: `- --flag=...`, or the same in a `printf`.
fn flags(chart: &str) -> BTreeSet<String> {
    let templates = read(format!("deploy/helm/{chart}/templates/deployment.yaml"));
    let lines =
        templates.lines().map(str::trim).filter(|line| line.starts_with("- --") || line.contains("printf \"--"));
    let flag = |line: &str| {
        let name: String =
            line.split_once("--")?.1.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        Some(format!("--{name}"))
    };
    lines.filter_map(flag).collect()
}

#[test]
fn every_flag_of_a_chart_is_one_of_the_binary() {
    for (chart, role, least) in [("mctunnel-hub", "hub", 12), ("mctunnel-agent", "agent", 12)] {
        let (flags, help) = (flags(chart), run(&[role, "--help"]).out);
        assert!(flags.len() >= least, "{flags:?}");
        for flag in flags {
            let is_known = help.split([' ', ',', '\n']).any(|word| word == flag);
            assert!(is_known, "{chart} has {flag}, and {role} does not know it");
        }
    }
}

#[test]
fn every_value_of_a_join_token_is_one_of_the_chart() {
    let data = tempfile::tempdir().expect("a directory");
    let data_dir = data.path().join("hub").display().to_string();
    let command =
        ["join-token", "create", "--cluster", "cluster-a", "--hub", "hub.example.com:8443", "--label", "env=prod"];
    let printed = run(&[&command[..], &["--output", "values", "--data-dir", &data_dir]].concat());
    assert_eq!(printed.status, Some(0), "{}", printed.err);
    let keys = |text: &str| -> BTreeSet<String> {
        let own = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        own.filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
    };
    let (given, known) = (keys(&printed.out), keys(&read("deploy/helm/mctunnel-agent/values.yaml")));
    assert!(given.len() >= 6, "{given:?}");
    assert!(given.is_subset(&known), "{given:?} {known:?}");
}

/// The block of a document that begins with this line.
fn block(document: &str, first: &str) -> String {
    let text = read(document);
    let begin = text.find(&format!("```yaml\n{first}\n")).unwrap_or_else(|| panic!("{document} has no {first}"));
    let block = text.get(begin + "```yaml\n".len()..).unwrap_or_default();
    block.split_once("\n```").expect("the end of the block").0.to_owned()
}

#[test]
fn the_files_of_the_tutorial_about_openid_connect_are_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let (auth, policy) = (dir.path().join("auth.yaml"), dir.path().join("policy.yaml"));
    fs::write(&auth, block("docs/tutorials/oidc.md", "# /etc/mctunnel/auth.yaml")).expect("written");
    fs::write(&policy, block("docs/tutorials/oidc.md", "# /etc/mctunnel/policy.yaml")).expect("written");
    let [auth, policy] = [auth, policy].map(|path| path.display().to_string());
    let checked = run(&["policy", "check", &policy]);
    assert_eq!(checked.status, Some(0), "{} {}", checked.out, checked.err);
    let question =
        ["can-i", "list", "pods", "-n", "default", "--cluster", "cluster-a", "--as", "corp:alice@example.com"];
    let who = ["--as-group", "corp:developers", "--as-provider", "corp", "--policy", &policy];
    let answer = run(&[&question[..], &who].concat());
    assert_eq!((answer.status, answer.out.trim()), (Some(0), "yes (role viewer, rule 1, binding developers)"));
    let data = dir.path().join("hub").display().to_string();
    let listeners =
        ["--tunnel-listen", "--gateway-listen", "--connect-listen"].map(|flag| [flag, "127.0.0.1:0"]).concat();
    let files = ["hub", "--data-dir", &data, "--auth-config", &auth, "--policy", &policy, "--admin-listen", "off"];
    let mut hub = Role::start(dir.path(), "hub", &[&files[..], &listeners].concat(), &[]);
    assert_eq!(hub.ready()["role"], "hub");
    let shown = run(&["ca", "show", "--data-dir", &data]);
    assert!(shown.out.starts_with("-----BEGIN CERTIFICATE-----"), "{} {}", shown.out, shown.err);
    assert!(!shown.out.contains("PRIVATE KEY"));
}
