//! Any bytes as `wire::udp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("udp", bytes));
