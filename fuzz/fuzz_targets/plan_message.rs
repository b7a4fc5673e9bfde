//! Any bytes as `wire::plan`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("plan_message", bytes));
