//! Any bytes as a call of a process and as an answer of the node; `libanode/tests/hostile.rs` runs the same from a seed.
#![no_main]

#[path = "../../libanode/tests/hostile/harness.rs"]
#[allow(dead_code)]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::message(bytes));
