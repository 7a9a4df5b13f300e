//! Any bytes as frames and as a stream of frames. What is checked is in `mctunnel_testkit::fuzzing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mctunnel_testkit::fuzzing::decode(bytes));
