//! A process that writes what it likes into the shared memory; `libanode/tests/hostile.rs` runs the same from a seed.
#![no_main]

#[path = "../../libanode/tests/hostile/harness.rs"]
#[allow(dead_code)]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::ring(bytes));
