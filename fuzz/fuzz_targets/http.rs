//! Any bytes as an answer of a web server, as the file that a child has left, and as a URL.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("http", bytes));
