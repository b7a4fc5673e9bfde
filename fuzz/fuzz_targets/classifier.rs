//! Any bytes as definitions of protocols, rules, and a frame; `src/classifying.rs` has the invariants.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("classifier", bytes));
