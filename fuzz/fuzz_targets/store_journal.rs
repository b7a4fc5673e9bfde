//! Any bytes as the journal of a store that outlives its node.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("store_journal", bytes));
