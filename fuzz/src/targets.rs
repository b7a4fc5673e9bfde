//! Every fuzz target by its name: any bytes in, and what must hold.
//!
//! `fuzz_targets/` hands them to libFuzzer, one program each. `tests/fuzzed.rs` runs them with the committed corpus and with
//! mutations of it, on the stable compiler and without a fuzzer. So this file is compiled twice: here against the parsers' sources,
//! there against the crate.

use crate::broker::{Answer, Request};
use crate::code::bundle::{Bundle, Insn, Kind, Lines, Manifest, Program};
use crate::code::check;
use crate::trust::{Credential, CredentialSet, PrincipalId, PrincipalKey, Question, Restrictions, Terms};
use crate::wire::Digest;
use crate::{instructions, plans, programs, reading};
use std::sync::LazyLock;

#[path = "../../libanode/tests/hostile/harness.rs"]
mod harness;

/// A target: its name, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: &[Target] = &[
    ("anep", reading::anep),
    ("arp", reading::arp),
    ("broker", broker),
    ("bundle", bundle),
    ("capsule", reading::capsule),
    ("check_bpf", check_bpf),
    ("check_wasm", check_wasm),
    ("checksum", reading::checksum),
    ("credential", credential),
    ("ethernet", reading::ethernet),
    ("fetch", reading::fetch),
    ("revocation", reading::revocation),
    ("icmp", reading::icmp),
    ("ipv4", reading::ipv4),
    ("ipv6", reading::ipv6),
    ("lines", lines),
    ("link", link),
    ("manifest", manifest),
    ("nodeos_message", harness::message),
    ("nodeos_ring", harness::ring),
    ("plan_message", reading::plan_message),
    ("plan_packet", plan_packet),
    ("plan_source", plan_source),
    ("program", program),
    ("udp", reading::udp),
];

/// Runs a target.
pub fn run(name: &str, bytes: &[u8]) {
    let (_, target) = ALL.iter().find(|(known, _)| *known == name).expect("a target of the table");
    target(bytes);
}

/// A request to the broker, or its answer: what is read is what is written again.
fn broker(bytes: &[u8]) {
    if let Some(request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode()), Some(request));
    }
    if let Some(answer) = Answer::decode(bytes) {
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
}

/// A bundle file: what is read can be checked and written again.
fn bundle(bytes: &[u8]) {
    if let Ok(bundle) = Bundle::read(bytes) {
        assert_eq!(bundle.write(), bytes);
        let _ = check::check(&bundle);
    }
}

/// A manifest: what is accepted is canonical.
fn manifest(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::parse(bytes) {
        assert_eq!(manifest.encode(), bytes);
        let _ = manifest.principal();
    }
}

/// A line table: what is accepted is canonical, and every place of it has a line or none.
fn lines(bytes: &[u8]) {
    if let Ok(lines) = Lines::parse(bytes) {
        assert_eq!(lines.encode().as_deref(), Some(bytes));
        for at in [0, 1, 100, usize::MAX] {
            for kind in Kind::ALL {
                let _ = lines.find(kind, at);
            }
        }
    }
}

/// A bpf representation: what is accepted is canonical.
fn program(bytes: &[u8]) {
    if let Ok(program) = Program::parse(bytes) {
        assert_eq!(program.encode(), bytes);
    }
}

/// A wasm representation: the check gives facts that fit, or a refusal.
fn check_wasm(bytes: &[u8]) {
    let Some((window, module)) = bytes.split_first_chunk::<2>() else { return };
    let window = u32::from(u16::from_le_bytes(*window));
    if let Ok(facts) = check::wasm(module, window) {
        assert!(u64::from(facts.memory_bytes) <= check::MEMORY_MAX);
    }
}

/// The scanner never panics, and what it accepts passes a second opinion: as a whole representation, as the instructions of one
/// that names a symbol, and as choices of instructions.
fn check_bpf(bytes: &[u8]) {
    instructions::scanned(bytes);
    let code = bytes.as_chunks::<8>().0.iter().map(|octets| Insn::decode(*octets)).collect();
    instructions::scanned(&Program { symbols: vec!["an_now".into()], code }.encode());
    instructions::scanned(&programs::program(bytes).encode());
}

/// Programs that the scanner accepts to the linker: it makes all the calls there are.
fn link(bytes: &[u8]) {
    instructions::linked(&programs::environment(), &programs::program(bytes));
}

fn plan_packet(bytes: &[u8]) {
    plans::packet(bytes);
}

fn plan_source(bytes: &[u8]) {
    plans::source(bytes);
}

const CODE: Digest = Digest([7; 32]);

/// A good set of credentials, so that mutations of it reach what stands behind signatures.
static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let key = PrincipalKey::from_seed([1; 32]);
    let checks = Restrictions { until: Some(9), nodes: vec!["n".into()], ..Restrictions::default() };
    let terms = Terms { principal: key.id(), role: "r".into(), checks };
    let credentials = vec![Credential::grant(&key, &terms).expect("a grant")];
    CredentialSet { code: CODE, credentials }.encode()
});

/// A set of credentials, one credential's text, and a token that a good set is mutated into.
fn credential(bytes: &[u8]) {
    judge(bytes);
    let _ = core::str::from_utf8(bytes).map(|text| text.parse::<Credential>());
    // Each three octets change one of the good set; what is left over follows behind it.
    let mut mutant = GOOD.clone();
    for change in bytes.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % mutant.len();
        mutant[at] ^= change[2];
    }
    judge(&mutant);
}

fn judge(octets: &[u8]) {
    let Ok(set) = CredentialSet::parse(octets) else { return };
    assert_eq!(set.encode(), octets, "one encoding");
    for credential in &set.credentials {
        let _ = credential.describe();
        assert_eq!(credential.to_string().parse().as_ref(), Ok(credential));
        let Ok(verified) = credential.verify() else { continue };
        let principal = PrincipalId([1; 32]);
        let (title, node, representation) = ("t", "n", "wasm");
        let question = Question { principal, code: &CODE, title, node, representation, unix_s: 5 };
        assert!(verified.grants(&question, "r").is_err(), "nobody has granted anything to this key");
    }
}
