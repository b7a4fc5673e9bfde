//! Any text as the manifest of an extension; `src/targets.rs` has the invariants.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("extension", bytes));
