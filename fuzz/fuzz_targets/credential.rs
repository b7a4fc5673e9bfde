//! Any bytes as a set of credentials, as one credential's text, and as a token that a good set is mutated into.
#![no_main]

use anode_fuzz::trust::{Credential, CredentialSet, PrincipalId, PrincipalKey, Question, Restrictions, Terms};
use anode_fuzz::wire::Digest;
use std::sync::LazyLock;

const CODE: Digest = Digest([7; 32]);

/// A good set, so that mutations of it reach what stands behind signatures.
static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let key = PrincipalKey::from_seed([1; 32]);
    let checks = Restrictions { until: Some(9), nodes: vec!["n".into()], ..Restrictions::default() };
    let terms = Terms { principal: key.id(), role: "r".into(), checks };
    let credentials = vec![Credential::grant(&key, &terms).expect("a grant")];
    CredentialSet { code: CODE, credentials }.encode()
});

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

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    judge(bytes);
    let _ = core::str::from_utf8(bytes).map(|text| text.parse::<Credential>());
    // Each three octets change one of the good set; what is left over follows behind it.
    let mut mutant = GOOD.clone();
    for change in bytes.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([change[0], change[1]])) % mutant.len();
        mutant[at] ^= change[2];
    }
    judge(&mutant);
});
