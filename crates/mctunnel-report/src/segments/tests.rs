//! What a crash may leave of a segment, at every byte.

use super::*;

fn open(dir: &Path) -> (Segments, Vec<Vec<u8>>) {
    let mut seen = Vec::new();
    let segments = Segments::open(
        dir,
        || b"head".to_vec(),
        |_, found| {
            if let Found::Entry(entry) = found {
                seen.push(entry.to_vec());
            }
        },
    );
    (segments.unwrap(), seen)
}

#[test]
fn whatever_a_crash_leaves_of_the_end_the_entries_before_it_are_there_and_the_next_follow() {
    let dir = tempfile::tempdir().unwrap();
    let entries: [&[u8]; 3] = [b"first", b"", b"the third entry"];
    let (mut log, _) = open(dir.path());
    let start = usize::try_from(log.active().len).unwrap();
    let ends: Vec<u64> = entries
        .iter()
        .map(|entry| {
            log.append(entry).unwrap();
            log.active().len
        })
        .collect();
    let path = log.active_path();
    drop(log);
    let whole = fs::read(&path).unwrap();
    for cut in start..=whole.len() {
        for garbage in [&b""[..], &[0; 40], &[0xff; 40]] {
            fs::write(&path, [&whole[..cut], garbage].concat()).unwrap();
            let (mut log, seen) = open(dir.path());
            let complete = ends.iter().filter(|end| **end <= cut as u64).count();
            assert!(seen.len() >= complete, "cut at {cut}");
            let is_whole = |(entry, seen): (&&[u8], &Vec<u8>)| *entry == seen.as_slice();
            assert!(entries.iter().zip(&seen).all(is_whole), "cut at {cut}: {seen:?}");
            let known = seen.len();
            log.append(b"after").unwrap();
            log.sync().unwrap();
            drop(log);
            let (_, seen) = open(dir.path());
            assert_eq!((seen.len(), seen.last().map(Vec::as_slice)), (known + 1, Some(&b"after"[..])), "cut at {cut}");
        }
    }
}

#[test]
fn a_flipped_bit_is_never_taken_for_an_entry() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path());
    let start = usize::try_from(log.active().len).unwrap();
    log.append(b"first").unwrap();
    log.append(b"second").unwrap();
    let path = log.active_path();
    drop(log);
    let whole = fs::read(&path).unwrap();
    for at in start..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            fs::write(&path, &damaged).unwrap();
            let (_, seen) = open(dir.path());
            let fine = [&b"first"[..], b"second"];
            assert!(seen.len() < 2 && seen.iter().zip(fine).all(|(a, b)| a == b), "byte {at} bit {bit}: {seen:?}");
        }
    }
}

#[test]
fn segments_follow_each_other_and_a_damaged_one_costs_only_its_rest() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = open(dir.path());
    for segment in 0..3 {
        for entry in 0..3 {
            log.append(format!("{segment}.{entry}").as_bytes()).unwrap();
        }
        log.roll(b"head").unwrap();
    }
    drop(log);
    let damaged = path_of(dir.path(), 2);
    let mut bytes = fs::read(&damaged).unwrap();
    let end = bytes.len() - 1;
    bytes[end - 11] ^= 1;
    fs::write(&damaged, bytes).unwrap();
    fs::write(dir.path().join("00000000000000000009.new"), "half made").unwrap();
    let (mut log, seen) = open(dir.path());
    let seen: Vec<_> = seen.iter().map(|entry| String::from_utf8_lossy(entry).into_owned()).collect();
    assert_eq!(seen, ["0.0", "0.1", "0.2", "1.0", "2.0", "2.1", "2.2"]);
    assert_eq!(log.active().id, 4);
    assert_eq!(log.forget_oldest().unwrap().map(|segment| segment.id), Some(1));
    assert!(!path_of(dir.path(), 1).exists() && !dir.path().join("00000000000000000009.new").exists());
}

#[test]
fn a_file_that_is_not_ours_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(path_of(dir.path(), 1), "somebody's novel").unwrap();
    assert!(Segments::open(dir.path(), Vec::new, |_, _| {}).is_err());
    assert_eq!(fs::read_to_string(path_of(dir.path(), 1)).unwrap(), "somebody's novel");
}
