//! Credentials: biscuits by which a root key grants a principal a role.
//!
//! ```text
//! authority block, signed by the root:  grant(PRINCIPAL, ROLE); check if …;
//! any further block, by whoever holds it: check if …;                        can only take away
//! ```
//!
//! Checks are about what the node says of the code it loads: `time`, `code`, `title`, `principal`, `node`,
//! `representation`, `role`. What a hostile token can cost is bounded before Datalog runs: bytes, blocks, and the
//! steps of all checks ([`bounds`]); there are no rules, closures or regular expressions in a credential. Credentials
//! come to a node in a [`CredentialSet`] beside a bundle, never inside it, so granting changes no code name. Biscuits:
//! biscuitsec.org, version 3.

use super::granted::NoGrant;
use super::role::Role;
use super::{PrincipalId, PrincipalKey, bounds};
use crate::wire::Digest;
use biscuit_auth::builder::{Algorithm, Check, Fact, Term, date, fact, string};
use biscuit_auth::error::{FailedCheck, Format, Logic, RunLimit, Token};
use biscuit_auth::{
    AuthorizerBuilder, AuthorizerLimits, Biscuit, BlockBuilder, KeyPair, PrivateKey, PublicKey, UnverifiedBiscuit,
};
use core::fmt;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// The most bytes of one credential.
pub const CREDENTIAL_MAX: usize = 2048;
/// The most blocks of one credential.
pub const BLOCKS_MAX: usize = 8;
/// Datalog's own limits, behind those of [`bounds`]. The time is for what they overlook, and for a thread that others keep from its CPU.
const LIMITS: AuthorizerLimits =
    AuthorizerLimits { max_facts: 128, max_iterations: 8, max_time: Duration::from_millis(100) };

/// What begins a credential's text.
const LABEL: &str = "anode-credential ";

/// A biscuit and the root key that it says it comes from. Nothing is verified yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    root: PrincipalId,
    token: Vec<u8>,
}

/// Why a credential does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialRefusal {
    /// More bytes than allowed.
    Oversized {
        /// How many.
        bytes: usize,
    },
    /// The set or the text is none.
    Form(&'static str),
    /// Its root key is trusted for no role here.
    Foreign {
        /// The key.
        root: PrincipalId,
    },
    /// It is no biscuit, or not signed by its root.
    Broken(String),
    /// More of something than a credential may have.
    Limit {
        /// Of what.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
    /// It grants the principal no role that its root may grant here.
    NoGrant(NoGrant),
    /// Checks of it fail.
    Checks(Vec<String>),
    /// Datalog gave up.
    Datalog(String),
    /// This node had no time for it now.
    Late,
    /// It was taken back.
    Revoked(String),
    /// The set is for another code.
    OtherCode {
        /// Which.
        code: Digest,
    },
}

impl fmt::Display for CredentialRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialRefusal::Oversized { bytes } => {
                write!(f, "a credential of {bytes} bytes; at most {CREDENTIAL_MAX} are allowed")
            }
            CredentialRefusal::Form(cause) => write!(f, "no credential: {cause}; make one with: anode cred grant"),
            CredentialRefusal::Foreign { root } => {
                write!(
                    f,
                    "its root {root} is trusted for no role here: add it to a role's trusts, or ask a root of this node"
                )
            }
            CredentialRefusal::Broken(cause) => write!(f, "not a valid biscuit of its root: {cause}"),
            CredentialRefusal::Limit { what, limit } => write!(f, "more than {limit} {what} in a credential"),
            CredentialRefusal::NoGrant(why) => write!(f, "{why}"),
            CredentialRefusal::Checks(checks) => write!(f, "refused by its {}", checks.join("; ")),
            CredentialRefusal::Datalog(cause) => write!(f, "its checks cannot be evaluated: {cause}"),
            CredentialRefusal::Late => f.write_str("this node had no time to evaluate its checks: send it again"),
            CredentialRefusal::Revoked(how) => f.write_str(how),
            CredentialRefusal::OtherCode { code } => write!(f, "it came for another code, {code}"),
        }
    }
}

impl core::error::Error for CredentialRefusal {}

impl CredentialRefusal {
    /// Whether the credential is good for nobody, here or elsewhere.
    pub fn is_forged(&self) -> bool {
        use CredentialRefusal::{Checks, Foreign, Late, NoGrant, Revoked};
        !matches!(self, Foreign { .. } | NoGrant(_) | Checks(_) | Revoked(_) | Late)
    }
}

/// What a root key grants.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Who gets the role.
    pub principal: PrincipalId,
    /// Which.
    pub role: String,
    /// What attenuates it from the start.
    pub checks: Restrictions,
}

/// Checks in the words of the command line; an empty list restricts nothing.
#[derive(Clone, Debug, Default)]
pub struct Restrictions {
    /// Not before this time, in seconds since 1970.
    pub from: Option<u64>,
    /// Not after this time, in seconds since 1970.
    pub until: Option<u64>,
    /// For these codes only.
    pub codes: Vec<Digest>,
    /// At these nodes only.
    pub nodes: Vec<String>,
    /// For these representations only.
    pub representations: Vec<String>,
}

/// What a node says of code that it loads.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Who signed it, verified.
    pub principal: PrincipalId,
    /// Its name.
    pub code: &'a Digest,
    /// Its title.
    pub title: &'a str,
    /// The node's name.
    pub node: &'a str,
    /// The representation to be used.
    pub representation: &'a str,
    /// The time, in seconds since 1970.
    pub unix_s: u64,
}

impl Credential {
    /// Grants a role: signed by `root`.
    pub fn grant(root: &PrincipalKey, terms: &Terms) -> Result<Credential, CredentialRefusal> {
        let key = PrivateKey::from_bytes(&root.seed(), Algorithm::Ed25519).map_err(broken)?;
        let grant = fact("grant", &[bytes(&terms.principal.0), string(&terms.role)]);
        let builder = Biscuit::builder().fact(grant).map_err(refusal)?.merge(terms.checks.block()?);
        let token = builder.build(&KeyPair::from(&key)).and_then(|token| token.to_vec()).map_err(refusal)?;
        Credential { root: root.id(), token }.within_limits()
    }

    /// The same credential, restricted further; needs no key.
    pub fn attenuate(&self, checks: &Restrictions) -> Result<Credential, CredentialRefusal> {
        let token = UnverifiedBiscuit::from(&self.token).map_err(refusal)?;
        let token = token.append(checks.block()?).and_then(|token| token.to_vec()).map_err(refusal)?;
        Credential { root: self.root, token }.within_limits()
    }

    /// The same credential for one code, sealed: nobody on the way can append to it.
    pub fn bind(&self, code: &Digest) -> Result<Credential, CredentialRefusal> {
        let bound = self.attenuate(&Restrictions { codes: vec![*code], ..Restrictions::default() })?;
        let token = UnverifiedBiscuit::from(&bound.token).and_then(|token| token.seal()?.to_vec()).map_err(refusal)?;
        Credential { root: self.root, token }.within_limits()
    }

    pub(super) fn of_parts(root: PrincipalId, token: Vec<u8>) -> Credential {
        Credential { root, token }
    }

    pub(super) fn parts(&self) -> (PrincipalId, &[u8]) {
        (self.root, &self.token)
    }

    /// The key that it says it comes from.
    pub fn root(&self) -> PrincipalId {
        self.root
    }

    /// By what it is revoked, with all that are made of it: the id of its last block. Nothing is verified.
    pub fn revocation_id(&self) -> Result<Digest, CredentialRefusal> {
        let token = UnverifiedBiscuit::from(&self.token).map_err(refusal)?;
        let id = token.revocation_identifiers().pop();
        id.map(|id| Digest::of(&id)).ok_or(CredentialRefusal::Form("it has no blocks"))
    }

    /// The blocks in Datalog, for people; nothing is verified.
    pub fn describe(&self) -> Result<Vec<String>, CredentialRefusal> {
        let token = UnverifiedBiscuit::from(&self.token).map_err(refusal)?;
        let count = token.block_count().min(BLOCKS_MAX);
        (0..count).map(|at| token.print_block_source(at).map_err(refusal)).collect()
    }

    /// Verifies signatures and limits.
    pub fn verify(&self) -> Result<Verified, CredentialRefusal> {
        let root = PublicKey::from_bytes(&self.root.0, Algorithm::Ed25519).map_err(broken)?;
        let token = Biscuit::from(&self.token, root).map_err(refusal)?;
        if token.block_count() > BLOCKS_MAX {
            return Err(CredentialRefusal::Limit { what: "blocks", limit: BLOCKS_MAX });
        }
        let (facts, rules, checks, _) = AuthorizerBuilder::new().build(&token).map_err(refusal)?.dump();
        bounds::within_bounds(&facts, &rules, &checks)?;
        Ok(Verified { token, root: self.root })
    }

    fn within_limits(self) -> Result<Credential, CredentialRefusal> {
        match self.token.len() {
            bytes if bytes > CREDENTIAL_MAX => Err(CredentialRefusal::Oversized { bytes }),
            _ => Ok(self),
        }
    }
}

/// The text of a credential file: one line.
impl fmt::Display for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{LABEL}{} {}", self.root, hex::encode(&self.token))
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential({}, {} bytes)", self.root, self.token.len())
    }
}

impl core::str::FromStr for Credential {
    type Err = CredentialRefusal;
    fn from_str(text: &str) -> Result<Credential, CredentialRefusal> {
        let form = CredentialRefusal::Form("expected one line, 'anode-credential ed25519:KEY HEX'");
        let (root, token) = text.trim_end().strip_prefix(LABEL).and_then(|rest| rest.split_once(' ')).ok_or(form)?;
        let root = root.parse().map_err(|_| CredentialRefusal::Form("its root is no principal"))?;
        if token.len() > 2 * CREDENTIAL_MAX {
            return Err(CredentialRefusal::Oversized { bytes: token.len() / 2 });
        }
        let token = hex::decode(token).map_err(|_| CredentialRefusal::Form("its token is not in hexadecimal"))?;
        Ok(Credential { root, token })
    }
}

/// A credential whose signatures are those of its root.
pub struct Verified {
    token: Biscuit,
    root: PrincipalId,
}

impl Verified {
    /// The key that has signed it.
    pub fn root(&self) -> PrincipalId {
        self.root
    }

    /// To whom its authority block, which alone can grant, grants which roles; unsorted, what is no principal left out.
    pub fn granted(&self) -> Result<Vec<(PrincipalId, String)>, CredentialRefusal> {
        let builder = AuthorizerBuilder::new().set_limits(LIMITS);
        let mut authorizer = builder.build(&self.token).map_err(refusal)?;
        let rule = "granted($who, $what) <- grant($who, $what)";
        let all: Vec<(Vec<u8>, String)> = authorizer.query_with_limits(rule, LIMITS).map_err(refusal)?;
        let principal = |(who, what): (Vec<u8>, String)| Some((PrincipalId(who.try_into().ok()?), what));
        Ok(all.into_iter().filter_map(principal).collect())
    }

    /// Which of these roles it grants somebody; whether its checks hold is asked for each.
    pub fn granted_to<'a>(
        &self,
        principal: PrincipalId,
        roles: impl Iterator<Item = &'a Arc<Role>>,
    ) -> Result<Vec<&'a Arc<Role>>, CredentialRefusal> {
        let granted = self.granted()?;
        Ok(roles.filter(|role| granted.iter().any(|(to, what)| *to == principal && *what == role.name)).collect())
    }

    /// By what it can be revoked: one id for each block.
    pub fn revocation_ids(&self) -> Vec<Digest> {
        self.token.revocation_identifiers().iter().map(|id| Digest::of(id)).collect()
    }

    /// Whether it grants `role` to what `question` asks for. The authority block alone can grant.
    pub fn grants(&self, question: &Question<'_>, role: &str) -> Result<(), CredentialRefusal> {
        let time = UNIX_EPOCH.checked_add(Duration::from_secs(question.unix_s)).unwrap_or(UNIX_EPOCH);
        let facts = [
            fact("time", &[date(&time)]),
            fact("code", &[bytes(&question.code.0)]),
            fact("title", &[string(question.title)]),
            fact("principal", &[bytes(&question.principal.0)]),
            fact("node", &[string(question.node)]),
            fact("representation", &[string(question.representation)]),
            fact("role", &[string(role)]),
        ];
        let add = |builder: AuthorizerBuilder, fact: &Fact| builder.fact(fact.clone()).map_err(refusal);
        let builder = facts.iter().try_fold(AuthorizerBuilder::new().set_limits(LIMITS), add)?;
        let builder = builder.policy("allow if grant($who, $what), principal($who), role($what)").map_err(refusal)?;
        let mut authorizer = builder.build(&self.token).map_err(refusal)?;
        match authorizer.authorize() {
            Ok(_) => Ok(()),
            Err(Token::FailedLogic(Logic::NoMatchingPolicy { .. })) => {
                Err(CredentialRefusal::NoGrant(NoGrant::Nothing))
            }
            Err(error) => Err(refusal(error)),
        }
    }
}

impl Restrictions {
    /// As a block.
    fn block(&self) -> Result<BlockBuilder, CredentialRefusal> {
        let mut block = BlockBuilder::new();
        let mut check = |name: &str, operator: &str, value: Term| {
            let source = format!("check if {name}($it), {}", operator);
            let mut check: Check = source.as_str().try_into().map_err(refusal)?;
            check.set("value", value).map_err(refusal)?;
            block = core::mem::take(&mut block).check(check).map_err(refusal)?;
            Ok(())
        };
        if let Some(from) = self.from {
            check("time", "$it >= {value}", Term::Date(from))?;
        }
        if let Some(until) = self.until {
            check("time", "$it <= {value}", Term::Date(until))?;
        }
        let strings = |list: &[String]| Term::Set(list.iter().map(|text| Term::Str(text.clone())).collect());
        let codes = Term::Set(self.codes.iter().map(|code| bytes(&code.0)).collect());
        let lists = [
            ("code", self.codes.is_empty(), codes),
            ("node", self.nodes.is_empty(), strings(&self.nodes)),
            ("representation", self.representations.is_empty(), strings(&self.representations)),
        ];
        for (name, empty, set) in lists {
            if !empty {
                check(name, "{value}.contains($it)", set)?;
            }
        }
        Ok(block)
    }
}

fn bytes(value: &[u8]) -> Term {
    Term::Bytes(value.to_vec())
}

fn broken(error: Format) -> CredentialRefusal {
    CredentialRefusal::Broken(error.to_string())
}

fn refusal(error: Token) -> CredentialRefusal {
    match error {
        Token::Format(format) => broken(format),
        Token::FailedLogic(Logic::Unauthorized { checks, .. } | Logic::NoMatchingPolicy { checks }) => {
            let text = |check: &FailedCheck| match check {
                FailedCheck::Block(check) => check.rule.clone(),
                FailedCheck::Authorizer(check) => check.rule.clone(),
            };
            CredentialRefusal::Checks(checks.iter().map(text).collect())
        }
        Token::RunLimit(RunLimit::Timeout) => CredentialRefusal::Late,
        other => CredentialRefusal::Datalog(other.to_string()),
    }
}
