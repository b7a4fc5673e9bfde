//! Remarks on a configuration: keys without effect here, or perhaps with an unwanted one. `anode node check` and a
//! start print them.

use super::NodeFile;
use super::environments::EnvironmentFile;
use crate::ee::plan::config::{changes_graphs, is_known};
use crate::graph::remote::node_of;
use crate::node::graphs::{GraphSpec, PreparedGraph, port_of};
use crate::nodeos::channel;
use crate::sys::process::is_root;
use crate::wire::Addr;

impl NodeFile {
    /// A line for each.
    pub fn remarks(&self) -> Vec<String> {
        let mut all = self.unknown_services();
        all.extend(self.idle_graph_services());
        all.extend(self.idle_ingress());
        all.extend(self.merged_shapes());
        all.extend(self.idle_graphs());
        all.extend(self.environments.iter().flat_map(|environment| environment.missing()));
        all.extend(self.objects_without_streams());
        if !self.jail.require.is_empty() {
            let words = "[jail] require is part of [security] require now, which is for the node and its jails: it \
                         still counts, and without what it \
                         names the node does not start";
            all.push(words.into());
        }
        if self.security.user.is_some() && !is_root() {
            all.push("[security] user is without effect: only root can start a node that becomes somebody else".into());
        }
        all
    }

    /// What graphs take, if it looks at more than the kernel has masks for.
    fn merged_shapes(&self) -> Option<String> {
        let (shapes, masks) = channel::shapes(self.graphs.iter().flat_map(|graph| &graph.take).map(String::as_str));
        (shapes > masks).then(|| {
            format!(
                "[[graph]] take: {shapes} shapes of fields are merged into {masks} masks of the kernel, which looks at what \
                 they match once more"
            )
        })
    }

    /// Environments in the node's process whose role promises what they cannot have.
    fn objects_without_streams(&self) -> Vec<String> {
        let objects = self.environments.iter().filter(|environment| !environment.library.is_empty());
        let promised = objects.filter(|environment| {
            let role = self.roles.iter().find(|role| role.name == environment.role);
            role.is_some_and(|role| role.streams.gives_any())
        });
        let words = |environment: &EnvironmentFile| {
            let name = &environment.name;
            format!(
                "[[ee]] {name}: a library has no TCP streams, so the streams of its role are without effect: command or module"
            )
        };
        promised.map(words).collect()
    }

    /// Who sees services about graphs, in a role that changes none.
    fn idle_graph_services(&self) -> Vec<String> {
        let edits = |role: &str| self.roles.iter().any(|known| known.name == role && known.graphs.edits());
        let roles = self.roles.iter().map(|role| (format!("[[role]] {}", role.name), &role.name, &role.services));
        let principals = self.plan.principal.iter();
        let principals = principals.map(|one| (format!("[[plan.principal]] {}", one.name), &one.role, &one.services));
        let idle = |(place, role, names): (String, &String, &Vec<String>)| {
            let name = names.iter().find(|name| changes_graphs(name)).filter(|_| !edits(role))?;
            Some(format!("{place}: {name} is refused, as the role {role} has no [role.graphs] edits_per_second"))
        };
        roles.chain(principals).filter_map(idle).collect()
    }

    /// Graphs that wait, or send nothing, or do not run, as the file is.
    fn idle_graphs(&self) -> Vec<String> {
        let graphs = self.prepared_graphs(&self.offered_classes().unwrap_or_default()).unwrap_or_default();
        let said = |graph: &PreparedGraph| {
            let all = [self.strange_part(graph), self.without_bandwidth(graph), self.without_kernel(graph)];
            let named = |why| format!("[[graph]] {}: {why}", graph.spec().name);
            all.into_iter().flatten().map(named).collect::<Vec<_>>()
        };
        graphs.iter().flat_map(said).collect()
    }

    /// The node of a part, if the file does not have it, or no keys of it.
    fn strange_part(&self, graph: &PreparedGraph) -> Option<String> {
        let neighbours = self.ports.iter().flat_map(|port| &port.neighbours);
        let known: Vec<_> = neighbours.filter(|it| !it.keys.is_empty()).map(|it| it.address).collect();
        let mut nodes = graph.away().iter().map(|(place, _)| node_of(place).0);
        let node = nodes.find(|node| node.parse().is_ok_and(|addr: Addr| !known.contains(&addr)))?;
        Some(format!("no [[port]] has a neighbour {node} with keys, so the graph waits until one is there"))
    }

    /// The first device by which it sends, in a role that may send nothing.
    fn without_bandwidth(&self, graph: &PreparedGraph) -> Option<String> {
        let exit = graph.exits().next()?;
        let name = &graph.spec().role;
        self.roles.iter().find(|role| role.name == *name && role.grants.bandwidth == 0)?;
        Some(format!(
            "it sends by {exit}, and the role {name} may send nothing: all is dropped (bandwidth) without grants = {{ bandwidth = BYTES \
             a second }}"
        ))
    }

    /// Whether it is to run in the kernel, and no port of what it takes has a kernel half.
    fn without_kernel(&self, graph: &PreparedGraph) -> Option<String> {
        let GraphSpec { take, .. } = graph.spec();
        let titles = self.titles();
        let has_half = |take: &String| {
            let ports = || self.ports.iter().zip(&titles).filter(|(port, _)| port.kernel.may());
            ports().any(|(_, title)| port_of(take) == "*" || port_of(take) == title)
        };
        let what = graph.in_kernel().filter(|_| !take.iter().any(has_half))?;
        Some(format!("{what}, and nothing that it takes comes in by a [[port]] with kernel = true: it does not run"))
    }

    /// A misspelt name leaves a service open, or somebody without it.
    fn unknown_services(&self) -> Vec<String> {
        let plan =
            [("[plan] restricted".to_owned(), &self.plan.restricted), ("[plan] open".to_owned(), &self.plan.open)];
        let roles = self.roles.iter().map(|role| (format!("[[role]] {}: services", role.name), &role.services));
        let principals = self.plan.principal.iter();
        let principals = principals.map(|one| (format!("[[plan.principal]] {}: services", one.name), &one.services));
        let lists = plan.into_iter().chain(roles).chain(principals);
        let unknown = |(place, names): (String, &Vec<String>)| {
            let unknown = names.iter().filter(|name| !is_known(name));
            unknown
                .map(move |name| format!("{place}: no service \"{name}\" here now (a loaded one?)"))
                .collect::<Vec<_>>()
        };
        lists.flat_map(unknown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_shapes_than_masks_are_said() {
        let remarks = |lengths: core::ops::RangeInclusive<u8>| {
            let take: Vec<String> = lengths.map(|length| format!("\"eth0/ip 10.0.0.0/{length}\"")).collect();
            let graph = "text = \"FromDevice(eth0) -> Discard;\"\nname = \"g\"\nrole = \"r\"\n";
            let role = "[[role]]\nname = \"r\"\ngrants = { channels = 32, bandwidth = 1000 }\n";
            let text = format!(
                "name = \"n\"\n[[port]]\npacket = \"eth0\"\n{role}[[graph]]\n{graph}take = [{}]\n",
                take.join(", ")
            );
            NodeFile::parse(&text).unwrap().remarks()
        };
        assert_eq!(remarks(9..=28), [""; 0]);
        let said = remarks(9..=32);
        assert!(said.len() == 1 && said[0].contains("24 shapes of fields are merged into 20 masks"), "{said:?}");
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let port = "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n";
        let remarks = |more: &str| NodeFile::parse(&format!("name = \"n\"\n{port}{more}")).unwrap().remarks();
        let graph = |place: &str, grants: &str| {
            format!(
                "[[port]]\npacket = \"eth0\"\n[[role]]\nname = \"g\"\ngrants = {{ {grants}channels = 1 }}\n[[graph]]\nname = \"g\"\n\
                 role = \"g\"\n{place}\ntake = [\"eth0/ip\"]\ntext = \"FromDevice(eth0) -> Queue -> ToDevice(eth0);\"\n"
            )
        };
        let environment = |more: &str| format!("[[ee]]\nname = \"e\"\n{more}");
        for good in [
            "[plan]\nrestricted = [\"memoryUse\", \"getPrincipal\"]\nopen = [\"bandwidthSend\"]\n".into(),
            "[[role]]\nname = \"r\"\nservices = [\"installServices\", \"graphEdit\"]\ngraphs = { edits_per_second = 1 }\n".into(),
            environment("command = [\"/bin/sh\"]\nreads = [\"/etc\"]\n"),
            environment("command = [\"sh\", \"-c\"]\n"),
        ] {
            assert_eq!(remarks(&good), [""; 0], "{good}");
        }
        for (text, said) in [
            ("[plan]\nrestricted = [\"memoryUze\"]\n".into(), "[plan] restricted: no service \"memoryUze\" here now"),
            ("[plan]\nopen = [\"bandwithSend\"]\n".into(), "[plan] open: no service \"bandwithSend\""),
            ("[[role]]\nname = \"r\"\nservices = [\"x\"]\n".into(), "[[role]] r: services: no service \"x\""),
            (
                "[[plan.principal]]\nname = \"p\"\nkey_file = \"k\"\nservices = [\"x\"]\n".into(),
                "[[plan.principal]] p: services: no service \"x\"",
            ),
            (
                "[[role]]\nname = \"r\"\nservices = [\"graphEdit\"]\n".into(),
                "[[role]] r: graphEdit is refused, as the role r has no [role.graphs]",
            ),
            (
                "[[role]]\nname = \"g\"\n[[graph]]\nname = \"far\"\nrole = \"g\"\n\
                 text = \"TimedSource(1) -> Discard @remote(10.0.0.9);\"\n"
                    .into(),
                "[[graph]] far: no [[port]] has a neighbour 10.0.0.9 with keys",
            ),
            (
                graph("place = \"kernel\"", "bandwidth = 1, "),
                "[[graph]] g: place = \"kernel\", and nothing that it takes comes in by",
            ),
            (
                graph("", ""),
                "[[graph]] g: it sends by eth0, and the role g may send nothing: all is dropped (bandwidth)",
            ),
            (environment("command = [\"/usr/bin/forwarder\"]\n"), "there is no program /usr/bin/forwarder"),
            (environment("command = [\"no-such-program\"]\n"), "there is no program no-such-program"),
            (environment("command = [\"/etc/passwd\"]\n"), "there is no program /etc/passwd"),
            (environment("library = [\"/nonex.so\"]\n"), "there is no file /nonex.so"),
            (environment("command = [\"sh\"]\nreads = [\"/nonex\"]\n"), "/nonex is not there"),
            (
                environment(
                    "library = [\"/etc/passwd\"]\nrole = \"r\"\n[[role]]\nname = \"r\"\n[role.streams]\nlisten = [\"*:80\"]\n",
                ),
                "[[ee]] e: a library has no TCP streams",
            ),
        ] {
            let found = remarks(&text);
            assert!(found.len() == 1 && found[0].contains(said), "{text}: {found:?}");
        }
    }

    #[test]
    fn cpus_that_are_not_there_are_refused_by_their_key() {
        let port = "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n";
        let check = |cpu: &str| {
            NodeFile::parse(&format!("name = \"n\"\n{port}[cpu]\naffinity = [{cpu}]\n")).unwrap().check_host(false)
        };
        assert!(check("").is_ok() && check("0").is_ok());
        let why = check("0, 9999").unwrap_err().to_string();
        assert!(why.contains("[cpu] affinity: this host has no CPU 9999"), "{why}");
    }
}
