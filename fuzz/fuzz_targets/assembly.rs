//! Any bytes as pieces of messages, and a table of messages under assembly that they come to.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("assembly", bytes));
