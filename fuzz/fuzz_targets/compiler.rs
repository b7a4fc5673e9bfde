//! Any bytes as a job of the compiler, as its answer, and as the file that its child has left.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("compiler", bytes));
