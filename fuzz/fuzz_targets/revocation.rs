//! Any bytes as `wire::revocation`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("revocation", bytes));
