//! Acknowledged is durable: the power goes at a random deed of the disk, which then has lost any part of what was not synced.

use super::{super::FileStore, THINGS, disk::Disk};
use mctunnel_core::Store as _;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use std::collections::BTreeMap;

const KEYS: u32 = 8;
const CUTS: u64 = 300;

#[test]
fn nothing_acknowledged_is_lost_when_the_power_goes() {
    for seed in 0..CUTS {
        let mut random = StdRng::seed_from_u64(seed);
        let mut disk = Disk::default();
        // Acknowledged, and what was asked for after it without an answer.
        let mut acknowledged: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut unanswered: Option<(String, Vec<u8>)> = None;
        drop(FileStore::on(disk.clone()).unwrap());
        for life in 0..3 {
            let store =
                FileStore::on(disk.clone()).unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error:?}"));
            let found: BTreeMap<_, _> = store.list(THINGS, "").unwrap().into_iter().collect();
            let mut possible = acknowledged.clone();
            possible.extend(unanswered.take());
            assert!(found == acknowledged || found == possible, "seed {seed}, life {life}: {found:?}");
            acknowledged = found;

            disk.cut_after(random.random_range(0..60));
            for number in 0..200 {
                let key = format!("key-{}", random.random_range(0..KEYS));
                let value = format!("{life}/{number}/").repeat(random.random_range(1..400)).into_bytes();
                if store.put(THINGS, &key, &value).is_err() {
                    unanswered = Some((key, value));
                    break;
                }
                acknowledged.insert(key, value);
            }
            drop(store);
            disk = disk.after_the_cut(&mut random);
        }
    }
}
