//! Any bytes as a bundle file: an accepted one can be checked and written again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("bundle", bytes));
