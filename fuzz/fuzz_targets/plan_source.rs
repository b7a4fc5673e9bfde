//! Any text as a PLAN program; `src/plans.rs` has the invariants.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("plan_source", bytes));
