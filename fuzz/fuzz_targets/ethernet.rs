//! Any bytes as `wire::ethernet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("ethernet", bytes));
