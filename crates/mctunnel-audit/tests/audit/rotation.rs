//! Files that are full, and files that are too old.

use crate::rig::{Place, request};
use mctunnel_audit::{AuditConfig, AuditLog, Problem, VerifyError, verify};
use std::fs;

fn config(place: &Place, rotate_bytes: u64, keep: usize) -> AuditConfig {
    let mut config = place.config();
    let file = config.file.as_mut().expect("a file");
    (file.rotate_bytes, file.keep) = (rotate_bytes, keep);
    config
}

/// Records requests, a life for each of `lives`.
fn record(place: &Place, rotate_bytes: u64, keep: usize, lives: &[usize]) {
    record_and_count(place, rotate_bytes, keep, lives);
}

/// The same; gives how many files were deleted.
fn record_and_count(place: &Place, rotate_bytes: u64, keep: usize, lives: &[usize]) -> u64 {
    let mut deleted = 0;
    for requests in lives {
        let log = AuditLog::open(config(place, rotate_bytes, keep)).expect("it opens");
        for number in 0..*requests {
            request(&log, &number.to_string());
        }
        log.close().expect("it closes");
        deleted += log.status().files_deleted;
    }
    deleted
}

#[test]
fn the_chain_goes_on_over_rotation_and_restarts() {
    let place = Place::new();
    record(&place, 4_000, 100, &[20, 0, 13, 1]);
    let files = place.layout().files().expect("files");
    assert!(files.len() > 4, "{files:?}");
    for file in &files {
        let size = fs::metadata(file).expect("it is there").len();
        assert!(size <= 4_000 && size > 0, "{} has {size}", file.display());
    }
    let verified = place.verify().expect("it holds");
    assert_eq!((verified.records, verified.first), (20 + 13 + 1 + 4 * 2, 1));
    let mut shuffled = files;
    shuffled.rotate_left(2);
    shuffled.swap(0, 1);
    assert_eq!(verify(&shuffled, &[]).expect("in any order").records, verified.records);
}

#[test]
fn a_record_that_is_larger_than_a_file_has_a_file_alone() {
    let place = Place::new();
    record(&place, 10, 100, &[3]);
    assert_eq!(place.layout().files().expect("files").len(), 5);
    assert_eq!(place.verify().expect("it holds").records, 5);
}

#[test]
fn only_so_many_full_files_are_kept() {
    let place = Place::new();
    let deleted = record_and_count(&place, 2_000, 3, &[40]);
    assert_eq!(place.layout().full().expect("files").len(), 3);
    let verified = place.verify().expect("what is left holds");
    let all_kept = Place::new();
    assert_eq!(record_and_count(&all_kept, 2_000, 100, &[40]), 0);
    let files = u64::try_from(all_kept.layout().full().expect("files").len()).expect("few");
    assert_eq!(deleted, files - 3, "each one that goes is counted");
    assert!(verified.first > 1 && verified.head.map(|head| head.seq) == Some(42), "{verified:?}");
}

#[test]
fn a_full_file_that_is_missing_changed_or_cut_is_found() {
    let place = Place::new();
    record(&place, 2_000, 100, &[20]);
    let files = place.layout().files().expect("files");
    let without: Vec<_> = [&files[..2], &files[3..]].concat();
    assert!(
        matches!(verify(&without, &[]), Err(VerifyError::Broken(broken)) if matches!(broken.problem, Problem::Missing { .. }))
    );
    let text = fs::read_to_string(&files[1]).expect("a file");
    fs::write(&files[1], &text[..text.len() - 20]).expect("a file");
    let Err(VerifyError::Broken(broken)) = verify(&files, &[]) else { panic!("it is broken") };
    assert_eq!((&broken.file, broken.problem), (&files[1], Problem::Changed));
    fs::write(&files[1], text.replacen("alice", "malic", 1)).expect("a file");
    let Err(VerifyError::Broken(broken)) = verify(&files, &[]) else { panic!("it is broken") };
    assert_eq!((broken.file, broken.line), (files[1].clone(), 1));
}

#[test]
fn a_crash_between_two_files_is_survived() {
    let place = Place::new();
    record(&place, 1 << 20, 100, &[3]);
    // As after the full file was set aside and before the next was begun.
    let aside = place.log().with_file_name("audit-00000000000000000001.log");
    fs::rename(place.log(), &aside).expect("it is there");
    record(&place, 1 << 20, 100, &[2]);
    assert_eq!(place.verify().expect("it holds").records, 9);
    // And as after the next was begun and before anything was in it.
    let second = place.log().with_file_name("audit-00000000000000000006.log");
    fs::rename(place.log(), &second).expect("it is there");
    place.write("");
    record(&place, 1 << 20, 100, &[2]);
    assert_eq!(place.verify().expect("it holds").records, 13);
}
