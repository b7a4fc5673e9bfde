//! Proofs of neighbours in a configuration: `demand` of a `[[port]]`, `keys` of its neighbours.

use super::half::KernelWish;
use super::{ConfigError, NodeFile, PortFile, wrong};
use crate::frame::PortId;
use crate::node::NodeConfig;
use crate::node::proofs::{Demands, Guard, KEYS_MAX, NeighbourKey};
use crate::sys::owners::{self, Untrusted};
use crate::topology::Port;
use crate::trust::LinkSecret;
use crate::wire::Addr;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// What a port can demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// Neighbours prove what they send.
    Mac,
    /// Code is signed.
    SignedCode,
    /// PLAN packets are signed.
    SignedPlan,
}

impl Demand {
    /// As in the configuration.
    pub(super) fn name(self) -> &'static str {
        match self {
            Demand::Mac => "mac",
            Demand::SignedCode => "signed-code",
            Demand::SignedPlan => "signed-plan",
        }
    }
}

/// Reads a list of demands; one word alone is none, and the error says how it is written.
pub(super) fn demands<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Demand>, D::Error> {
    struct List;
    impl<'de> Visitor<'de> for List {
        type Value = Vec<Demand>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list, as in [\"mac\"], of \"mac\", \"signed-code\", \"signed-plan\"")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut words: A) -> Result<Vec<Demand>, A::Error> {
            let mut all = Vec::new();
            while let Some(word) = words.next_element()? {
                all.push(word);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_seq(List)
}

/// Refuses a file with a secret that is somebody else's, or on whose way somebody else could put another in its place:
/// who can choose a secret has it.
pub(super) fn check_private(path: &Path) -> Result<(), String> {
    let shown = path.display();
    let cannot = |error: io::Error| format!("{shown} cannot be looked at: {error}");
    // As it is named, and as it is found by links.
    let found = fs::canonicalize(path).map_err(cannot)?;
    for way in [path, &found] {
        match owners::check_way(way).map_err(cannot)? {
            Ok(()) => {}
            Err(Untrusted { step, owner: Some(owner) }) => {
                return Err(format!(
                    "{} belongs to user {owner}, who could put something else in the place of {shown}; keep it in another directory",
                    step.display()
                ));
            }
            Err(Untrusted { step, owner: None }) => {
                return Err(format!(
                    "others can write to {0} and put something else in the place of {shown}; chmod go-w {0}, or keep \
                     it in another directory",
                    step.display()
                ));
            }
        }
    }
    let (owner, own) = (fs::metadata(&found).map_err(cannot)?.uid(), rustix::process::geteuid().as_raw());
    if owner != 0 && owner != own {
        return Err(format!("{shown} belongs to user {owner}, who knows what is in it; chown it to user {own}"));
    }
    Ok(())
}

/// What time it was, in nanoseconds since 1970, when a clock began that shows `now` nanoseconds.
pub fn unix_ns(now: u64) -> u64 {
    crate::sys::clock::unix_ns().saturating_sub(now)
}

impl NodeFile {
    /// Demands and keys of all ports, for a node whose clock shows `now` nanoseconds.
    pub fn guard(&self, config: &NodeConfig, now: u64) -> Result<Guard, ConfigError> {
        self.guard_with(&config.ports, now, load)
    }

    /// The same with secrets that somebody else has read.
    pub fn guard_with(
        &self,
        ports: &[Port],
        now: u64,
        secret: impl Fn(&Path) -> Result<LinkSecret, String> + Copy,
    ) -> Result<Guard, ConfigError> {
        let mut guard = Guard { unix_ns: unix_ns(now), ..Guard::default() };
        for (at, (file, port)) in self.ports.iter().zip(ports).enumerate() {
            let (demands, keys) = file.guard(&port.name, PortId(at as u16), secret)?;
            guard.demands.push(demands);
            guard.keys.extend(keys);
            guard.parts.extend(self.parts_of(file, PortId(at as u16), &port.name)?);
        }
        check_directions(ports, &guard.keys)?;
        Ok(guard)
    }

    /// The roles in which neighbours of a port have parts of their graphs here.
    fn parts_of(&self, file: &PortFile, port: PortId, name: &str) -> Result<Vec<(PortId, Addr, String)>, ConfigError> {
        let mut parts = Vec::new();
        for neighbour in &file.neighbours {
            let Some(graphs) = &neighbour.graphs else { continue };
            let place = format!("port {name}: neighbour {}: graphs = \"{graphs}\"", neighbour.address);
            if neighbour.keys.is_empty() {
                return wrong(format!(
                    "{place}: parts of graphs are taken of who proves what he sends: give the neighbour keys, or leave graphs out"
                ));
            }
            match self.roles.iter().find(|role| role.name == *graphs) {
                None => {
                    return wrong(format!(
                        "{place}: there is no role of this name: write a [[role]] with graph_parts and bandwidth"
                    ));
                }
                Some(role) if role.grants.graph_parts == 0 => {
                    return wrong(format!(
                        "{place}: that role grants no parts: set grants.graph_parts there, or leave graphs out"
                    ));
                }
                Some(_) => parts.push((port, neighbour.address, graphs.clone())),
            }
        }
        Ok(parts)
    }

    /// The secrets of all neighbours, by their files.
    pub fn secrets(&self) -> Result<BTreeMap<PathBuf, LinkSecret>, ConfigError> {
        let neighbours = self.ports.iter().flat_map(|port| &port.neighbours);
        let read = |path: &PathBuf| Ok((path.clone(), load(path).map_err(ConfigError)?));
        neighbours.flat_map(|neighbour| &neighbour.keys).map(read).collect()
    }
}

/// Reads a secret from its file, which nobody else can have changed.
fn load(path: &Path) -> Result<LinkSecret, String> {
    let secret = LinkSecret::load(path).map_err(|error| error.to_string())?;
    check_private(path)?;
    Ok(secret)
}

/// Refuses a key with the same two addresses at two ports: the keys of its directions would be the same, but each port
/// has a window of its own. So what was recorded at one would count at the other once more.
fn check_directions(ports: &[Port], keys: &[NeighbourKey]) -> Result<(), ConfigError> {
    let port = |key: &NeighbourKey| ports.get(usize::from(key.port.0));
    let ends = |key: &NeighbourKey| {
        let own = port(key).map_or(Addr::UNSPECIFIED, |port| port.address_towards(key.addr));
        (own.min(key.addr), own.max(key.addr))
    };
    for (at, key) in keys.iter().enumerate() {
        let is_same =
            |other: &&NeighbourKey| other.port != key.port && other.secret == key.secret && ends(other) == ends(key);
        if let Some(other) = keys[..at].iter().find(is_same) {
            let name = |key: &NeighbourKey| port(key).map_or("?", |port| &port.name[..]);
            return wrong(format!(
                "ports {} and {}: keys: both have the key {:08x} with the same two addresses ({} and {}), so that what \
                 one has heard could be sent to the other again: make another with anode cred secret",
                name(other),
                name(key),
                key.id,
                ends(key).0,
                ends(key).1
            ));
        }
    }
    Ok(())
}

impl PortFile {
    fn guard(
        &self,
        name: &str,
        port: PortId,
        secret: impl Fn(&Path) -> Result<LinkSecret, String>,
    ) -> Result<(Demands, Vec<NeighbourKey>), ConfigError> {
        let has = |demand| self.demand.contains(&demand);
        let demands = Demands {
            mac: has(Demand::Mac),
            signed_code: has(Demand::SignedCode),
            signed_plan: has(Demand::SignedPlan),
        };
        let mut keys: Vec<NeighbourKey> = Vec::new();
        for neighbour in &self.neighbours {
            let addr = neighbour.address;
            if neighbour.keys.len() > KEYS_MAX {
                return wrong(format!(
                    "port {name}: neighbour {addr}: keys: at most {KEYS_MAX}, the first is used to send"
                ));
            }
            for path in &neighbour.keys {
                let place = |why: String| ConfigError(format!("port {name}: neighbour {addr}: keys: {why}"));
                let secret = secret(path).map_err(place)?;
                match keys.iter().find(|other| other.id == secret.id).map(|other| other.addr) {
                    Some(same) if same == addr => {
                        return wrong(format!(
                            "port {name}: neighbour {addr}: keys: {} is the second with the number {:08x}; each key stands there once",
                            path.display(),
                            secret.id
                        ));
                    }
                    Some(other) => {
                        return wrong(format!(
                            "port {name}: neighbours {other} and {addr} have keys of one number ({:08x}): make another \
                             with anode cred secret",
                            secret.id
                        ));
                    }
                    None => {}
                }
                keys.push(NeighbourKey { port, addr, id: secret.id, secret: secret.bytes });
            }
        }
        if demands.mac && keys.is_empty() {
            return wrong(format!(
                "port {name}: demand = [\"mac\"] without keys of a neighbour lets nobody in: neighbours = [{{ address \
                 = …, keys = [\"FILE\"] }}]"
            ));
        }
        if self.kernel == KernelWish::Yes && !(self.demand.is_empty() && keys.is_empty()) {
            return wrong(format!(
                "port {name}: kernel = true beside demand or keys: the kernel half can neither check proofs, nor make \
                 them, nor say who has \
                 signed; set kernel = false there, or leave demand and keys out"
            ));
        }
        Ok((demands, keys))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(port: &str, neighbour: &str) -> Result<Guard, String> {
        let text = format!(
            "name = \"a\"\n[[port]]\nudp = \"127.0.0.1:4001\"\naddress = [\"10.0.0.1/24\"]\n{port}\n\
             neighbours = [{{ address = \"10.0.0.2\", at = \"127.0.0.1:4002\", {neighbour} }}]\n\
             [[role]]\nname = \"none\"\n[[role]]\nname = \"some\"\ngrants = {{ graph_parts = 2 }}\n"
        );
        let file = NodeFile::parse(&text).map_err(|error| error.to_string())?;
        let (config, _) = file.plan().map_err(|error| error.to_string())?;
        file.guard(&config, 0).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_and_demands_are_those_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| dir.path().join(name));
        let secrets = [1, 2].map(|id| LinkSecret { id, bytes: [id as u8; 32] });
        secrets.iter().zip(&paths).for_each(|(secret, path)| secret.save(path).unwrap());
        let found = guard("demand = [\"mac\", \"signed-plan\"]", &format!("keys = {paths:?}")).unwrap();
        assert_eq!(found.demands, [Demands { mac: true, signed_code: false, signed_plan: true }]);
        assert_eq!(found.keys.iter().map(|key| (key.id, key.secret)).collect::<Vec<_>>(), [(1, [1; 32]), (2, [2; 32])]);
        let found = guard("", &format!("graphs = \"some\", keys = {paths:?}")).unwrap();
        assert_eq!(found.parts, [(PortId(0), Addr::v4([10, 0, 0, 2]), "some".to_owned())]);
        let twice = format!("keys = [{:?}, {:?}]", paths[0], paths[0]);
        for (port, neighbour, part) in [
            ("demand = [\"mac\"]", "keys = []", "lets nobody in"),
            ("demand = [\"macs\"]", "keys = []", "`signed-code`"),
            ("demand = \"mac\"", "keys = []", "as in [\"mac\"]"),
            ("", twice.as_str(), "is the second with the number 00000001"),
            ("", "keys = [\"/nonexistent\"]", "/nonexistent"),
            ("", "keys = [\"1\", \"2\", \"3\", \"4\", \"5\"]", "at most 4"),
            ("", "graphs = \"east\"", "give the neighbour keys"),
            ("", &format!("graphs = \"east\", keys = [{:?}]", paths[0]), "there is no role of this name"),
            ("", &format!("graphs = \"none\", keys = [{:?}]", paths[0]), "that role grants no parts"),
        ] {
            let why = guard(port, neighbour).unwrap_err();
            assert!(why.contains(part), "{why} and not {part}");
        }
    }
}
