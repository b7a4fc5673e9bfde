//! Any bytes as `wire::icmp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("icmp", bytes));
