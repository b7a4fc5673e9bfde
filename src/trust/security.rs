//! The security module: every load of code and every creation of a domain passes it, in one place.
//!
//! ```text
//! code, when it is loaded ─────────▶ Roles::authorise, Roles::unsigned ─┐
//! an environment, when it starts ──▶ Roles::environment ────────────────┼─▶ a role, or a refusal; one line in the log, one count
//! a domain, when it is created ────▶ Roles::domain ─────────────────────┘
//! ```
//!
//! The management environment holds it (Snow on Silk, §1): nothing in the node hands out a role by another way. A
//! domain's role comes from its own credential and not out of its parent's budget, but nobody can give more
//! than he has: a domain is created in the creator's role, or in one that has nothing the creator's lacks.

use super::grants::Grants;
use super::key::PrincipalId;
use super::limits::Limits;
use super::revocation::{Extent, Revocation, Rights, Subject};
use super::revoked::{Kept, Rank, Revoked};
use super::role::{CodeForm, Kinds, NODE, Role, Roles};
use crate::abi::Kind;
use core::fmt;
use libanode::error::Error;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

/// What has been decided so far, over all threads of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct Decisions(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    code_granted: AtomicU64,
    code_refused: AtomicU64,
    domains_granted: AtomicU64,
    domains_refused: AtomicU64,
    packets_granted: AtomicU64,
    packets_refused: AtomicU64,
    tokens_spared: AtomicU64,
}

impl Decisions {
    /// Code that was loaded was given a role, or none.
    pub(super) fn count_code(&self, granted: bool) {
        let counters = &self.0;
        let counter = if granted { &counters.code_granted } else { &counters.code_refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A credential was known to be none.
    pub(super) fn count_spared(&self) {
        self.0.tokens_spared.fetch_add(1, Ordering::Relaxed);
    }

    /// A signed packet was given a role, or none.
    pub(super) fn count_packet(&self, granted: bool) {
        let counters = &self.0;
        let counter = if granted { &counters.packets_granted } else { &counters.packets_refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What was taken back, over all threads of a node. Written when something is revoked, read when rights are decided: never for a packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(Arc<RwLock<Revoked>>);

/// Two policies are alike whatever was taken back.
impl PartialEq for Table {
    fn eq(&self, _: &Table) -> bool {
        true
    }
}

impl Eq for Table {}

/// Two policies are alike whatever they have decided.
impl PartialEq for Decisions {
    fn eq(&self, _: &Decisions) -> bool {
        true
    }
}

impl Eq for Decisions {}

/// Decisions by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SecurityCounts {
    /// Loads of code that were given a role, `anyone` included.
    pub code_granted: u64,
    /// Loads of code that were given none.
    pub code_refused: u64,
    /// Domains that were given a role.
    pub domains_granted: u64,
    /// Domains that were given none, and so not created.
    pub domains_refused: u64,
    /// Signed PLAN packets that were given a role.
    pub packets_granted: u64,
    /// Signed PLAN packets that were given none.
    pub packets_refused: u64,
    /// Credentials that were known to be none, and cost no signatures again.
    pub tokens_spared: u64,
}

/// Why a domain is not created in a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleRefused {
    /// The node has no role of this name.
    Unknown {
        /// Its name.
        role: String,
    },
    /// The role has something that the creator's lacks.
    Exceeds {
        /// What was asked for.
        role: String,
        /// What the creator has.
        creator: String,
        /// In what.
        what: String,
    },
}

impl RoleRefused {
    /// What a call says that is refused for it.
    pub fn error(&self) -> Error {
        match self {
            RoleRefused::Unknown { .. } => Error::Unknown,
            RoleRefused::Exceeds { .. } => Error::Denied,
        }
    }
}

impl fmt::Display for RoleRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoleRefused::Unknown { role } => write!(f, "the node has no role {role}: add a [[role]]"),
            RoleRefused::Exceeds { role, creator, what } => {
                write!(f, "the role {role} is more than {creator}, in which its creator acts: {what}")
            }
        }
    }
}

impl core::error::Error for RoleRefused {}

impl Roles {
    /// Whoever judges code ([`crate::code::judge`]) has given it a role, or none.
    pub(crate) fn count_code(&self, granted: bool) {
        self.decisions.count_code(granted);
    }

    /// Something is taken back: by the operator, or by a key whose signature was verified.
    pub fn revoke(&self, revocation: Revocation, operator: bool) -> Kept {
        let root = revocation.signer().is_some_and(|signer| self.of_root(&signer).next().is_some());
        let rank = match (operator, root) {
            (true, _) => Rank::Operator,
            (false, true) => Rank::Root,
            (false, false) => Rank::Stranger,
        };
        self.revoked.0.write().unwrap_or_else(PoisonError::into_inner).add(revocation, rank)
    }

    /// What was taken back of something that is here by these rights, and by which word.
    pub fn revoked(&self, rights: &Rights<'_>) -> Option<(Extent, Revocation)> {
        let found = self.revoked.0.read().unwrap_or_else(PoisonError::into_inner).takes(rights);
        found.inspect(|(_, revocation)| self.proved(revocation))
    }

    /// A word has taken something here.
    pub fn proved(&self, revocation: &Revocation) {
        self.revoked.0.write().unwrap_or_else(PoisonError::into_inner).prove(revocation);
    }

    /// Principals who were revoked as a whole: by themselves, by a root of a role here, or by the operator. Their
    /// signatures say who it was, and count for nothing where one is demanded.
    pub fn disowned(&self) -> HashSet<PrincipalId> {
        let table = self.revoked.0.read().unwrap_or_else(PoisonError::into_inner);
        let principal = |(revocation, rank): (&Revocation, Rank)| match revocation.subject {
            Subject::Principal(id) if rank >= Rank::Root || revocation.signer() == Some(id) => Some(id),
            _ => None,
        };
        table.iter().filter_map(principal).collect()
    }

    /// All that was taken back, in the order in which it was.
    pub fn revocations(&self) -> Vec<(Revocation, Rank)> {
        let table = self.revoked.0.read().unwrap_or_else(PoisonError::into_inner);
        table.iter().map(|(revocation, rank)| (*revocation, rank)).collect()
    }

    /// The same policy with nothing taken back: for another node. What is decided is counted together.
    pub fn separate(&self) -> Roles {
        let mut separate = self.clone();
        separate.revoked = Table::default();
        separate
    }

    /// The role of an execution environment that the node's configuration names.
    pub fn environment(&self, node: &str, environment: &str, role: &str) -> Result<Arc<Role>, RoleRefused> {
        self.conclude(node, environment, self.of_name(role))
    }

    /// The role of a domain that somebody in a role creates: the one asked for, or the creator's.
    pub fn domain(
        &self,
        node: &str,
        title: &str,
        creator: &Arc<Role>,
        wanted: Option<&str>,
    ) -> Result<Arc<Role>, RoleRefused> {
        let within = |role: Arc<Role>| match role.exceeds(creator) {
            // The node has everything, also what is no more or less: a weight, a deadline.
            _ if Arc::ptr_eq(creator, &Role::of_node()) => Ok(role),
            None => Ok(role),
            Some(what) => Err(RoleRefused::Exceeds { role: role.name.clone(), creator: creator.name.clone(), what }),
        };
        let role = match wanted {
            None => Ok(creator.clone()),
            Some(name) if name == creator.name => Ok(creator.clone()),
            Some(name) => self.of_name(name).and_then(within),
        };
        self.conclude(node, title, role)
    }

    /// What has been decided since the node started.
    pub fn decided(&self) -> SecurityCounts {
        let counters = &self.decisions.0;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SecurityCounts {
            code_granted: count(&counters.code_granted),
            code_refused: count(&counters.code_refused),
            domains_granted: count(&counters.domains_granted),
            domains_refused: count(&counters.domains_refused),
            packets_granted: count(&counters.packets_granted),
            packets_refused: count(&counters.packets_refused),
            tokens_spared: count(&counters.tokens_spared),
        }
    }

    /// The role of this name, for who only asks what it grants: no domain is counted as granted it.
    pub fn of_name(&self, name: &str) -> Result<Arc<Role>, RoleRefused> {
        let found = self.iter().find(|role| role.name == name);
        found.cloned().ok_or_else(|| RoleRefused::Unknown { role: name.into() })
    }

    fn conclude(
        &self,
        node: &str,
        title: &str,
        role: Result<Arc<Role>, RoleRefused>,
    ) -> Result<Arc<Role>, RoleRefused> {
        let counters = &self.decisions.0;
        match &role {
            Ok(role) => {
                counters.domains_granted.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(node, domain = title, role = role.name, "domain has a role");
            }
            Err(why) => {
                counters.domains_refused.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(node, domain = title, %why, "domain refused");
            }
        }
        role
    }
}

impl Role {
    /// The role in which the node itself acts: it has everything.
    pub fn of_node() -> Arc<Role> {
        static ROLE: LazyLock<Arc<Role>> = LazyLock::new(|| {
            Arc::new(Role {
                name: NODE.into(),
                representations: Kind::ALL.into_iter().fold(Kinds::NONE, Kinds::with),
                kernel: CodeForm::Trusted,
                grants: Grants::of_node(),
                ..Role::anyone(Limits::of_node())
            })
        });
        ROLE.clone()
    }

    /// What this role has that another lacks, if anything.
    pub fn exceeds(&self, other: &Role) -> Option<String> {
        let number = |of: &str, found: Option<(&'static str, u64, u64)>| {
            found.map(|(name, own, others)| format!("{of}.{name} is {own}, not {others}"))
        };
        if let Some(kind) = self.representations.iter().find(|kind| !other.representations.has(*kind)) {
            return Some(format!("it has the representation {kind}"));
        }
        if let Some(name) = self.symbols.names().find(|name| !other.symbols.has(name)) {
            return Some(format!("it has the call {name}"));
        }
        if let Some(name) = self.services.iter().find(|name| !other.services.contains(name)) {
            return Some(format!("it has the service {name}"));
        }
        if self.kernel != other.kernel && self.kernel == CodeForm::Trusted {
            return Some("it has the trusted form in the kernel".into());
        }
        number("limits", self.limits.exceed(&other.limits))
            .or_else(|| number("grants", self.grants.exceed(&other.grants)))
            .or_else(|| self.streams.exceed(&other.streams))
            .or_else(|| self.graphs.exceed(&other.graphs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roles of an environment that has much, and of others.
    fn roles() -> Roles {
        let role = |text: &str| toml::from_str::<Role>(text).unwrap();
        Roles::new(vec![
            role("name = \"ee\"\ngrants = { channels = 8, domains = 10, files = 5 }"),
            role("name = \"flow\"\ngrants = { channels = 2 }"),
            role("name = \"store\"\ngrants = { channels = 2, files = 6 }"),
            role("name = \"fast\"\nrepresentations = [\"wasm\", \"native\"]"),
            role("name = \"free\"\nkernel = \"trusted\""),
            role("name = \"mute\"\nsymbols = [\"an_now\"]"),
            role("name = \"busy\"\nlimits = { packets_per_second = 6_000_000 }"),
            role("name = \"far\"\nstreams = { connect = [\"10.0.2.0/24:80\"] }"),
            role("name = \"plumber\"\ngraphs = { edits_per_second = 5 }"),
            role("name = \"hasty\"\ngrants = { weight = 9_000, deadline_us = 100 }"),
        ])
        .unwrap()
    }

    #[test]
    fn a_domain_gets_what_its_creator_could_have_himself() {
        let roles = roles();
        let ee = roles.environment("n", "forwarder", "ee").unwrap();
        for (wanted, result) in [
            (None, Ok("ee")),
            (Some("ee"), Ok("ee")),
            (Some("flow"), Ok("flow")),
            (Some("anyone"), Ok("anyone")),
            (Some("mute"), Ok("mute")),
            (Some("nobody"), Err("no role nobody: add a [[role]]")),
            (Some("store"), Err("more than ee, in which its creator acts: grants.files is 6, not 5")),
            (Some("fast"), Err("the representation native")),
            (Some("free"), Err("the trusted form")),
            (Some("far"), Err("streams.connect has 10.0.2.0/24:80")),
            (Some("plumber"), Err("graphs.edits_per_second is 5, not 0")),
            (Some("hasty"), Err("grants.deadline_us is 100, not 0")),
            (Some("busy"), Err("limits.packets_per_second is 6000000, not 5000000")),
        ] {
            match (roles.domain("n", "d", &ee, wanted), result) {
                (Ok(role), Ok(name)) => assert_eq!(role.name, name),
                (Err(why), Err(part)) => assert!(why.to_string().contains(part), "{why} and not {part:?}"),
                (given, _) => panic!("{wanted:?}: {given:?}"),
            }
        }
        let mute = roles.domain("n", "d", &ee, Some("mute")).unwrap();
        let why = roles.domain("n", "d", &mute, Some("flow")).unwrap_err();
        assert!(why.to_string().contains("it has the call an_"), "{why}");
        assert!(roles.environment("n", "x", "nobody").is_err());
        let counts = roles.decided();
        assert_eq!((counts.domains_granted, counts.domains_refused), (7, 10));
    }

    #[test]
    fn the_node_can_give_every_role() {
        let (roles, node) = (roles(), Role::of_node());
        for role in roles.iter() {
            assert_eq!(roles.domain("n", "d", &node, Some(&role.name)).as_ref(), Ok(role));
        }
        let clone = roles.clone();
        assert_eq!((clone.decided(), &clone), (roles.decided(), &roles), "copies count together");
    }
}
