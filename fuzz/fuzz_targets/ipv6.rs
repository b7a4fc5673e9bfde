//! Any bytes as `wire::ipv6`; what must hold stands in `src/reading.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::reading::ipv6(bytes));
