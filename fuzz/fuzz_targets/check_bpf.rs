//! Any bytes to the scanner: it never panics, and accepted code passes a second opinion.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("check_bpf", bytes));
