//! Any instructions as a bpf representation: nothing that the check accepts calls the kernel itself.
#![no_main]

use anode_fuzz::code::bundle::Program;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // As a whole representation, and as the instructions of one that names a symbol.
    let _ = anode_fuzz::code::check::bpf(bytes);
    let code = bytes.chunks_exact(8).map(|insn| {
        let mut octets = [0; 8];
        octets.copy_from_slice(insn);
        anode_fuzz::code::bundle::Insn::decode(octets)
    });
    let program = Program { symbols: vec!["an_now".into()], code: code.collect() };
    if anode_fuzz::code::check::bpf(&program.encode()).is_ok() {
        for insn in &program.code {
            let call = insn.opcode == 0x85;
            assert!(!call || matches!(insn.src, 1 | 14), "only local calls and calls of the environment");
        }
    }
});
