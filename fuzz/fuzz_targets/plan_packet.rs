//! Any bytes as a PLAN packet; what must hold stands in `src/plans.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("plan_packet", bytes));
