//! Any bytes as what the loader is asked for, and as the words of its refusal.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("loader", bytes));
