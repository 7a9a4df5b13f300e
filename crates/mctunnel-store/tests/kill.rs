//! kill -9 at any moment: a child writes and says what was acknowledged, and is killed; then the file is opened again.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use mctunnel_core::store::{Change, Namespace, Store};
use mctunnel_store::FileStore;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use std::{
    collections::BTreeMap,
    env,
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::Arc,
    time::Duration,
};

/// Tells the child that it is one, and where to write.
const DIRECTORY: &str = "STORE_KILL_DIRECTORY";
const SEED: &str = "STORE_KILL_SEED";

const THINGS: Namespace = Namespace::new("things");
const ROUNDS: u64 = 60;
const KEYS: u64 = 16;

/// The child's whole life. Without the variable, as one of the tests, it does nothing.
#[test]
fn child() {
    let Some(directory) = env::var_os(DIRECTORY) else { return };
    let seed = env::var(SEED).expect("a seed").parse().expect("a number");
    let mut random = StdRng::seed_from_u64(seed);
    let store: Arc<dyn Store> = Arc::new(FileStore::open(Path::new(&directory)).expect("the store opens"));
    loop {
        let key = format!("key-{}", random.random_range(0..KEYS));
        let filler = random.random_range(0..5_000);
        let count = store
            .update_with(THINGS, &key, |before| {
                let count = before.map_or(0, count) + 1;
                (Change::Put(value(count, filler)), count)
            })
            .expect("it is written");
        say(&format!("ack {key} {count}"));
    }
}

/// A line at once, past the capture of the test's output.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("the parent reads");
}

/// A count and as many bytes that follow from it; a torn value does not.
fn value(count: u64, filler: usize) -> Vec<u8> {
    let byte = u8::try_from(count % 251).expect("below 251");
    [&count.to_be_bytes()[..], &vec![byte; filler]].concat()
}

fn count(value: &[u8]) -> u64 {
    let (count, filler) = value.split_first_chunk().expect("a count");
    let count = u64::from_be_bytes(*count);
    assert!(filler.iter().all(|byte| u64::from(*byte) == count % 251), "a torn value of count {count}");
    count
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    let outer = tempfile::tempdir().expect("a directory");
    let directory = outer.path().join("data");
    let mut random = StdRng::seed_from_u64(9);
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut child = spawn(&directory, round);
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        for _ in 0..random.random_range(0..12) {
            let (key, count) = acknowledgement(&mut out).expect("the child lives");
            acknowledged.insert(key, count);
        }
        // tidy: sleep because the moment of the kill is to be any
        std::thread::sleep(Duration::from_micros(random.random_range(0..4_000)));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        // What it said before it died counts as well.
        while let Some((key, count)) = acknowledgement(&mut out) {
            acknowledged.insert(key, count);
        }
        check(&directory, round, &mut acknowledged);
    }
    assert!(acknowledged.values().sum::<u64>() > ROUNDS, "the children hardly wrote: {acknowledged:?}");
}

fn spawn(directory: &Path, round: u64) -> Child {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "child", "--nocapture"]).env(DIRECTORY, directory).env(SEED, round.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts")
}

/// The next thing the child says was written; `None` once it is dead.
fn acknowledgement(out: &mut BufReader<ChildStdout>) -> Option<(String, u64)> {
    loop {
        let mut line = String::new();
        out.read_line(&mut line).expect("UTF-8");
        // A line without its end was cut by the kill: nobody was told.
        let line = line.strip_suffix('\n')?;
        if let Some((key, count)) = line.strip_prefix("ack ").and_then(|rest| rest.split_once(' ')) {
            return Some((key.to_owned(), count.parse().expect("a number")));
        }
    }
}

/// Every key has what was acknowledged last, or the one change after it that was under way.
fn check(directory: &Path, round: u64, acknowledged: &mut BTreeMap<String, u64>) {
    let store = FileStore::open(directory).expect("it opens after a kill");
    let found: BTreeMap<String, u64> =
        store.list(THINGS, "").expect("a list").into_iter().map(|(key, value)| (key, count(&value))).collect();
    let mut unanswered = 0;
    for (key, count) in acknowledged.iter() {
        let found = found.get(key).copied().unwrap_or_default();
        assert!(found == *count || found == count + 1, "round {round}: {key} has {found}, acknowledged was {count}");
    }
    for (key, count) in &found {
        unanswered += count - acknowledged.get(key).copied().unwrap_or_default();
    }
    assert!(unanswered <= 1, "round {round}: {unanswered} changes that nobody asked for");
    *acknowledged = found;
}
