//! Replays what fuzzing found worth keeping, without a fuzzer. `make fuzz` adds to it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, in its helpers too"
)]

use mctunnel_testkit::{Rng, fuzzing};
use std::{fs, path::Path};

#[test]
fn decode_survives_its_corpus() {
    replay("decode", fuzzing::decode);
}

#[test]
fn hostile_peer_survives_its_corpus() {
    replay("hostile_peer", fuzzing::hostile_peer);
}

#[test]
fn both_survive_random_scripts() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let len = rng.size(1, 600);
        let script = rng.bytes(len);
        let _on_panic = Named(format!("seed {seed}"));
        fuzzing::decode(&script);
        fuzzing::hostile_peer(&script);
    }
}

fn replay(target: &str, run: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&directory).expect("the corpus is committed") {
        let path = entry.unwrap().path();
        let _on_panic = Named(path.display().to_string());
        run(&fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count >= 10, "{count} files in fuzz/corpus/{target}: the corpus is missing");
}

/// Says which input it was, when the thread panics.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the input is {}", self.0);
        }
    }
}
