//! `[input]`: from which port a worker takes the next batch of frames. It is carried out in `manage/worker/input.rs`.
//!
//! ```toml
//! [input]
//! order = "wfq"
//! [[port]]
//! packet = "eth1"
//! input = { weight = 300 }
//! ```
//!
//! The orders are those of output disciplines, over ports in the place of classes, and those of extensions. Without the table ports have
//! their turns alike.

use crate::schedule::discipline::{KNOWN_MAX, OrderKind};
use crate::schedule::{Share, WEIGHT_MAX};
use serde::{Deserialize, Serialize};

/// `[input]` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InputFile {
    /// The order of ports; nothing: each has its turn.
    pub order: Option<OrderKind>,
}

/// `input` of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PortInput {
    /// Its part beside other ports, in `wfq` and `drr`.
    pub weight: u32,
    /// Higher is first, in `priority`.
    pub priority: u8,
}

impl Default for PortInput {
    fn default() -> PortInput {
        let Share { weight, priority, .. } = Share::default();
        PortInput { weight, priority }
    }
}

/// An order of ports.
#[derive(Clone, Debug, PartialEq)]
pub struct InputSpec {
    /// Which.
    pub order: OrderKind,
    /// The ports' parts, by their places.
    pub shares: Vec<Share>,
}

impl InputSpec {
    /// The extension that makes it, if one does.
    pub fn extension(&self) -> Option<&str> {
        self.order.brought().map(|name| &*name.extension)
    }

    /// Whether a port may have to be served before all that wait.
    pub fn is_by_priority(&self) -> bool {
        self.order == OrderKind::Priority
    }
}

/// The orders there are for ports.
const ORDERS: &str = "priority, wfq, drr or EXTENSION/CLASS(ARGUMENTS)";

/// A port, for an order: what people call it, and what is written of it; one without a name is a vacant place.
pub type Written = (String, Option<PortInput>);

impl InputFile {
    /// The order of these ports, if there is one; or what cannot be.
    pub(super) fn spec(&self, ports: &[Written]) -> Result<Option<InputSpec>, String> {
        let Some(order) = &self.order else {
            return match ports.iter().find(|(_, input)| input.is_some()) {
                Some((title, _)) => Err(format!(
                    "port {title}: input is for nodes with an order of ports: write [input] order too, {ORDERS}"
                )),
                None => Ok(None),
            };
        };
        check(order, ports)?;
        let there = || ports.iter().filter(|(title, _)| !title.is_empty());
        let weight = |(_, input): &Written| input.unwrap_or_default().weight;
        if let Some(port) = there().find(|port| !(1..=WEIGHT_MAX).contains(&weight(port))) {
            return Err(format!("port {}: input: weight = {}: from 1 to {WEIGHT_MAX}", port.0, weight(port)));
        }
        // A turn is measured by the least weight, and nobody is at a vacant place.
        let least = there().map(weight).min().unwrap_or(Share::default().weight);
        let share = |(title, input): &Written| match title.is_empty() {
            true => Share { weight: least, ..Share::default() },
            false => input.unwrap_or_default().share(),
        };
        Ok(Some(InputSpec { order: order.clone(), shares: ports.iter().map(share).collect() }))
    }
}

/// Refuses what is no order of these ports.
fn check(order: &OrderKind, ports: &[Written]) -> Result<(), String> {
    let name = match order {
        OrderKind::Priority | OrderKind::Wfq | OrderKind::Drr => return Ok(()),
        OrderKind::Edf => {
            return Err(format!(
                "[input] order = \"edf\": a deadline is of packets whose class is known, and a port has none: {ORDERS}"
            ));
        }
        OrderKind::Extension(name) => name.text(),
    };
    if ports.len() > KNOWN_MAX {
        return Err(format!("[input] order = \"{name}\": an extension's order is for {KNOWN_MAX} ports at most"));
    }
    match ports.iter().find(|(_, input)| input.is_some()) {
        Some((title, _)) => Err(format!(
            "port {title}: input: {name} knows ports by their places in the file, and parts from its arguments alone"
        )),
        None => Ok(()),
    }
}

impl PortInput {
    fn share(self) -> Share {
        Share { weight: self.weight, priority: self.priority, ..Share::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::{NodeFile, PortFile};

    fn read(input: &str, ports: &[&str]) -> Result<Option<InputSpec>, String> {
        let port = |more: &&str| format!("[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n{more}\n");
        let text = format!("name = \"n\"\n{input}\n{}", ports.iter().map(port).collect::<String>());
        let file = NodeFile::parse(&text).map_err(|why| why.to_string())?;
        file.input().map_err(|why| why.to_string())
    }

    #[test]
    fn ports_have_the_parts_that_are_written() {
        assert_eq!(read("", &["", ""]), Ok(None));
        let ports = ["input = { weight = 300 }", "", "input = { priority = 7 }"];
        for order in ["priority", "wfq", "drr"] {
            let spec = read(&format!("[input]\norder = \"{order}\""), &ports).unwrap().unwrap();
            let parts: Vec<_> = spec.shares.iter().map(|share| (share.weight, share.priority)).collect();
            assert_eq!(parts, [(300, 0), (100, 0), (100, 7)]);
            assert_eq!((spec.order.name(), spec.is_by_priority()), (order, order == "priority"));
        }
    }

    #[test]
    fn an_order_of_an_extension_is_for_so_many_ports() {
        let order = InputFile { order: Some("shares/Shares(3, 1)".parse().unwrap()) };
        let ports = |count: usize| vec![("p".to_owned(), None); count];
        assert_eq!(order.spec(&ports(KNOWN_MAX)).unwrap().unwrap().extension(), Some("shares"));
        let why = order.spec(&ports(KNOWN_MAX + 1)).unwrap_err();
        assert!(why.contains("an extension's order is for 64 ports at most"), "{why}");
    }

    #[test]
    fn a_vacant_place_makes_no_turn_longer() {
        let ports = "[[port]]\nudp = \"127.0.0.1:1\"\naddress = [\"10.0.0.1/24\"]\ninput = { weight = 300 }\n";
        let mut file = NodeFile::parse(&format!("name = \"n\"\n[input]\norder = \"drr\"\n{ports}")).unwrap();
        file.ports.insert(0, PortFile::default());
        let weights: Vec<_> = file.input().unwrap().unwrap().shares.iter().map(|share| share.weight).collect();
        assert_eq!(weights, [300, 300]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let wfq = "[input]\norder = \"wfq\"";
        for (input, port, said) in [
            ("[input]\norder = \"edf\"", "", "[input] order = \"edf\": a deadline is of packets"),
            (
                "[input]\norder = \"shares/Shares(3, 1)\"",
                "",
                "Shares(3, 1)\": there is no [[extension]] shares in this",
            ),
            (
                "[input]\norder = \"shares/Shares(3, 1)\"",
                "input = { weight = 3 }",
                "port udp-0: input: shares/Shares(3, 1) knows ports by their places in the file",
            ),
            ("[input]\norder = \"wrr\"", "", "'wrr' is no order: priority, wfq, drr"),
            ("[input]\nordr = \"wfq\"", "", "unknown field `ordr`"),
            (
                "",
                "input = { weight = 3 }",
                "port udp-0: input is for nodes with an order of ports: write [input] order",
            ),
            (wfq, "input = { weight = 0 }", "port udp-0: input: weight = 0: from 1 to 10000"),
            (wfq, "input = { weight = 10_001 }", "port udp-0: input: weight = 10001"),
            (wfq, "input = { priority = 256 }", "256"),
            (wfq, "input = { wieght = 1 }", "unknown field `wieght`"),
        ] {
            let why = read(input, &[port]).unwrap_err();
            assert!(why.contains(said), "{input} {port}: {why}");
        }
    }
}
