//! Any bytes as `wire::anep`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("anep", bytes));
