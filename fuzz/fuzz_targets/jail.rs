//! Any bytes as the order to make a jail, and as a report about it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("jail", bytes));
