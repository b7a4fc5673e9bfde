//! Any bytes as a PLAN packet; `src/plans.rs` has the invariants.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("plan_packet", bytes));
