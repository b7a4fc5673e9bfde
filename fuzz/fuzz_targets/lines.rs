//! Any bytes as a line table: an accepted one is canonical, and every place of it has a line or none.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("lines", bytes));
