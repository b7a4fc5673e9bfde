//! `[[graph]]`: graphs of the node, each with a domain of its own.
//!
//! The text stands in the configuration itself: a running node opens no other files, and what an operator applies is all that it has to be
//! sent.

use super::{ConfigError, NodeFile, wrong};
use crate::node::graphs::{BroughtClasses, GRAPHS_MAX, PreparedGraph};

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
            if let Some((node, _)) = prepared.away().first() {
                return wrong(format!(
                    "[[graph]] {}: a part of it is to be at {node}, which has to accept it while both nodes run: leave it out \
                     here, and give the text to anode graph apply",
                    graph.name
                ));
            }
            self.check_devices(&prepared)?;
            all.push(prepared);
        }
        Ok(all)
    }

    /// A graph's devices are ports with a link of their own.
    fn check_devices(&self, graph: &PreparedGraph) -> Result<(), ConfigError> {
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
    fn graphs_are_checked_when_the_file_is_read() {
        let graph = |name: &str, role: &str, text: &str| {
            format!(
                "[[graph]]\nname = \"{name}\"\nrole = \"{role}\"\ntake = [\"eth0/ip *\"]\ntext = '''\n{text}\n'''\n"
            )
        };
        let good = graph("g", "ee", "FromDevice(eth0) -> Discard;");
        assert_eq!(refused(&good), None);
        for (graphs, why) in [
            (format!("{good}{good}"), "[[graph]] name: g stands twice"),
            (graph("g", "no", "FromDevice(eth0) -> Discard;"), "[[graph]] g: there is no role no: write a [[role]]"),
            (graph("g", "ee", "FromDevice(eth0) -> Discrd;"), "g:1:"),
            (graph("g", "ee", "FromDevice(eth0) -> Discard @remote(10.0.0.2);"), "a part of it is to be at 10.0.0.2"),
            (
                graph("g", "ee", "FromDevice(eth0) -> Queue -> ToDevice(eth1);"),
                "[[graph]] g: no [[port]] with packet = … is called eth1; there are: eth0",
            ),
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
