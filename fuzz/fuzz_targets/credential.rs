//! Any bytes as a set of credentials, as one credential's text, and as a token that a good set is mutated into.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("credential", bytes));
