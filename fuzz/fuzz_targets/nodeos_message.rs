//! Any bytes as a call of a process and as an answer of the node; `libanode/tests/hostile.rs` runs the same from a seed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("nodeos_message", bytes));
