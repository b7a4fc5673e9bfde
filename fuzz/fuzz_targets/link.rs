//! Programs that the scanner accepts to the linker: it makes all the calls there are.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("link", bytes));
