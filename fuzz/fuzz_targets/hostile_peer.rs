//! A scripted peer against a connection. What is checked is in `mctunnel_testkit::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mctunnel_testkit::fuzzing::hostile_peer(bytes));
