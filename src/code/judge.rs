//! Judgement of code: from a bundle's signature and credentials to a role. Example: a signature by key 7f… and a
//! credential for `operator`.
//!
//! ```text
//! unsigned ─▶ anyone        signed by a root of a role ─▶ that role
//! signed by anybody else ─▶ the credentials that came along: the first role that one of them grants ─▶ that role
//!                           none does ─▶ anyone, and why each does not count
//! ```
//!
//! A credential can only give: without it, or with one that is forged, foreign or out of date, code acts for
//! `anyone`, until somebody else of whom it comes has one that counts (`node::vouching`). Only a wrong signature of the
//! bundle itself makes code unusable. Asked once when code is loaded, off the packet path; the answer stays with the
//! code.

use super::bundle::{self, Manifest, Program};
use crate::trust::{
    ANYONE, Credential, CredentialRefusal, CredentialSet, Kinds, PrincipalId, Question, Revocation, Rights, Role, Roles,
};
use crate::wire::Digest;
use std::sync::Arc;

/// Code that asks for its role.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its name.
    pub code: Digest,
    /// What its manifest says.
    pub manifest: Arc<Manifest>,
    /// The credential set that came along.
    pub credentials: Option<Arc<[u8]>>,
}

/// In whose name and role code acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who signed it.
    pub principal: Option<PrincipalId>,
    /// What it may.
    pub role: Arc<Role>,
    /// The representations that the role has and the credential leaves.
    pub kinds: Kinds,
    /// Why no credential that came along counts, if none does.
    pub refused: Option<RefusedCredentials>,
    /// The credential that gives the role, if one does.
    pub issued: Option<Arc<Issued>>,
}

/// A credential that gives a role, as far as it can be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Who has granted it.
    pub root: PrincipalId,
    /// Its revocation ids.
    pub tokens: Vec<Digest>,
}

/// Credentials that came along in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCredentials {
    /// Why each of them does not count.
    pub why: String,
    /// Whether they are good for nobody: broken, beyond the limits, or of another code.
    pub forged: bool,
    /// Whether one of them was revoked.
    pub revoked: bool,
}

impl Grant {
    /// The role by itself, for code of nobody in particular.
    pub fn of_anyone(roles: &Roles) -> Grant {
        Grant::in_role(None, roles.anyone())
    }

    /// Whether it gives the same rights.
    pub fn is_alike(&self, other: &Grant) -> bool {
        (&self.role, self.kinds) == (&other.role, other.kinds)
    }

    /// Who signed it, if somebody vouches for him: keys by themselves cost nothing.
    pub fn vouched_for(&self) -> Option<PrincipalId> {
        self.principal.filter(|_| self.role.name != ANYONE)
    }

    /// Whether it is signed, and nobody vouches for who did that.
    pub fn is_unvouched(&self) -> bool {
        self.principal.is_some() && self.vouched_for().is_none()
    }

    /// By what rights code has it.
    pub fn rights(&self, code: &Digest) -> Rights<'_> {
        let issued = self.issued.as_deref();
        Rights {
            code: Some(*code),
            principal: self.principal,
            root: issued.map(|issued| issued.root),
            tokens: issued.map_or(&[], |issued| &issued.tokens),
        }
    }

    fn in_role(principal: Option<PrincipalId>, role: &Arc<Role>) -> Grant {
        Grant { principal, role: role.clone(), kinds: role.representations, refused: None, issued: None }
    }
}

impl Roles {
    /// The role of code at a node of this name, `unix_s` seconds after 1970 began. Refused is only what bears a wrong
    /// signature.
    pub fn authorise(&self, node: &str, unix_s: u64, claim: &Claim) -> Result<Grant, bundle::Error> {
        let decided = self.decide(node, unix_s, claim);
        self.count_code(decided.is_ok());
        match &decided {
            Ok(grant) => {
                tracing::debug!(node, code = %claim.code.short(), role = grant.role.name, "code has a role");
            }
            Err(error) => {
                tracing::warn!(node, code = %claim.code.short(), %error, "code has no role");
            }
        }
        decided
    }

    /// The role of code that nobody has signed, or by which word it was revoked.
    pub fn unsigned(&self, node: &str, code: &Digest) -> Result<Grant, Box<Revocation>> {
        if let Some((_, revocation)) = self.revoked(&Rights { code: Some(*code), ..Rights::default() }) {
            self.count_code(false);
            return Err(Box::new(revocation));
        }
        self.count_code(true);
        tracing::debug!(node, code = %code.short(), role = ANYONE, "unsigned code has a role");
        Ok(Grant::of_anyone(self))
    }

    /// What [`Roles::authorise`] says.
    fn decide(&self, node: &str, unix_s: u64, claim: &Claim) -> Result<Grant, bundle::Error> {
        let principal = claim.manifest.principal()?;
        let rights = Rights { code: Some(claim.code), principal, ..Rights::default() };
        if let Some((_, revocation)) = self.revoked(&rights) {
            return Err(bundle::Error::Revoked { by: revocation.to_string() });
        }
        let Some(principal) = principal else { return Ok(Grant::of_anyone(self)) };
        if let Some(role) = self.of_root(&principal).next() {
            return Ok(Grant::in_role(Some(principal), role));
        }
        let anyone = Grant::in_role(Some(principal), self.anyone());
        let Some(bytes) = &claim.credentials else { return Ok(anyone) };
        match self.granted(bytes, claim, &Asked { principal, node, unix_s }) {
            Ok(grant) => Ok(grant),
            Err(refusals) => {
                let texts: Vec<_> = refusals.iter().map(CredentialRefusal::to_string).collect();
                let forged = refusals.iter().any(CredentialRefusal::is_forged);
                let revoked = refusals.iter().any(|refusal| matches!(refusal, CredentialRefusal::Revoked(_)));
                Ok(Grant { refused: Some(RefusedCredentials { why: texts.join("; "), forged, revoked }), ..anyone })
            }
        }
    }

    /// What the first credential of a set that counts grants, or why none does.
    fn granted(&self, bytes: &[u8], claim: &Claim, of: &Asked<'_>) -> Result<Grant, Vec<CredentialRefusal>> {
        let set = CredentialSet::parse(bytes).map_err(|refusal| vec![refusal])?;
        if set.code != claim.code {
            return Err(vec![CredentialRefusal::OtherCode { code: set.code }]);
        }
        let mut refusals = Vec::new();
        for credential in &set.credentials {
            match self.granted_by(credential, claim, of) {
                Ok(grant) => return Ok(grant),
                Err(refusal) => refusals.push(refusal),
            }
        }
        Err(refusals)
    }

    /// The first role of the credential's root that it grants, with the representations it leaves.
    fn granted_by(&self, credential: &Credential, claim: &Claim, of: &Asked<'_>) -> Result<Grant, CredentialRefusal> {
        let (root, principal) = (credential.root(), of.principal);
        if self.of_root(&root).next().is_none() {
            return Err(CredentialRefusal::Foreign { root });
        }
        let verified = self.verify(credential)?;
        let issued = Issued { root, tokens: verified.revocation_ids() };
        let rights =
            Rights { code: Some(claim.code), principal: Some(principal), root: Some(root), tokens: &issued.tokens };
        if let Some((_, revocation)) = self.revoked(&rights) {
            return Err(CredentialRefusal::Revoked(revocation.to_string()));
        }
        // That it does not grant one of the root's roles is no reason, unless it grants none.
        let mut why = None;
        for role in verified.granted_to(principal, self.of_root(&root))? {
            let mut kinds = Kinds::NONE;
            for kind in role.representations.iter().filter(|kind| claim.manifest.layer(*kind).is_some()) {
                match verified.grants(&of.question(claim, &kind.to_string()), &role.name) {
                    Ok(()) => kinds = kinds.with(kind),
                    Err(CredentialRefusal::NoGrant(_)) => {}
                    Err(refusal) => why = Some(refusal),
                }
            }
            if kinds != Kinds::NONE {
                let issued = Some(Arc::new(issued));
                return Ok(Grant { kinds, issued, ..Grant::in_role(Some(principal), role) });
            }
        }
        Err(why.unwrap_or_else(|| self.no_grant(&verified, principal)))
    }
}

impl Role {
    /// Whether a program for the kernel is within the role: whether it has any, the program's calls and its size.
    pub fn check_program(&self, program: &Program) -> Result<(), String> {
        if let Some(why) = self.keeps_out_of_kernel() {
            return Err(why);
        }
        self.check_symbols(program.symbols.iter().map(String::as_str)).map_err(|error| format!("bpf: {error}"))?;
        let (has, most) = (program.code.len(), self.limits.bpf_instructions);
        if has > most as usize {
            return Err(format!("bpf: it has {has} instructions, the role {} has {most}", self.name));
        }
        Ok(())
    }
}

/// Who asks, where and when.
struct Asked<'a> {
    principal: PrincipalId,
    node: &'a str,
    unix_s: u64,
}

impl Asked<'_> {
    fn question<'a>(&'a self, claim: &'a Claim, representation: &'a str) -> Question<'a> {
        let Asked { principal, node, unix_s } = *self;
        Question { principal, code: &claim.code, title: claim.manifest.title(), node, representation, unix_s }
    }
}
