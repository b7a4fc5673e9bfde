//! Any bytes as a bpf representation: what is accepted is canonical.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(program) = anode_fuzz::code::bundle::Program::parse(bytes) {
        assert_eq!(program.encode(), bytes);
    }
});
