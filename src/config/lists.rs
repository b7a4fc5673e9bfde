//! Lists of a configuration with double entries, or with more than the node's tables hold: refused here, since the
//! tables would leave them out.

use super::environments::ENVIRONMENTS_MAX;
use super::{ConfigError, NodeFile, PortFile, wrong};
use crate::topology::neighbours::NEIGHBOURS_MAX;
use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;

/// Ports of one node.
pub(super) const PORTS_MAX: usize = 256;

/// Addresses of one port.
const ADDRESSES_MAX: usize = 64;

/// Codes of one node: each has a domain, and the kernel half a slot for it.
const CODES_MAX: usize = 32_768;

/// Static routes of one node.
const ROUTES_MAX: usize = 65_536;

impl NodeFile {
    /// Refuses what stands twice, or is more than the node holds.
    pub(super) fn check_lists(&self) -> Result<(), ConfigError> {
        self.compiler.check()?;
        at_most("[[port]]", self.ports.len(), PORTS_MAX)?;
        at_most("[[route]]", self.static_routes.len(), ROUTES_MAX)?;
        let neighbours = self.ports.iter().map(|port| port.neighbours.len()).sum();
        at_most("neighbours of all ports", neighbours, NEIGHBOURS_MAX)?;
        if self.sizes.codes == 0 {
            return wrong(format!("[sizes] codes = 0: from 1 to {CODES_MAX}"));
        }
        at_most("sizes.codes", self.sizes.codes, CODES_MAX)?;
        once("[[port]] packet", self.ports.iter().filter_map(|port| port.packet.as_ref()))?;
        once("[[port]] udp", self.ports.iter().filter_map(|port| port.udp.filter(|listen| listen.port() != 0)))?;
        once("[[route]] to", self.static_routes.iter().map(|route| route.to))?;
        at_most("[[ee]]", self.environments.len(), ENVIRONMENTS_MAX)?;
        once("[[ee]] name", self.environments.iter().map(|environment| environment.name.as_str()))?;
        self.check_words()?;
        self.ports.iter().try_for_each(PortFile::check_lists)?;
        // What stands twice at one port has been said of that port.
        once("address of the overlay ports", self.ports.iter().flat_map(PortFile::addresses))
    }

    /// Refuses words that stand twice in a list of words: one of them was meant to be another.
    fn check_words(&self) -> Result<(), ConfigError> {
        once("[security] require", self.security.require.iter().map(|part| part.name()))?;
        once("[jail] require", self.jail.require.iter().map(|part| part.name()))?;
        once("[cpu] affinity", self.cpu.affinity.iter())?;
        once("[plan] open", self.plan.open.iter())?;
        once("[plan] restricted", self.plan.restricted.iter())?;
        for principal in &self.plan.principal {
            once(&format!("[[plan.principal]] {}: services", principal.name), principal.services.iter())?;
        }
        for role in &self.roles {
            once(&format!("[[role]] {}: services", role.name), role.services.iter())?;
            once(&format!("[[role]] {}: trusts", role.name), role.trusts.iter())?;
        }
        Ok(())
    }
}

impl PortFile {
    /// The addresses that it says, without their subnets.
    fn addresses(&self) -> impl Iterator<Item = &str> {
        self.address.iter().map(|text| text.split('/').next().unwrap_or(text))
    }

    fn check_lists(&self) -> Result<(), ConfigError> {
        let udp = self.udp.map(|listen| listen.to_string());
        let name = self.name.as_ref().or(self.packet.as_ref()).or(udp.as_ref()).map_or("", String::as_str);
        let key = |key: &str| format!("port {name}: {key}");
        at_most(&key("address"), self.address.len(), ADDRESSES_MAX)?;
        once(&key("address"), self.addresses())?;
        once(&key("neighbours.address"), self.neighbours.iter().map(|neighbour| neighbour.address))?;
        once(&key("demand"), self.demand.iter().map(|demand| demand.name()))?;
        once(&key("neighbours.at"), self.neighbours.iter().filter_map(|neighbour| neighbour.at))
    }
}

fn at_most(key: &str, count: usize, limit: usize) -> Result<(), ConfigError> {
    if count > limit { wrong(format!("{key}: {count} are more than a node holds, which is {limit}")) } else { Ok(()) }
}

fn once<T: Eq + Hash + Display + Clone>(key: &str, items: impl Iterator<Item = T>) -> Result<(), ConfigError> {
    let mut seen = HashSet::new();
    for item in items {
        if !seen.insert(item.clone()) {
            return wrong(format!("{key}: {item} stands twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(rest: &str) -> Option<String> {
        let text = format!("name = \"a\"\n{rest}");
        NodeFile::parse(&text).and_then(|file| file.plan()).err().map(|error| error.to_string())
    }

    fn port(rest: &str) -> String {
        format!("[[port]]\nudp = \"127.0.0.1:4001\"\n{rest}")
    }

    fn neighbours(count: usize) -> String {
        let one =
            |n: usize| format!("{{ address = \"10.{}.{}.1\", at = \"127.0.0.1:{}\" }}", n / 256, n % 256, 5000 + n);
        let all: Vec<String> = (0..count).map(one).collect();
        port(&format!("address = [\"10.9.0.1/24\"]\nneighbours = [{}]", all.join(", ")))
    }

    #[test]
    fn what_stands_twice_is_refused_by_its_key() {
        let near = |address: &str, at: u16| format!("{{ address = \"{address}\", at = \"127.0.0.1:{at}\" }}");
        let with = |a: String, b: String| port(&format!("address = [\"10.0.0.9/24\"]\nneighbours = [{a}, {b}]"));
        let route = "[[route]]\nto = \"10.1.0.0/16\"\nvia = \"10.0.0.1\"\n";
        let good = with(near("10.0.0.1", 1), near("10.0.0.2", 2));
        assert_eq!(refusal(&good), None);
        let table = |table: &str| format!("{good}\n{table}");
        let role = |rest: &str| table(&format!("[[role]]\nname = \"r\"\n{rest}"));
        let key = format!("\"ed25519:{}\"", "11".repeat(32));
        for (text, part) in [
            (with(near("10.0.0.1", 1), near("10.0.0.1", 2)), "neighbours.address: 10.0.0.1 stands twice"),
            (with(near("10.0.0.1", 1), near("10.0.0.2", 1)), "neighbours.at: 127.0.0.1:1 stands twice"),
            (port("address = [\"10.0.0.1/24\", \"10.0.0.1/16\"]"), "address: 10.0.0.1 stands twice"),
            (
                format!("{good}\n[[port]]\nudp = \"127.0.0.1:4002\"\naddress = [\"10.0.0.9/16\"]"),
                "address of the overlay ports: 10.0.0.9 stands twice",
            ),
            (format!("{good}\n{route}{route}"), "[[route]] to: 10.1.0.0/16 stands twice"),
            ("[[port]]\npacket = \"x\"\n[[port]]\npacket = \"x\"".into(), "[[port]] packet: x stands twice"),
            (format!("{good}\n{good}"), "[[port]] udp: 127.0.0.1:4001 stands twice"),
            (role("representations = [\"wasm\", \"wasm\"]"), "wasm stands twice"),
            (role("symbols = [\"an_now\", \"an_now\"]"), "an_now stands twice"),
            (role("services = [\"memoryUse\", \"memoryUse\"]"), "[[role]] r: services: memoryUse stands twice"),
            (role(&format!("trusts = [{key}, {key}]")), "[[role]] r: trusts: ed25519:11"),
            (port("address = [\"10.0.0.1/24\"]\ndemand = [\"mac\", \"mac\"]"), "demand: mac stands twice"),
            (
                table("[security]\nrequire = [\"user\", \"landlock\", \"user\"]"),
                "[security] require: user stands twice",
            ),
            (table("[jail]\nrequire = [\"cpu\", \"cpu\"]"), "[jail] require: cpu stands twice"),
            (table("[cpu]\naffinity = [0, 0]"), "[cpu] affinity: 0 stands twice"),
            (table("[plan]\nopen = [\"bandwidthSend\", \"bandwidthSend\"]"), "[plan] open: bandwidthSend stands twice"),
            (table("[plan]\nrestricted = [\"print\", \"print\"]"), "[plan] restricted: print stands twice"),
            (
                table("[[plan.principal]]\nname = \"p\"\nkey_file = \"k\"\nservices = [\"x\", \"x\"]"),
                "[[plan.principal]] p: services: x stands twice",
            ),
        ] {
            let refused = refusal(&text).unwrap_or_default();
            assert!(refused.contains(part), "{refused:?} and not {part:?}");
        }
    }

    #[test]
    fn what_is_more_than_the_node_holds_is_refused_with_the_limit() {
        assert_eq!(refusal(&neighbours(NEIGHBOURS_MAX)), None);
        let many = |count: usize| (0..count).map(|n| format!("\"10.0.{n}.1/24\"")).collect::<Vec<_>>().join(", ");
        let role = |rest: &str| format!("{}\n[[role]]\nname = \"r\"\n{rest}", neighbours(1));
        for (text, part) in [
            (neighbours(NEIGHBOURS_MAX + 1), "neighbours of all ports: 257 are more than a node holds, which is 256"),
            (port(&format!("address = [{}]", many(65))), "address: 65 are more than"),
            (format!("{}\n[sizes]\ncodes = 0", neighbours(1)), "[sizes] codes = 0: from 1 to 32768"),
            (format!("{}\n[sizes]\ncodes = 40000", neighbours(1)), "sizes.codes: 40000 are more than"),
            (role("limits = { children_per_packet = 99 }"), "role r: limits.children_per_packet: 99 are more than"),
            (role("representations = []"), "at least one of wasm, bpf, native; only anyone"),
            (role("[[role]]\nname = \"r\""), "[[role]]: r stands twice"),
            (role("symbols = [\"an_nothing\"]"), "'an_nothing' is no call"),
            (role("trusts = [\"ed25519:12\"]"), "is no principal: write ed25519: and 64"),
            (role("kernl = 1"), "unknown field `kernl`"),
            (format!("{}\n[[role]]\nname = \"anyone\"\nkernel = \"trusted\"", neighbours(1)), "role anyone: whoever"),
        ] {
            let refused = refusal(&text).unwrap_or_default();
            assert!(refused.contains(part), "{refused:?} and not {part:?}");
        }
    }
}
