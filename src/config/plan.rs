//! `[plan]`: the PLAN environment of a configuration.

use super::guard::check_private;
use super::{ConfigError, NodeFile, wrong};
use crate::ee::plan::config::{Config, Principal};
use crate::ee::plan::rip::Timers;
use crate::node::NodeConfig;
use crate::trust::{KeyKind, read_private};
use crate::wire::Addr;
use plan::name::Name;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Principals of one node.
const PRINCIPALS_MAX: usize = 64;

/// Hosts of a hosts file.
const HOSTS_MAX: usize = 65_536;

/// The table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanFile {
    /// Whether the node speaks PLAN.
    pub enabled: bool,
    /// Where applications can attach by TCP too.
    pub tcp: Option<SocketAddr>,
    /// The largest bound that an application's packet may have; and that a neighbour's has, where its port's is not lower.
    #[serde(deserialize_with = "super::bounds::bound")]
    pub bound_max: Option<u32>,
    /// Where `defaultRoute` looks.
    pub routing: Routing,
    /// RIP's time between updates, in milliseconds; its other times follow.
    pub rip_update_ms: u64,
    /// Hosts by name: a line has an address and names.
    pub hosts: Option<PathBuf>,
    /// Services that only principals see that name them, besides those that are restricted by default.
    pub restricted: Vec<String>,
    /// Services that everybody sees though they are restricted by default.
    pub open: Vec<String>,
    /// Ports with another one for neighbours' packets.
    pub ingress: Vec<IngressFile>,
    /// Who can authenticate chunks.
    pub principal: Vec<PrincipalFile>,
}

/// Where `defaultRoute` looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Routing {
    /// In the node's routes; no RIP.
    #[default]
    Routes,
    /// In RIP's.
    Rip,
    /// In the node's routes, but there is RIP too.
    Both,
    /// An extension is asked, by EXTENSION.CALL; of what it does not find, the node's routes.
    Extension(String),
}

impl TryFrom<String> for Routing {
    type Error = String;

    fn try_from(text: String) -> Result<Routing, String> {
        match text.as_str() {
            "routes" => Ok(Routing::Routes),
            "rip" => Ok(Routing::Rip),
            "both" => Ok(Routing::Both),
            _ if text.contains('.') => Ok(Routing::Extension(text)),
            _ => Err(format!("'{}' is no routing: routes, rip, both, or EXTENSION.CALL", text.escape_debug())),
        }
    }
}

impl From<Routing> for String {
    fn from(routing: Routing) -> String {
        match routing {
            Routing::Routes => "routes".into(),
            Routing::Rip => "rip".into(),
            Routing::Both => "both".into(),
            Routing::Extension(call) => call,
        }
    }
}

/// A port's ceiling for PLAN, where the port's own is not lower.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IngressFile {
    /// The port's name.
    pub port: String,
    /// The largest bound a packet brings in by it.
    #[serde(deserialize_with = "super::bounds::one_bound")]
    pub bound_max: u32,
}

/// A principal of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrincipalFile {
    /// Its name in packets.
    pub name: String,
    /// The file with the secret it shares with this node: 64 hexadecimal digits.
    pub key_file: PathBuf,
    /// The role whose limits its domain has.
    #[serde(default = "anyone")]
    pub role: String,
    /// The restricted services it sees.
    #[serde(default)]
    pub services: Vec<String>,
}

fn anyone() -> String {
    crate::trust::ANYONE.into()
}

impl Default for PlanFile {
    fn default() -> PlanFile {
        PlanFile {
            enabled: true,
            tcp: None,
            bound_max: None,
            routing: Routing::default(),
            rip_update_ms: Timers::default().update / 1_000_000,
            hosts: None,
            restricted: Vec::new(),
            open: Vec::new(),
            ingress: Vec::new(),
            principal: Vec::new(),
        }
    }
}

impl NodeFile {
    /// The node's PLAN environment.
    pub fn plan_environment(&self, node: &NodeConfig) -> Result<Config, ConfigError> {
        let file = &self.plan;
        if !(10..=3_600_000).contains(&file.rip_update_ms) {
            return wrong(format!("[plan] rip_update_ms = {}: milliseconds from 10 to 3600000", file.rip_update_ms));
        }
        if file.principal.len() > PRINCIPALS_MAX {
            return wrong(format!("[[plan.principal]]: more than {PRINCIPALS_MAX}"));
        }
        let hosts = file.hosts.as_deref().map(read_hosts).transpose()?.unwrap_or_default();
        let roles = &node.roles;
        let principals = file.principal.iter().map(|principal| {
            if !roles.iter().any(|role| role.name == principal.role) {
                return wrong(format!("[[plan.principal]] {}: there is no role {}", principal.name, principal.role));
            }
            principal.read()
        });
        for role in roles.iter() {
            names(&format!("[[role]] {}: services", role.name), &role.services)?;
        }
        let update = file.rip_update_ms * 1_000_000;
        let timers = Timers { update, timeout: 6 * update, garbage: 4 * update, triggered: update / 30 };
        Ok(Config {
            enabled: file.enabled,
            bound_max: file.bound_max.unwrap_or(Config::default().bound_max),
            ceilings: self.plan_ceilings(),
            rip: matches!(file.routing, Routing::Rip | Routing::Both).then_some(timers),
            default_rip: file.routing == Routing::Rip,
            default_service: file.default_service()?,
            hosts: Arc::new(hosts),
            principals: principals.collect::<Result<_, _>>()?,
            restricted: file.restricted()?,
            ..Config::default()
        })
    }
}

impl PlanFile {
    /// The service of an extension that `defaultRoute` asks.
    fn default_service(&self) -> Result<Option<Name>, ConfigError> {
        let Routing::Extension(call) = &self.routing else { return Ok(None) };
        let name = call.split_once('.').and_then(|(_, call)| Name::new(call));
        name.map(Some).ok_or_else(|| ConfigError(format!("[plan] routing = '{}': no name", call.escape_debug())))
    }

    /// The services that not everybody sees: those of the default that are not open, and others that are named.
    fn restricted(&self) -> Result<Vec<Name>, ConfigError> {
        let open = names("[plan] open", &self.open)?;
        if let Some(name) = open.iter().find(|name| self.restricted.iter().any(|other| name.as_str() == other)) {
            return wrong(format!("[plan] {name} is both open and restricted: leave one out"));
        }
        let usual = Config::default().restricted;
        if let Some(name) = open.iter().find(|name| !usual.contains(name)) {
            let all: Vec<&str> = usual.iter().map(Name::as_str).collect();
            return wrong(format!("[plan] open: '{name}' is not restricted by default; those are {}", all.join(", ")));
        }
        let usual = usual.into_iter().filter(|name| !open.contains(name));
        Ok(usual.chain(names("[plan] restricted", &self.restricted)?).collect())
    }
}

impl PrincipalFile {
    fn read(&self) -> Result<Principal, ConfigError> {
        let place = |ConfigError(why)| ConfigError(format!("[[plan.principal]] {}: key_file: {why}", self.name));
        let key = read_key(&self.key_file).map_err(place)?;
        check_private(&self.key_file).map_err(|why| place(ConfigError(why)))?;
        let services = names(&format!("[[plan.principal]] {}: services", self.name), &self.services)?;
        Ok(Principal { name: self.name.clone(), key, role: self.role.clone(), services })
    }
}

fn names(place: &str, texts: &[String]) -> Result<Vec<Name>, ConfigError> {
    let name = |text: &String| {
        Name::new(text).filter(|name| !name.is_none()).ok_or_else(|| {
            ConfigError(format!("{place}: '{text}' is no name of a service: letters, digits and _, 1 to 31 of them"))
        })
    };
    texts.iter().map(name).collect()
}

/// The secret in a file, which nobody but its owner may read.
pub fn read_key(path: &Path) -> Result<[u8; 32], ConfigError> {
    let text = read_private(path, KeyKind::Plan).map_err(|error| ConfigError(error.to_string()))?;
    let mut key = [0; 32];
    hex::decode_to_slice(text.trim(), &mut key).map_err(|_| {
        ConfigError(format!("{}: a key is 64 hexadecimal digits, such as openssl rand -hex 32 prints", path.display()))
    })?;
    Ok(key)
}

/// The hosts of a file: lines of an address and names, as in /etc/hosts.
pub fn read_hosts(path: &Path) -> Result<BTreeMap<String, Addr>, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ConfigError(format!("cannot read the hosts {}: {error}", path.display())))?;
    hosts(&text).map_err(|why| ConfigError(format!("{}: {why}", path.display())))
}

fn hosts(text: &str) -> Result<BTreeMap<String, Addr>, String> {
    let mut hosts = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(addr) = words.next() else { continue };
        let addr = addr.parse::<Addr>().map_err(|_| format!("line {}: '{addr}' is no address", at + 1))?;
        for name in words {
            hosts.entry(name.to_owned()).or_insert(addr);
        }
        if hosts.len() > HOSTS_MAX {
            return Err(format!("more than {HOSTS_MAX} hosts"));
        }
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_hosts_file_has_an_address_and_names_in_a_line() {
        let found = hosts("# all\n10.0.0.1 one eins # first\n\n10.0.0.2\ttwo\n::1 six one\n").unwrap();
        let shown: Vec<_> = found.iter().map(|(name, addr)| format!("{name} {addr}")).collect();
        assert_eq!(shown, ["eins 10.0.0.1", "one 10.0.0.1", "six ::1", "two 10.0.0.2"]);
        assert_eq!(hosts("10.0.0.1 a\nb 10.0.0.1\n"), Err("line 2: 'b' is no address".into()));
    }

    #[test]
    fn a_key_is_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let key_file = folder.path().join("key");
        std::fs::write(&key_file, "ab".repeat(32) + "\n").unwrap();
        let set_mode = |mode| std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(mode)).unwrap();
        set_mode(0o600);
        let file = PrincipalFile {
            name: "p".into(),
            key_file: key_file.clone(),
            role: anyone(),
            services: vec!["memoryUse".into()],
        };
        let principal = file.read().unwrap();
        assert_eq!((principal.key, format!("{principal:?}")), ([0xab; 32], "Principal(p, anyone)".into()));
        std::fs::write(&file.key_file, "ab").unwrap();
        assert!(file.read().unwrap_err().to_string().contains("64 hexadecimal digits"));
        set_mode(0o644);
        let why = file.read().unwrap_err().to_string();
        assert!(why.contains("[[plan.principal]] p: key_file") && why.contains("mode 644"), "{why}");
    }
}
