//! Any text as a PLAN program; what must hold stands in `src/plans.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("plan_source", bytes));
