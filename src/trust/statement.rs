//! Statements: a principal's signature on a PLAN packet, and the role in which the packet is evaluated.
//!
//! ```text
//! "anode-plan-1" 0 | time (64 bits, nanoseconds since 1970) | host (128) | what is said        signed with ed25519
//! ```
//!
//! A statement is good for one host and a short time, and its time is its number: whoever remembers the numbers of that
//! time sees every copy. Who is no root of a role shows a credential, as signers of code do; a question that
//! credentials are asked about such a packet has the representation `plan` and the digest of its code. Unlike code, a
//! packet whose credential does not count has no role at all: it was sent to act in one.

use super::credential::{CREDENTIAL_MAX, Credential, CredentialRefusal, Question};
use super::key::{PrincipalId, PrincipalKey, Signature};
use super::revocation::Rights;
use super::role::{Role, Roles};
use crate::wire::Digest;
use core::fmt;
use std::sync::Arc;

const LABEL: &[u8] = b"anode-plan-1\0";

/// How far a statement's time may be from the node's, in nanoseconds.
pub const STATEMENT_WITHIN: u64 = 60_000_000_000;

/// The representation that credentials are asked about.
pub const REPRESENTATION: &str = "plan";

/// What somebody says to have signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Who.
    pub principal: PrincipalId,
    /// When, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The bytes that were signed.
    pub bytes: Vec<u8>,
    /// The signature.
    pub signature: Signature,
    /// The digest of the code that is evaluated.
    pub code: Digest,
    /// A credential as [`Credential::bytes`] has it, or nothing.
    pub credential: Vec<u8>,
}

/// Why a statement gives no role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unvouched {
    /// Its time is not the node's, or from before the node began to remember numbers.
    Untimely,
    /// It was not signed by its principal.
    Forged,
    /// Its principal is no root, and it has no credential.
    Unknown(PrincipalId),
    /// Its principal, or its code, was revoked.
    Revoked(String),
    /// Its credential does not count.
    Refused(CredentialRefusal),
}

/// When a statement is judged, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Now.
    pub now: u64,
    /// Since when the node has remembered numbers.
    pub since: u64,
}

impl fmt::Display for Unvouched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unvouched::Untimely => write!(
                f,
                "its time is more than {} s from this node's, or before this node's start: set the clocks, or send it again",
                STATEMENT_WITHIN / 1_000_000_000
            ),
            Unvouched::Forged => write!(f, "it was not signed by its principal for this host"),
            Unvouched::Unknown(principal) => {
                write!(
                    f,
                    "{principal} is a root of no role here and shows no credential: send one along, or add it to a role's trusts"
                )
            }
            Unvouched::Revoked(how) => f.write_str(how),
            Unvouched::Refused(refusal) => write!(f, "its credential: {refusal}"),
        }
    }
}

impl core::error::Error for Unvouched {}

/// The bytes that a principal signs: something said to a host at a time.
pub fn said(unix_ns: u64, to: &[u8; 16], what: &[u8]) -> Vec<u8> {
    [LABEL, &unix_ns.to_be_bytes(), to, what].concat()
}

impl PrincipalKey {
    /// Signs something said to a host at a time.
    pub fn say(&self, unix_ns: u64, to: &[u8; 16], what: &[u8]) -> Signature {
        self.sign(&said(unix_ns, to, what))
    }
}

impl Credential {
    /// As bytes: its root, and the token.
    pub fn bytes(&self) -> Vec<u8> {
        let (root, token) = self.parts();
        [&root.0[..], token].concat()
    }

    /// Reads what [`Credential::bytes`] gives; nothing is verified.
    pub fn from_bytes(bytes: &[u8]) -> Result<Credential, CredentialRefusal> {
        let (root, token) = bytes.split_first_chunk().ok_or(CredentialRefusal::Form("it ends early"))?;
        if token.len() > CREDENTIAL_MAX {
            return Err(CredentialRefusal::Oversized { bytes: token.len() });
        }
        Ok(Credential::of_parts(PrincipalId(*root), token.to_vec()))
    }
}

impl Roles {
    /// In which role a packet with this statement is evaluated at a node of this name.
    pub fn vouch(&self, node: &str, at: Moment, statement: &Statement) -> Result<Arc<Role>, Unvouched> {
        let vouched = self.judge(node, at, statement);
        let principal = statement.principal;
        match &vouched {
            Ok(role) => tracing::debug!(node, %principal, role = role.name, "a packet has a role"),
            Err(why) => tracing::warn!(node, %principal, %why, "a packet has no role"),
        }
        self.decisions.count_packet(vouched.is_ok());
        vouched
    }

    fn judge(&self, node: &str, at: Moment, statement: &Statement) -> Result<Arc<Role>, Unvouched> {
        let Statement { principal, unix_ns, bytes, signature, .. } = statement;
        if unix_ns.abs_diff(at.now) > STATEMENT_WITHIN || *unix_ns < at.since {
            return Err(Unvouched::Untimely);
        }
        if !principal.verify(bytes, signature) {
            return Err(Unvouched::Forged);
        }
        let rights = Rights { code: Some(statement.code), principal: Some(*principal), ..Rights::default() };
        if let Some((_, revocation)) = self.revoked(&rights) {
            return Err(Unvouched::Revoked(revocation.to_string()));
        }
        if let Some(role) = self.of_root(principal).next() {
            return Ok(role.clone());
        }
        if statement.credential.is_empty() {
            return Err(Unvouched::Unknown(*principal));
        }
        self.role_by(node, at, statement).map_err(Unvouched::Refused)
    }

    /// The first role of the credential's root that it grants.
    fn role_by(&self, node: &str, at: Moment, statement: &Statement) -> Result<Arc<Role>, CredentialRefusal> {
        let credential = Credential::from_bytes(&statement.credential)?;
        let (root, principal) = (credential.root(), statement.principal);
        if self.of_root(&root).next().is_none() {
            return Err(CredentialRefusal::Foreign { root });
        }
        let verified = self.verify(&credential)?;
        let tokens = verified.revocation_ids();
        let rights =
            Rights { code: Some(statement.code), principal: Some(principal), root: Some(root), tokens: &tokens };
        if let Some((_, revocation)) = self.revoked(&rights) {
            return Err(CredentialRefusal::Revoked(revocation.to_string()));
        }
        let unix_s = at.now / 1_000_000_000;
        let code = &statement.code;
        let question = Question { principal, code, title: "plan", node, representation: REPRESENTATION, unix_s };
        let mut why = None;
        for role in verified.granted_to(principal, self.of_root(&root))? {
            match verified.grants(&question, &role.name) {
                Ok(()) => return Ok(role.clone()),
                Err(CredentialRefusal::NoGrant(_)) => {}
                Err(refusal) => why = Some(refusal),
            }
        }
        Err(why.unwrap_or_else(|| self.no_grant(&verified, principal)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::{Restrictions, Terms};

    const HOST: [u8; 16] = [7; 16];
    const NOW: u64 = 1_800_000_000_000_000_000;
    const AT: Moment = Moment { now: NOW, since: NOW - 5_000_000_000 };

    fn key(seed: u8) -> PrincipalKey {
        PrincipalKey::from_seed([seed; 32])
    }

    /// A role that the root 1 may grant.
    fn roles() -> Roles {
        let role = Role { name: "operator".into(), trusts: vec![key(1).id()], ..Role::anyone(Default::default()) };
        Roles::new(vec![role]).unwrap()
    }

    fn statement(key: &PrincipalKey, unix_ns: u64, credential: Option<&Credential>) -> Statement {
        Statement {
            principal: key.id(),
            unix_ns,
            bytes: said(unix_ns, &HOST, b"what"),
            signature: key.say(unix_ns, &HOST, b"what"),
            code: Digest([3; 32]),
            credential: credential.map(Credential::bytes).unwrap_or_default(),
        }
    }

    fn grant(root: u8, to: u8, checks: Restrictions) -> Credential {
        let terms = Terms { principal: key(to).id(), role: "operator".into(), checks };
        Credential::grant(&key(root), &terms).unwrap()
    }

    fn role(statement: &Statement) -> Result<String, Unvouched> {
        roles().vouch("n", AT, statement).map(|role| role.name.clone())
    }

    #[test]
    fn a_root_and_whom_it_grants_the_role_act_in_it() {
        assert_eq!(role(&statement(&key(1), NOW, None)).unwrap(), "operator");
        let credential = grant(1, 2, Restrictions::default());
        assert_eq!(role(&statement(&key(2), NOW, Some(&credential))).unwrap(), "operator");
        assert_eq!(Credential::from_bytes(&credential.bytes()).unwrap(), credential);
    }

    #[test]
    fn who_is_not_granted_the_role_has_none() {
        assert_eq!(role(&statement(&key(2), NOW, None)), Err(Unvouched::Unknown(key(2).id())));
        let of_another = grant(1, 3, Restrictions::default());
        assert!(matches!(
            role(&statement(&key(2), NOW, Some(&of_another))),
            Err(Unvouched::Refused(CredentialRefusal::NoGrant(_)))
        ));
        let foreign = grant(9, 2, Restrictions::default());
        assert!(matches!(
            role(&statement(&key(2), NOW, Some(&foreign))),
            Err(Unvouched::Refused(CredentialRefusal::Foreign { .. }))
        ));
        let mut broken = statement(&key(2), NOW, Some(&grant(1, 2, Restrictions::default())));
        for at in 0..broken.credential.len() {
            broken.credential[at] ^= 1;
            assert!(matches!(role(&broken), Err(Unvouched::Refused(_))), "{at}");
            broken.credential[at] ^= 1;
        }
        for length in 0..broken.credential.len() - 1 {
            let cut = Statement { credential: broken.credential[..length].to_vec(), ..broken.clone() };
            assert!(role(&cut).is_err(), "{length}");
        }
    }

    #[test]
    fn credentials_are_asked_about_time_node_code_and_that_it_is_plan() {
        let with = |checks| role(&statement(&key(2), NOW, Some(&grant(1, 2, checks)))).is_ok();
        let second = NOW / 1_000_000_000;
        assert!(with(Restrictions { until: Some(second), ..Restrictions::default() }));
        assert!(!with(Restrictions { until: Some(second - 1), ..Restrictions::default() }), "expired");
        assert!(!with(Restrictions { from: Some(second + 1), ..Restrictions::default() }), "not yet");
        assert!(with(Restrictions { nodes: vec!["n".into()], ..Restrictions::default() }));
        assert!(!with(Restrictions { nodes: vec!["m".into()], ..Restrictions::default() }));
        assert!(with(Restrictions { codes: vec![Digest([3; 32])], ..Restrictions::default() }));
        assert!(!with(Restrictions { codes: vec![Digest([4; 32])], ..Restrictions::default() }));
        assert!(with(Restrictions { representations: vec!["plan".into()], ..Restrictions::default() }));
        assert!(!with(Restrictions { representations: vec!["wasm".into()], ..Restrictions::default() }));
    }

    #[test]
    fn a_statement_is_good_for_its_host_its_time_and_its_bytes() {
        for (unix_ns, good) in [
            (NOW + STATEMENT_WITHIN, true),
            (NOW + STATEMENT_WITHIN + 1, false),
            (AT.since, true),
            (AT.since - 1, false),
            (0, false),
            (u64::MAX, false),
        ] {
            assert_eq!(role(&statement(&key(1), unix_ns, None)).is_ok(), good, "{unix_ns}");
        }
        let right = statement(&key(1), NOW, None);
        let forged = [
            Statement { principal: key(2).id(), ..right.clone() },
            Statement { bytes: said(NOW, &[8; 16], b"what"), ..right.clone() },
            Statement { bytes: said(NOW + 1, &HOST, b"what"), ..right.clone() },
            Statement { bytes: said(NOW, &HOST, b"else"), ..right.clone() },
            Statement { signature: Signature([0; 64]), ..right },
        ];
        for forged in forged {
            assert_eq!(role(&forged), Err(Unvouched::Forged));
        }
    }
}
