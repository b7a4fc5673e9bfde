//! Any bytes as `wire::ipv4`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("ipv4", bytes));
