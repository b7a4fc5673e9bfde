//! Any bytes as `wire::checksum`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("checksum", bytes));
