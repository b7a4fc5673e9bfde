//! Any bytes as a wasm representation: the check gives facts that fit, or a refusal.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((window, module)) = bytes.split_first_chunk::<2>() else { return };
    let window = u32::from(u16::from_le_bytes(*window));
    if let Ok(facts) = anode_fuzz::code::check::wasm(module, window) {
        assert!(u64::from(facts.memory_bytes) <= anode_fuzz::code::check::MEMORY_MAX);
    }
});
