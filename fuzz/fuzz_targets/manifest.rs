//! Any bytes as a manifest: what is accepted is canonical.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("manifest", bytes));
