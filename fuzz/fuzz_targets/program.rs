//! Any bytes as a bpf representation: an accepted one is canonical.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("program", bytes));
