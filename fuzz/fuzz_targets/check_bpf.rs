//! Any bytes to the scanner: it never panics, and what it accepts passes a second opinion.
#![no_main]

use anode_fuzz::{code::bundle, instructions, programs};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // As a whole representation, as the instructions of one that names a symbol, and as choices of instructions.
    instructions::scanned(bytes);
    let code = bytes.as_chunks::<8>().0.iter().map(|octets| bundle::Insn::decode(*octets)).collect();
    instructions::scanned(&bundle::Program { symbols: vec!["an_now".into()], code }.encode());
    instructions::scanned(&programs::program(bytes).encode());
});
