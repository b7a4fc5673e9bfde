//! Any bytes as `wire::ipv4`; what must hold stands in `src/reading.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::reading::ipv4(bytes));
