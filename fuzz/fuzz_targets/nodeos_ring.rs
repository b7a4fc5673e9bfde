//! A hostile process at the other end of the shared memory; `libanode/tests/hostile.rs` runs the same from a seed.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("nodeos_ring", bytes));
