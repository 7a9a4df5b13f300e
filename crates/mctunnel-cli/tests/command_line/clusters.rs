//! `mctunnel cluster`: what it writes, what it says, and what it refuses.

use crate::rig::{mctunnel, ran, run};
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_bundle_is_written_for_its_owner_alone_and_the_next_command_is_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    let mut command = mctunnel(&["cluster", "add", "cluster-a", "--data-dir", text(&data_dir)]);
    let added = ran(command.current_dir(dir.path()));
    assert_eq!(added.status, Some(0), "{added:?}");
    assert!(added.out.contains("mctunnel agent --join cluster-a.join --allow tcp://HOST:PORT"), "{}", added.out);
    assert!(added.err.contains("127.0.0.1:8443") && added.err.contains("--hub HOST:PORT"), "{}", added.err);
    let file = dir.path().join("cluster-a.join");
    assert_eq!(fs::metadata(&file).expect("the bundle").permissions().mode() & 0o777, 0o600);
    let bundle: Value = serde_json::from_str(&fs::read_to_string(&file).expect("the bundle")).expect("JSON");
    assert_eq!((&bundle["cluster"], &bundle["hub"]), (&"cluster-a".into(), &"127.0.0.1:8443".into()));
}

#[test]
fn a_cluster_is_added_once_and_then_only_reissued() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data_dir, out) = (dir.path().join("data"), dir.path().join("a.join"));
    let add = [
        "cluster",
        "add",
        "cluster-a",
        "--data-dir",
        text(&data_dir),
        "--hub",
        "hub.example.com:8443",
        "--out",
        text(&out),
    ];
    let first = run(&add);
    assert_eq!(first.status, Some(0));
    assert!(first.err.starts_with("note: there was no CA of a hub in ") && first.err.lines().count() == 1, "{first:?}");
    let bundle = fs::read_to_string(&out).expect("a bundle");

    let again = run(&add);
    assert_eq!(again.status, Some(1));
    assert!(again.err.starts_with("error[MCT-IDENTITY-CLUSTER-EXISTS]: cluster cluster-a was added"), "{}", again.err);
    assert!(again.err.contains("\n  remedy: '--reissue'"), "{}", again.err);
    assert_eq!(fs::read_to_string(&out).expect("a bundle"), bundle, "the bundle is untouched");

    let reissued = run(&[&add[..], &["--reissue"]].concat());
    assert_eq!((reissued.status, reissued.err.as_str()), (Some(0), ""));
    assert_ne!(fs::read_to_string(&out).expect("a bundle"), bundle);
}

#[test]
fn a_bundle_that_cannot_be_written_adds_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data_dir, out) = (dir.path().join("data"), dir.path().join("taken"));
    fs::write(&out, "mine").expect("a file");
    let add = run(&["cluster", "add", "cluster-a", "--data-dir", text(&data_dir), "--out", text(&out)]);
    assert_eq!(add.status, Some(1));
    // The note about the CA that was made all the same stands before it.
    assert!(add.err.lines().any(|line| line.starts_with("error[MCT-IDENTITY-FILE-EXISTS]: ")), "{}", add.err);
    assert!(add.err.starts_with("note: there was no CA of a hub in "), "{}", add.err);
    assert_eq!(fs::read_to_string(&out).expect("the file"), "mine");
    assert_eq!(run(&["cluster", "list", "--data-dir", text(&data_dir), "-o", "json"]).out.trim(), "[]");
}

#[test]
fn lists_are_for_people_and_for_scripts() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    for name in ["zeta", "a-rather-long-name"] {
        let out = dir.path().join(name);
        assert_eq!(run(&["cluster", "add", name, "--data-dir", text(&data_dir), "--out", text(&out)]).status, Some(0));
    }
    let list = |form| run(&["cluster", "list", "--data-dir", text(&data_dir), "-o", form]).out;
    let table = list("table");
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("NAME                ADDED"), "{table}");
    assert!(lines[1].starts_with("a-rather-long-name  2") && lines[2].starts_with("zeta                2"), "{table}");
    let json: Value = serde_json::from_str(&list("json")).expect("JSON");
    assert_eq!((&json[0]["name"], &json[1]["name"]), (&"a-rather-long-name".into(), &"zeta".into()));
    assert!(json[0]["serials"][0].is_string() && json[0]["added"].is_string(), "{json}");

    let removed = run(&["cluster", "remove", "zeta", "--data-dir", text(&data_dir)]);
    assert_eq!(removed.status, Some(0));
    assert!(!list("table").contains("zeta"));
    let gone = run(&["cluster", "remove", "zeta", "--data-dir", text(&data_dir)]);
    assert_eq!(gone.status, Some(1));
    assert!(gone.err.starts_with("error[MCT-IDENTITY-CLUSTER-UNKNOWN]: "), "{}", gone.err);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let data_dir = dir.path().join("data");
    for (name, more, code) in [
        ("Cluster_A", &[][..], "MCT-CLUSTER-BAD-NAME"),
        ("cluster-a", &["--hub", "http://hub"], "MCT-AGENT-BAD-HUB-ADDRESS"),
    ] {
        let add = run(&[&["cluster", "add", name, "--data-dir", text(&data_dir)], more].concat());
        assert_eq!(add.status, Some(2), "{add:?}");
        assert!(add.err.starts_with(&format!("error[{code}]: ")), "{}", add.err);
        assert!(!data_dir.exists());
    }
    assert_eq!(run(&["cluster", "add", "a", "--data-dir", text(&data_dir), "--ttl", "soon"]).status, Some(2));
}

#[test]
fn the_data_directory_may_come_from_the_environment() {
    let dir = tempfile::tempdir().expect("a directory");
    let list = ran(mctunnel(&["cluster", "list", "-o", "json"]).env("MCTUNNEL_DATA_DIR", dir.path()));
    assert_eq!((list.status, list.out.trim()), (Some(0), "[]"));
    assert_eq!(run(&["cluster", "list"]).status, Some(2));
}
