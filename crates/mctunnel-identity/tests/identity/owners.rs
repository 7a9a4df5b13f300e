//! Whom the files of a data directory belong to: its owner, also when root runs a command there. Who is not root can give nothing away,
//! and has no need to; what it may replace is decided in `private_file.rs`.

use crate::forge::cluster;
use mctunnel_identity::{AgentStore, ClusterFiles, HubAuthority, JoinTokenFiles, JoinTokens, NewJoinToken};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    time::Duration,
};

/// Some user and group that nobody here has.
const SERVICE: (u32, u32) = (64_123, 64_124);

/// Of everything in a directory, what it is called, its owner and its mode.
fn all(dir: &Path) -> Vec<(String, (u32, u32), u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let metadata = fs::symlink_metadata(entry.path()).unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        found.push((entry.path().display().to_string(), (metadata.uid(), metadata.gid()), mode));
        if metadata.is_dir() {
            found.extend(all(&entry.path()));
        }
    }
    found
}

#[test]
fn what_is_made_in_a_data_directory_belongs_to_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let us = fs::metadata(dir.path()).unwrap();
    let owner = if us.uid() == 0 { SERVICE } else { (us.uid(), us.gid()) };
    let (hub, agent) = (dir.path().join("hub"), dir.path().join("agent"));
    for place in [&hub, &agent] {
        fs::create_dir(place).unwrap();
        chown(place, Some(owner.0), Some(owner.1)).unwrap();
    }

    // All that commands do.
    let authority = HubAuthority::open_or_create(&hub, &[]).unwrap();
    let (clusters, tokens) = (ClusterFiles::new(&hub), JoinTokenFiles::new(&hub));
    for name in ["a", "b"] {
        let epoch = clusters.ensure(&cluster(name)).unwrap();
        let (ttl, labels, pin) = (Duration::from_secs(60), BTreeMap::new(), authority.pin());
        let new = NewJoinToken { cluster: cluster(name), epoch, ttl, uses: 1, labels, pin };
        let (id, _) = tokens.create(new).unwrap();
        tokens.revoke(id).unwrap();
        clusters.revoke(&cluster(name)).unwrap();
    }
    authority.rotate().unwrap();
    let in_between = all(&hub);
    authority.retire().unwrap();
    HubAuthority::open_or_create(&hub, &["another.example".to_owned()]).unwrap();
    let store = AgentStore::new(&agent);
    store.pending_key().unwrap();

    let found = [in_between, all(&hub), all(&agent)].concat();
    assert!(found.len() > 20, "{found:?}");
    for (path, whose, mode) in &found {
        assert_eq!(*whose, owner, "{path}");
        assert_eq!(mode & 0o077, 0, "{path}");
    }
}

#[test]
fn a_file_that_root_took_is_given_back_when_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let files = ClusterFiles::new(dir.path());
    files.ensure(&cluster("a")).unwrap();
    let record = dir.path().join("clusters/a.json");
    let us = fs::metadata(&record).unwrap();
    let owner = if us.uid() == 0 { SERVICE } else { (us.uid(), us.gid()) };
    // As an earlier version of a command left it, run by root.
    chown(dir.path().join("clusters"), Some(owner.0), Some(owner.1)).unwrap();
    files.revoke(&cluster("a")).unwrap();
    let metadata = fs::metadata(&record).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), owner);
}
