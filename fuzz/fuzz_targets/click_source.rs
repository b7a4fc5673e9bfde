//! Any text as a configuration in Click's language; `src/clicks.rs` has the invariants.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("click_source", bytes));
