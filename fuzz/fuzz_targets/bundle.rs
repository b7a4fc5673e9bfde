//! Any bytes as a bundle file: what is read can be checked and written again.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(bundle) = anode_fuzz::code::bundle::Bundle::read(bytes) {
        assert_eq!(bundle.write(), bytes);
        let _ = anode_fuzz::code::check::check(&bundle);
    }
});
