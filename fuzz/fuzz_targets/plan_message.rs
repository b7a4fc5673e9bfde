//! Any bytes as `wire::plan`; what must hold stands in `src/reading.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::reading::plan_message(bytes));
