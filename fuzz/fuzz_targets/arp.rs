//! Any bytes as `wire::arp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("arp", bytes));
