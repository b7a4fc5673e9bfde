//! Any bytes as `wire::fetch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("fetch", bytes));
