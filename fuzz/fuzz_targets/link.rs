//! Accepted programs to the linker: it makes all calls that the result has.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("link", bytes));
