//! The memory of revocations: which are news, and which are told again.

use super::*;
use crate::wire::revocation::What;

fn repr(subject: u64, signer: u8) -> Repr {
    let mut of = [0; 32];
    of[..8].copy_from_slice(&subject.to_be_bytes());
    Repr { what: What::Code, unix_s: 5, subject: of, signer: [signer; 32], signature: [0; 64] }
}

#[test]
fn words_whose_hashes_begin_alike_are_two() {
    // The first 64 bits of SHA-256 over both keys are the same: such a pair is found in 2^32 tries.
    let (own, roots) = (repr(0xaa89_76c2_0983_04c4, 1), repr(0xd6aa_2b0f_2ecc_4159, 2));
    let mut revoking = Revocations::new(DomainId(0));
    revoking.remember(own);
    assert!(revoking.has_heard(&own.key()) && !revoking.has_heard(&roots.key()));
    revoking.remember(roots);
    assert_eq!(revoking.known.len(), 2);
}

#[test]
fn what_had_to_give_way_is_told_again_once_it_is_known_again() {
    let word = repr(1, 1);
    let mut revoking = Revocations::new(DomainId(0));
    revoking.remember(word);
    revoking.forget(&word);
    assert!(revoking.known.is_empty() && revoking.has_heard(&word.key()), "no news");
    revoking.remember(word);
    assert_eq!(revoking.known, [word]);
    // It is no longer one of those that are forgotten in turn.
    (10..10 + FORGOTTEN_MAX as u64).for_each(|number| revoking.forget(&repr(number, 9)));
    revoking.forget(&repr(2, 9));
    assert!(revoking.has_heard(&word.key()));
}
