//! Any bytes as `wire::capsule`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("capsule", bytes));
