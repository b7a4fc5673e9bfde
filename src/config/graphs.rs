//! `[[graph]]`: graphs of the node, each with a domain of its own.
//!
//! The text stands in the configuration itself: a running node opens no other files, and what an operator applies is all that it has to be
//! sent.

use super::{ConfigError, NodeFile, wrong};
use crate::graph::locked::LockedFields;
use crate::graph::remote::node_of;
use crate::graph::taught::Classifying;
use crate::node::graphs::{BroughtClasses, GRAPHS_MAX, GraphSpec, PreparedGraph, check_take, may_have_host};
use crate::wire::Addr;

impl NodeFile {
    /// The graphs with their engines, of which extensions bring these classes; or all that is wrong with the first that is wrong.
    pub fn prepared_graphs(&self, classes: &BroughtClasses) -> Result<Vec<PreparedGraph>, ConfigError> {
        if self.graphs.len() > GRAPHS_MAX {
            return wrong(format!(
                "[[graph]]: {} are more than a node holds, which is {GRAPHS_MAX}",
                self.graphs.len()
            ));
        }
        let mut all: Vec<PreparedGraph> = Vec::new();
        for graph in &self.graphs {
            let prepared =
                graph.clone().prepare_with(classes).map_err(|why| ConfigError(format!("[[graph]]: {why}")))?;
            if all.iter().any(|other| other.spec().name == graph.name) {
                return wrong(format!("[[graph]] name: {} stands twice", graph.name));
            }
            let Some(role) = self.roles.iter().find(|role| role.name == graph.role) else {
                return wrong(format!(
                    "[[graph]] {}: there is no role {}: write a [[role]] of this name with channels and bandwidth",
                    graph.name, graph.role
                ));
            };
            if graph.take.len() > usize::from(role.grants.channels) {
                return wrong(format!(
                    "[[graph]] {}: it takes {} kinds of packets, and the role {} has {} channels: one is needed for each",
                    graph.name,
                    graph.take.len(),
                    graph.role,
                    role.grants.channels
                ));
            }
            if let Some((node, _)) = prepared.away().iter().find(|(place, _)| node_of(place).0.parse::<Addr>().is_err())
            {
                return wrong(format!(
                    "[[graph]] {}: a part of it is to be at {node}, which is no address: write that of a neighbour, as @remote(10.0.0.2)",
                    graph.name
                ));
            }
            may_have_host(prepared.hosts(), role)
                .map_err(|why| ConfigError(format!("[[graph]] {}: {why}", graph.name)))?;
            self.check_devices(&prepared)?;
            self.check_taken(&prepared)?;
            all.push(prepared);
        }
        self.check_edits(classes)?;
        Ok(all)
    }

    /// A line for each graph: whose it is, of what, and what it takes.
    pub fn told_graphs(&self) -> Vec<String> {
        let graphs = self.prepared_graphs(&self.offered_classes().unwrap_or_default()).unwrap_or_default();
        let line = |graph: &PreparedGraph| {
            let GraphSpec { name, role, take, place, .. } = graph.spec();
            let takes = if take.is_empty() { "nothing".to_owned() } else { take.join(", ") };
            let away: Vec<_> = graph.away().iter().map(|(place, _)| node_of(place).0).collect();
            let parts = if away.is_empty() { String::new() } else { format!(", parts at {}", away.join(", ")) };
            format!("graph {name} in the role {role}: {} engines{parts}, place {place}, takes {takes}", graph.engines())
        };
        graphs.iter().map(line).collect()
    }

    /// Fields that roles lock are of protocols that are always taught: those of extensions may go.
    pub(super) fn check_locked(&self, classifying: &Classifying) -> Result<(), ConfigError> {
        for role in self.roles.iter().filter(|role| !role.graphs.locked.is_empty()) {
            LockedFields::new(&role.graphs.locked, &classifying.protocols)
                .map_err(|why| ConfigError(format!("[[role]] {}: graphs.locked: {why}", role.name)))?;
        }
        Ok(())
    }

    /// What it takes is something that a channel could be of.
    fn check_taken(&self, graph: &PreparedGraph) -> Result<(), ConfigError> {
        let titles = self.titles();
        let ports = self.ports.iter().zip(&titles).map(|(port, title)| (title.as_str(), port.packet.is_some()));
        let (ports, spec): (Vec<_>, _) = (ports.collect(), graph.spec());
        // Extensions teach more than the file itself does.
        let classifying = self.classify.classifying().ok().filter(|_| self.extensions.is_empty());
        spec.take.iter().try_for_each(|text| {
            let why = |why: String| ConfigError(format!("[[graph]] {}: take: '{text}': {why}", spec.name));
            check_take(text, &ports, classifying.as_ref()).map_err(why)
        })
    }

    /// A graph's devices are ports with a link of their own.
    pub(super) fn check_devices(&self, graph: &PreparedGraph) -> Result<(), ConfigError> {
        let titles = self.titles();
        let links = self.ports.iter().zip(&titles).filter(|(port, _)| port.packet.is_some());
        let links: Vec<&str> = links.map(|(_, title)| title.as_str()).collect();
        match graph.devices().find(|device| !links.contains(device)) {
            Some(device) => wrong(format!(
                "[[graph]] {}: no [[port]] with packet = … is called {device}; there are: {}",
                graph.spec().name,
                if links.is_empty() { "none".to_owned() } else { links.join(", ") }
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(graphs: &str) -> Option<String> {
        let head = "name = \"a\"\n[[port]]\npacket = \"eth0\"\n[[role]]\nname = \"ee\"\ngrants = { channels = 1 }\n";
        NodeFile::parse(&format!("{head}{graphs}")).err().map(|error| error.to_string())
    }

    #[test]
    fn fields_that_are_locked_are_taught() {
        let locked = |field: &str| refused(&format!("[[role]]\nname = \"l\"\ngraphs = {{ locked = [\"{field}\"] }}\n"));
        assert_eq!(locked("udp.dport"), None);
        let why = locked("udp.dprot").unwrap_or_default();
        assert!(why.contains("[[role]] l: graphs.locked: udp has no field 'dprot'; do you mean 'dport'?"), "{why}");
        let taught =
            "[classify]\nprotocols = \"(protocol own (follows udp 99) (hdr_len 4) (field word offset 0 length 4))\"\n";
        assert_eq!(refused(&format!("{taught}[[role]]\nname = \"l\"\ngraphs = {{ locked = [\"own.word\"] }}\n")), None);
    }

    #[test]
    fn graphs_are_told_with_what_they_take() {
        let head = "name = \"a\"\n[[port]]\npacket = \"eth0\"\n[[role]]\nname = \"ee\"\ngrants = { channels = 1 }\n";
        let graph = "[[graph]]\nname = \"g\"\nrole = \"ee\"\nplace = \"user\"\ntake = [\"eth0/ip *\"]\n\
                     text = \"FromDevice(eth0) -> Counter -> Discard @remote(10.0.0.2);\"\n";
        assert_eq!(
            NodeFile::parse(&format!("{head}{graph}")).unwrap().told_graphs(),
            ["graph g in the role ee: 3 engines, parts at 10.0.0.2, place user, takes eth0/ip *"]
        );
    }

    #[test]
    fn graphs_are_checked_when_the_file_is_read() {
        let graph = |name: &str, role: &str, text: &str| {
            format!(
                "[[graph]]\nname = \"{name}\"\nrole = \"{role}\"\ntake = [\"eth0/ip *\"]\ntext = '''\n{text}\n'''\n"
            )
        };
        let good = graph("g", "ee", "FromDevice(eth0) -> Discard;");
        assert_eq!(refused(&good), None);
        assert_eq!(refused(&graph("g", "ee", "FromDevice(eth0) -> Discard @remote(10.0.0.2);")), None);
        for (graphs, why) in [
            (format!("{good}{good}"), "[[graph]] name: g stands twice"),
            (graph("g", "no", "FromDevice(eth0) -> Discard;"), "[[graph]] g: there is no role no: write a [[role]]"),
            (graph("g", "ee", "FromDevice(eth0) -> Discrd;"), "g:1:"),
            (
                graph("g", "ee", "FromDevice(eth0) -> Discard @remote(b);"),
                "[[graph]] g: a part of it is to be at b, which is no address",
            ),
            (
                graph("g", "ee", "FromDevice(eth0) -> Queue -> ToDevice(eth1);"),
                "[[graph]] g: no [[port]] with packet = … is called eth1; there are: eth0",
            ),
            (
                graph("g", "ee", "FromHost(eth0, 10.0.0.1/24) -> Discard;"),
                "[[graph]] g: FromHost and ToHost of eth0 are not for the role ee: [role.graphs] host",
            ),
            (
                good.replace("eth0/ip *", "eth0/ip/upd *:5"),
                "[[graph]] g: take: 'eth0/ip/upd *:5': 'upd' is no protocol of a channel",
            ),
            (good.replace("eth0/ip *", "eth0/ip/udp 5"), "[[graph]] g: take: 'eth0/ip/udp 5': no address of a channel"),
            (graph("g h", "ee", "FromDevice(eth0) -> Discard;"), "a graph's name is 1 to 32 letters"),
            (good.replace("take", "takes"), "unknown field `takes`"),
            (
                good.replace("[\"eth0/ip *\"]", "[\"eth0/ip *\", \"eth0/arp\"]"),
                "[[graph]] g: it takes 2 kinds of packets, and the role ee has 1 channels",
            ),
        ] {
            let said = refused(&graphs).unwrap_or_default();
            assert!(said.contains(why), "{said}, not {why}");
        }
    }
}
