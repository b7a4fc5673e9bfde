//! Any bytes as a manifest: what is accepted is canonical.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(manifest) = anode_fuzz::code::bundle::Manifest::parse(bytes) {
        assert_eq!(manifest.encode(), bytes);
        let _ = manifest.principal();
    }
});
