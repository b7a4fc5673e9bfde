//! Any bytes as pieces of messages, put into a table of messages under assembly.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("assembly", bytes));
