//! Revocations: a key, or the operator of a node, takes back a token, a principal or a code.
//!
//! | signed by | token | principal | code |
//! |---|---|---|---|
//! | the principal | its credential gives no role | all that it has signed is refused | its code is refused |
//! | the root of the credential | the same | its credentials give the principal no role | they give the code no role |
//! | the operator, here alone | the same | all that it has signed is refused, what it granted gives no role | refused |
//!
//! So a key takes back what it has issued, and nothing else, whoever carries its word. A root's word on itself ends what it has granted.

use super::key::{PrincipalId, PrincipalKey, Signature};
use crate::wire::Digest;
use crate::wire::revocation::{Repr, What};
use core::fmt;

/// What is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A credential and all that are made of it, by [`super::Credential::revocation_id`].
    Token(Digest),
    /// A principal.
    Principal(PrincipalId),
    /// A code.
    Code(Digest),
}

/// A revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// What is taken back.
    pub subject: Subject,
    /// When that was said, in seconds since 1970.
    pub unix_s: u64,
    /// Who has signed it; nobody: the operator says so, to this node alone.
    pub signed: Option<(PrincipalId, Signature)>,
}

/// By what rights something is here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rights<'a> {
    /// The code, or that of a packet.
    pub code: Option<Digest>,
    /// Who has signed it.
    pub principal: Option<PrincipalId>,
    /// Who has granted its role by a credential.
    pub root: Option<PrincipalId>,
    /// The revocation ids of that credential.
    pub tokens: &'a [Digest],
}

/// How much a revocation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// The role that a credential gives.
    Role,
    /// All.
    All,
}

impl Revocation {
    /// The operator's word, which counts here alone.
    pub fn by_operator(subject: Subject, unix_s: u64) -> Revocation {
        Revocation { subject, unix_s, signed: None }
    }

    /// A key's word, which neighbours are told.
    pub fn sign(key: &PrincipalKey, subject: Subject, unix_s: u64) -> Revocation {
        let unsigned = Revocation { subject, unix_s, signed: Some((key.id(), Signature([0; 64]))) };
        let signature = unsigned.wire().map(|repr| key.sign(&repr.said()));
        Revocation { signed: signature.map(|signature| (key.id(), signature)), ..unsigned }
    }

    /// What came by the wire; nothing is verified.
    pub fn of_wire(repr: &Repr) -> Revocation {
        let subject = match repr.what {
            What::Token => Subject::Token(Digest(repr.subject)),
            What::Principal => Subject::Principal(PrincipalId(repr.subject)),
            What::Code => Subject::Code(Digest(repr.subject)),
        };
        let signed = Some((PrincipalId(repr.signer), Signature(repr.signature)));
        Revocation { subject, unix_s: repr.unix_s, signed }
    }

    /// What neighbours are told; nothing if nobody has signed it.
    pub fn wire(&self) -> Option<Repr> {
        let (signer, signature) = self.signed?;
        let (what, subject) = match self.subject {
            Subject::Token(id) => (What::Token, id.0),
            Subject::Principal(principal) => (What::Principal, principal.0),
            Subject::Code(code) => (What::Code, code.0),
        };
        Some(Repr { what, unix_s: self.unix_s, subject, signer: signer.0, signature: signature.0 })
    }

    /// Whether its signer has signed it.
    pub fn verify(&self) -> bool {
        let signed = self.signed.zip(self.wire());
        signed.is_some_and(|((signer, signature), repr)| signer.verify(&repr.said(), &signature))
    }

    /// Who says so.
    pub fn signer(&self) -> Option<PrincipalId> {
        self.signed.map(|(signer, _)| signer)
    }

    /// The word by which something is taken that is here by these rights: the operator's own, where that of the key takes less.
    pub fn as_it_counts(&self, operator: bool, of: &Rights<'_>) -> Revocation {
        let differ = operator && self.takes(false, of) != self.takes(true, of);
        if differ { Revocation::by_operator(self.subject, self.unix_s) } else { *self }
    }

    /// What it takes of something that is here by these rights. `operator`: it is also the word of this node's operator.
    pub fn takes(&self, operator: bool, of: &Rights<'_>) -> Option<Extent> {
        let signer = self.signer();
        let by = |who: Option<PrincipalId>| who.is_some() && who == signer;
        let (by_author, by_root) = (operator || by(of.principal), operator || by(of.root));
        let extent = |all: bool, role: bool| if all { Some(Extent::All) } else { role.then_some(Extent::Role) };
        match self.subject {
            Subject::Code(code) if Some(code) == of.code => extent(by_author, by_root),
            Subject::Principal(principal) => {
                let author = Some(principal) == of.principal;
                let root = Some(principal) == of.root;
                extent(author && by_author, by_root && (author || root))
            }
            Subject::Token(id) if of.tokens.contains(&id) => extent(false, by_author || by_root),
            Subject::Code(_) | Subject::Token(_) => None,
        }
    }
}

/// For people.
impl fmt::Display for Revocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.subject {
            Subject::Token(id) => write!(f, "the credential {} was revoked", id.short())?,
            Subject::Principal(principal) => write!(f, "the principal {principal} was revoked")?,
            Subject::Code(code) => write!(f, "the code {} was revoked", code.short())?,
        }
        match self.signer() {
            Some(signer) => write!(f, " by {signer}"),
            None => write!(f, " by this node's operator"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> PrincipalKey {
        PrincipalKey::from_seed([seed; 32])
    }

    const CODE: Digest = Digest([3; 32]);
    const TOKEN: Digest = Digest([4; 32]);

    /// Code of 2 in a role that 1 has granted.
    fn rights() -> Rights<'static> {
        Rights { code: Some(CODE), principal: Some(key(2).id()), root: Some(key(1).id()), tokens: &[TOKEN] }
    }

    #[test]
    fn a_key_takes_back_what_it_has_issued_and_nothing_else() {
        use Extent::*;
        let (root, author) = (1, 2);
        for (subject, by_root, by_author, by_operator) in [
            (Subject::Token(TOKEN), Some(Role), Some(Role), Some(Role)),
            (Subject::Token(CODE), None, None, None),
            (Subject::Principal(key(2).id()), Some(Role), Some(All), Some(All)),
            (Subject::Principal(key(1).id()), Some(Role), None, Some(Role)),
            (Subject::Principal(key(3).id()), None, None, None),
            (Subject::Code(CODE), Some(Role), Some(All), Some(All)),
            (Subject::Code(TOKEN), None, None, None),
        ] {
            let takes = |seed: u8| Revocation::sign(&key(seed), subject, 0).takes(false, &rights());
            assert_eq!((takes(root), takes(author), takes(9)), (by_root, by_author, None), "{subject:?}");
            assert_eq!(Revocation::by_operator(subject, 0).takes(true, &rights()), by_operator, "{subject:?}");
        }
        // Without a credential there is no root, and nobody's word counts for unsigned code but the operator's.
        let unsigned = Rights { code: Some(CODE), ..Rights::default() };
        assert_eq!(Revocation::sign(&key(1), Subject::Code(CODE), 0).takes(false, &unsigned), None);
        assert_eq!(Revocation::by_operator(Subject::Code(CODE), 0).takes(true, &unsigned), Some(All));
    }

    #[test]
    fn a_revocation_is_signed_as_a_whole() {
        let right = Revocation::sign(&key(1), Subject::Code(CODE), 1_800_000_000);
        assert!(right.verify() && Revocation::of_wire(&right.wire().unwrap()) == right);
        let bytes = right.wire().unwrap().bytes();
        for at in 0..bytes.len() {
            let mut bent = bytes;
            bent[at] ^= 1;
            let verified = Repr::parse(&bent).is_ok_and(|repr| Revocation::of_wire(&repr).verify());
            assert!(!verified, "byte {at}");
        }
        assert!(!Revocation::by_operator(Subject::Code(CODE), 0).verify());
    }
}
