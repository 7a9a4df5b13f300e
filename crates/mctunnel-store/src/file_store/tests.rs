//! The format of the file, who may open it, and a disk that loses power.

mod disk;
mod power;

use super::{FileStore, open::set_schema};
use crate::OpenStoreError;
use mctunnel_core::{
    Store as _,
    store::{Namespace, contract},
};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, sync::Arc};

const THINGS: Namespace = Namespace::new("things");

/// A directory as an operator would name it: not there yet.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("data")
    }

    fn open(&self) -> Result<FileStore, OpenStoreError> {
        FileStore::open(&self.path())
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn it_keeps_the_contract() {
    let directories = std::cell::RefCell::new(Vec::new());
    contract::check(&|| {
        let place = Place::new();
        let store = Arc::new(place.open().unwrap());
        directories.borrow_mut().push(place);
        store
    });
}

#[test]
fn what_was_put_is_there_when_it_is_opened_again() {
    let place = Place::new();
    let store = place.open().unwrap();
    store.put(THINGS, "a", b"1").unwrap();
    store.put(THINGS, "b", b"2").unwrap();
    store.delete(THINGS, "a").unwrap();
    drop(store);
    let store = place.open().unwrap();
    assert_eq!(store.list(THINGS, "").unwrap(), [("b".to_owned(), b"2".to_vec())]);
}

#[test]
fn the_file_and_the_directory_are_for_their_owner_alone() {
    let outer = tempfile::tempdir().unwrap();
    let directory = outer.path().join("deep/data");
    drop(FileStore::open(&directory).unwrap());
    let file = directory.join(FileStore::FILE);
    assert_eq!((mode(&directory), mode(&file)), (0o700, 0o600));
    let names: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [FileStore::FILE], "nothing is left behind");
}

#[test]
fn what_others_can_reach_is_refused() {
    for (bits_of_directory, bits_of_file) in [(0o750, 0o600), (0o701, 0o600), (0o700, 0o640), (0o700, 0o604)] {
        let place = Place::new();
        drop(place.open().unwrap());
        chmod(&place.path(), bits_of_directory);
        chmod(&place.path().join(FileStore::FILE), bits_of_file);
        let refused = place.open().unwrap_err();
        assert!(matches!(refused, OpenStoreError::Exposed { .. }), "{refused:?}");
        assert_eq!(refused.code().code, "MCT-STORE-EXPOSED");
        assert!(refused.to_string().contains(": chmod "), "{refused}");
    }
}

#[test]
fn one_at_a_time_has_it_open() {
    let place = Place::new();
    let store = place.open().unwrap();
    let refused = place.open().unwrap_err();
    assert!(matches!(refused, OpenStoreError::InUse { .. }), "{refused:?}");
    assert_eq!(refused.code().code, "MCT-STORE-IN-USE");
    drop(store);
    place.open().unwrap();
}

#[test]
fn a_newer_format_is_left_alone() {
    let place = Place::new();
    let store = place.open().unwrap();
    set_schema(&store.database, FileStore::SCHEMA + 1).unwrap();
    drop(store);
    let refused = place.open().unwrap_err();
    assert!(matches!(refused, OpenStoreError::Newer { found: 2, known: 1, .. }), "{refused:?}");
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let place = Place::new();
    place.open().unwrap();
    let file = place.path().join(FileStore::FILE);
    fs::write(&file, "not a store, but somebody's file").unwrap();
    chmod(&file, 0o600);
    let refused = place.open().unwrap_err();
    assert!(matches!(refused, OpenStoreError::Damaged { .. }), "{refused:?}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "not a store, but somebody's file");
}
