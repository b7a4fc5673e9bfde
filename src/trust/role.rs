//! Roles: rights of code, by its author. Example: `operator` may run native code with 1 MiB of soft state.
//!
//! A role is a line of the node's policy: representations, their form in the kernel, calls, and amounts of everything.
//! The node trusts root keys for it. Code acts in the role if such a key has signed it, or has granted its signer the
//! role ([`super::Credential`]). All other code acts for `anyone`, a role of every node.

use super::PrincipalId;
use super::grants::Grants;
use super::graphs::GraphGrants;
use super::limits::Limits;
use super::refused::RefusedTokens;
use super::security::{Decisions, Table};
use super::streams::StreamGrants;
use crate::abi::{Kind, SYMBOLS, symbol};
use core::fmt;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// The role of code that no root key of the node vouches for.
pub const ANYONE: &str = "anyone";

/// The role in which the node itself acts.
pub const NODE: &str = "node";

/// Roles of one node.
pub const ROLES_MAX: usize = 1024;

/// Root keys of one role.
pub const ROOTS_MAX: usize = 64;

/// What code may be and use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// Its name: 1 to 32 letters, digits, '-', '_' or '.'.
    pub name: String,
    /// The root keys that may grant it; code signed by one itself acts in it too.
    #[serde(default)]
    pub trusts: Vec<PrincipalId>,
    /// The representations that run.
    #[serde(default)]
    pub representations: Kinds,
    /// In which form code is loaded into the kernel.
    #[serde(default)]
    pub kernel: CodeForm,
    /// The calls that code may have.
    #[serde(default)]
    pub symbols: Symbols,
    /// The restricted PLAN services that its principals see.
    #[serde(default)]
    pub services: Vec<String>,
    /// How much of everything.
    #[serde(default)]
    pub limits: Limits,
    /// What its domains get besides: processor, memory, threads, channels, events, files.
    #[serde(default)]
    pub grants: Grants,
    /// The TCP streams that its domains may have.
    #[serde(default)]
    pub streams: StreamGrants,
    /// What its programs may do to the graphs that run in it.
    #[serde(default)]
    pub graphs: GraphGrants,
}

/// In which form code runs in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeForm {
    /// Verified as code that few rights have loaded: pointers cannot be learned, speculation is barred.
    #[default]
    Sandboxed,
    /// Verified as code of the node's own.
    Trusted,
}

/// A set of representations.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Kind>", into = "Vec<Kind>")]
pub struct Kinds(u8);

/// A set of calls.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Symbols(u32);

impl Role {
    /// What code of `anyone` may, unless the node's configuration says otherwise.
    pub fn anyone(limits: Limits) -> Role {
        Role {
            name: ANYONE.into(),
            trusts: Vec::new(),
            representations: Kinds::default(),
            kernel: CodeForm::default(),
            symbols: Symbols::default(),
            services: Vec::new(),
            limits,
            grants: Grants::default(),
            streams: StreamGrants::default(),
            graphs: GraphGrants::default(),
        }
    }

    /// Why nothing of the role's code runs in the kernel, if that is so. Programs there have no steps: the verifier
    /// bounds their length, and `kernel_us_per_second` their time. So who may take no steps at all, or no time or
    /// packets, has no program there.
    pub fn keeps_out_of_kernel(&self) -> Option<String> {
        let numbers = [
            ("grants.kernel_programs", self.grants.kernel_programs.into()),
            ("limits.steps_per_packet", self.limits.steps_per_packet),
            ("limits.steps_per_second", self.limits.steps_per_second),
            ("limits.packets_per_second", self.limits.packets_per_second),
            ("limits.kernel_us_per_second", self.limits.kernel_us_per_second),
        ];
        let (key, _) = numbers.into_iter().find(|(_, number)| *number == 0)?;
        Some(format!("the role {} has {key} = 0: nothing of it runs in the kernel", self.name))
    }

    /// The first of these calls that the role lacks, as the error of whoever links them.
    pub fn check_symbols<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<(), LacksSymbol> {
        match names.into_iter().find(|name| !self.symbols.has(name)) {
            Some(name) => Err(LacksSymbol { symbol: name.into(), role: self.name.clone() }),
            None => Ok(()),
        }
    }
}

/// Code calls what its role lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LacksSymbol {
    symbol: String,
    role: String,
}

impl fmt::Display for LacksSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it calls {}, which the role {} does not include", self.symbol, self.role)
    }
}

impl core::error::Error for LacksSymbol {}

impl Kinds {
    /// No representation.
    pub const NONE: Kinds = Kinds(0);

    /// Whether this one is among them.
    pub fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 == 1
    }

    /// These and one more.
    pub fn with(self, kind: Kind) -> Kinds {
        Kinds(self.0 | 1 << kind as u8)
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

impl Default for Kinds {
    /// wasm and bpf.
    fn default() -> Kinds {
        Kinds::NONE.with(Kind::Wasm).with(Kind::Bpf)
    }
}

impl TryFrom<Vec<Kind>> for Kinds {
    type Error = String;
    fn try_from(list: Vec<Kind>) -> Result<Kinds, String> {
        let add = |kinds: Kinds, kind| {
            if kinds.has(kind) { Err(format!("{kind} stands twice")) } else { Ok(kinds.with(kind)) }
        };
        list.into_iter().try_fold(Kinds::NONE, add)
    }
}

impl From<Kinds> for Vec<Kind> {
    fn from(kinds: Kinds) -> Vec<Kind> {
        kinds.iter().collect()
    }
}

/// The names, with commas.
impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(|kind| kind.to_string()).collect();
        f.write_str(if names.is_empty() { "none".into() } else { names.join(", ") }.as_str())
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Symbols {
    /// Whether this call is among them; an unknown one never is.
    pub fn has(self, name: &str) -> bool {
        SYMBOLS.iter().position(|symbol| symbol.name == name).is_some_and(|at| self.0 >> at & 1 == 1)
    }

    /// The names, in the order of the interface.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        SYMBOLS.iter().map(|symbol| symbol.name).filter(move |name| self.has(name))
    }
}

impl Default for Symbols {
    /// All calls there are.
    fn default() -> Symbols {
        Symbols((1 << SYMBOLS.len()) - 1)
    }
}

impl TryFrom<Vec<String>> for Symbols {
    type Error = String;
    fn try_from(names: Vec<String>) -> Result<Symbols, String> {
        let mut set = 0;
        for name in names {
            let known = symbol(&name).and_then(|symbol| SYMBOLS.iter().position(|other| other == symbol));
            let bit = 1 << known.ok_or_else(|| format!("'{name}' is no call of anode/capsule.h"))?;
            if set & bit != 0 {
                return Err(format!("{name} stands twice"));
            }
            set |= bit;
        }
        Ok(Symbols(set))
    }
}

impl From<Symbols> for Vec<String> {
    fn from(symbols: Symbols) -> Vec<String> {
        symbols.names().map(str::to_owned).collect()
    }
}

impl fmt::Debug for Symbols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The roles of a node: its policy, and with [`Roles::authorise`] and [`Roles::domain`] its security module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// `anyone` first, then in the order of the configuration: of several roles the first one counts.
    list: Vec<Arc<Role>>,
    /// What it has decided.
    pub(super) decisions: Decisions,
    /// What was taken back.
    pub(super) revoked: Table,
    /// Which credentials cannot be verified.
    pub(super) refused: RefusedTokens,
}

impl Roles {
    /// Only `anyone`, with these limits.
    pub fn of_anyone(limits: Limits) -> Roles {
        let (decisions, revoked, refused) = Default::default();
        Roles { list: vec![Arc::new(Role::anyone(limits))], decisions, revoked, refused }
    }

    /// The roles of a configuration, and `anyone` if it does not say what that may.
    pub fn new(roles: Vec<Role>) -> Result<Roles, String> {
        if roles.len() > ROLES_MAX {
            return Err(format!("[[role]]: {} are more than a node holds, which is {ROLES_MAX}", roles.len()));
        }
        let mut list = Roles::of_anyone(Limits::default()).list;
        let mut given = HashSet::new();
        for role in roles {
            role.check()?;
            if !given.insert(role.name.clone()) {
                return Err(format!("[[role]]: {} stands twice", role.name));
            }
            match role.name.as_str() {
                ANYONE => list[0] = Arc::new(role),
                _ => list.push(Arc::new(role)),
            }
        }
        Ok(Roles { list, ..Roles::of_anyone(Limits::default()) })
    }

    /// Another policy of the same node: what was taken back stays so, and decisions are counted together.
    pub fn renewed(&self, policy: &Roles) -> Roles {
        Roles { list: policy.list.clone(), ..self.clone() }
    }

    /// What code acts as that nobody vouches for.
    pub fn anyone(&self) -> &Arc<Role> {
        // `new` and `of_anyone` put it there, and nothing takes it away.
        &self.list[0]
    }

    /// All of them, `anyone` first.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Role>> {
        self.list.iter()
    }

    /// Those that this root key may grant, the first one before others.
    pub fn of_root<'a>(&'a self, root: &'a PrincipalId) -> impl Iterator<Item = &'a Arc<Role>> {
        self.list.iter().filter(move |role| role.trusts.contains(root))
    }
}

/// Refuses what is no role's name.
pub fn check_role_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 32 || !name.chars().all(plain) {
        return Err(format!("role '{name}': a role's name is 1 to 32 letters, digits, '-', '_' or '.'"));
    }
    Ok(())
}

impl Default for Roles {
    fn default() -> Roles {
        Roles::of_anyone(Limits::default())
    }
}

impl Role {
    fn check(&self) -> Result<(), String> {
        let name = &self.name;
        check_role_name(name)?;
        if name == NODE {
            return Err(format!("role {NODE}: this is the node's own role, which nobody else has"));
        }
        if self.trusts.len() > ROOTS_MAX {
            return Err(format!("role {name}: trusts: {} are more than {ROOTS_MAX}", self.trusts.len()));
        }
        let dangerous = self.representations.has(Kind::Native) || self.kernel == CodeForm::Trusted;
        if name == ANYONE && (dangerous || !self.trusts.is_empty()) {
            return Err("role anyone: whoever it is can have neither native code nor the trusted form in the kernel, \
                        and needs nobody's trust"
                .into());
        }
        if name == ANYONE && self.graphs.edits() {
            return Err("role anyone: graphs.edits_per_second: whoever it is changes no graphs".into());
        }
        if self.representations == Kinds::NONE && name != ANYONE {
            return Err(format!(
                "role {name}: representations: at least one of wasm, bpf, native; only anyone, whom nobody trusts, may have none"
            ));
        }
        let owned = || self.grants.check().and_then(|()| self.streams.check()).and_then(|()| self.graphs.check());
        let checked = self.limits.check().and_then(|()| owned());
        checked.map_err(|why| format!("role {name}: {why}"))
    }
}
