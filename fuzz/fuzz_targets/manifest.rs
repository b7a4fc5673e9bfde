//! Any bytes as a manifest: an accepted one is canonical.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("manifest", bytes));
