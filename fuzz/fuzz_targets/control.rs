//! Any bytes as a request of the control socket.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("control", bytes));
