//! Any bytes as a request to the loader, and as the words of its refusal.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("loader", bytes));
