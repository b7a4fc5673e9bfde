//! What ports demand, and the keys of neighbours: `demand` of a `[[port]]`, `keys` of its neighbours.

use super::{ConfigError, NodeFile, PortFile, wrong};
use crate::frame::PortId;
use crate::node::NodeConfig;
use crate::node::proofs::{Demands, Guard, KEYS_MAX, NeighbourKey};
use crate::trust::LinkSecret;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a port can demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// Neighbours prove what they send.
    Mac,
    /// Code is signed.
    SignedCode,
    /// PLAN packets are signed.
    SignedPlan,
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

/// What time it was, in nanoseconds since 1970, when a clock began that shows `now` nanoseconds.
pub fn unix_ns(now: u64) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    since.saturating_sub(now)
}

impl NodeFile {
    /// Demands and keys of all ports, for a node whose clock shows `now` nanoseconds.
    pub fn guard(&self, config: &NodeConfig, now: u64) -> Result<Guard, ConfigError> {
        let mut guard = Guard { unix_ns: unix_ns(now), ..Guard::default() };
        for (at, (file, port)) in self.ports.iter().zip(&config.ports).enumerate() {
            let (demands, keys) = file.guard(&port.name, PortId(at as u16))?;
            guard.demands.push(demands);
            guard.keys.extend(keys);
        }
        Ok(guard)
    }
}

impl PortFile {
    fn guard(&self, name: &str, port: PortId) -> Result<(Demands, Vec<NeighbourKey>), ConfigError> {
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
                let secret = LinkSecret::load(path)
                    .map_err(|error| ConfigError(format!("port {name}: neighbour {addr}: keys: {error}")))?;
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
                            "port {name}: neighbours {other} and {addr} have keys of one number ({:08x}): make another with anode cred secret",
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
                "port {name}: demand = [\"mac\"] without keys of a neighbour lets nobody in: neighbours = [{{ address = …, keys = [\"FILE\"] }}]"
            ));
        }
        if self.kernel && !(self.demand.is_empty() && keys.is_empty()) {
            return wrong(format!(
                "port {name}: kernel = true beside demand or keys: the kernel half can neither check proofs, nor make them, nor say who has \
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
             neighbours = [{{ address = \"10.0.0.2\", at = \"127.0.0.1:4002\", {neighbour} }}]\n"
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
        let twice = format!("keys = [{:?}, {:?}]", paths[0], paths[0]);
        for (port, neighbour, part) in [
            ("demand = [\"mac\"]", "keys = []", "lets nobody in"),
            ("demand = [\"macs\"]", "keys = []", "`signed-code`"),
            ("demand = \"mac\"", "keys = []", "as in [\"mac\"]"),
            ("", twice.as_str(), "is the second with the number 00000001"),
            ("", "keys = [\"/nonexistent\"]", "/nonexistent"),
            ("", "keys = [\"1\", \"2\", \"3\", \"4\", \"5\"]", "at most 4"),
        ] {
            let why = guard(port, neighbour).unwrap_err();
            assert!(why.contains(part), "{why} and not {part}");
        }
    }
}
