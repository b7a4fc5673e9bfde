//! Any bytes as `wire::hello`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("hello", bytes));
