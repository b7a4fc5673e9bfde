//! Any bytes as a request to the broker and as its answer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("broker", bytes));
