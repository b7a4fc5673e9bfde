//! Any bytes as a wasm representation: the check gives facts that fit, or a refusal.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("check_wasm", bytes));
