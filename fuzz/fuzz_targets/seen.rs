//! Any bytes as what `seen` reads: frames, records, and capture files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("seen", bytes));
