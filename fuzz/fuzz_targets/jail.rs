//! Any bytes as the order to make a jail, and as what is said of it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("jail", bytes));
