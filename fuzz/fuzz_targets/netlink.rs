//! Any bytes as what the kernel tells of routes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| anode_fuzz::targets::run("netlink", bytes));
