//! Import of interface files of the old PLAN daemon, as a topology.
//!
//! Such a file describes one node: the number of its interfaces, then for each a line with name, kind of link (`ip` or `ethernet`), own
//! address, and the addresses of the neighbours. An address is a host, or host and port; several nodes of one host
//! differ by their ports. A hosts file gives hosts names: an address and its names in a line. What comes out has the same
//! nodes, links and segments, with addresses of its own, as a lab's network cannot have two nodes with one, and a hosts
//! file by which the old names and addresses mean the new ones. It does no I/O.
//!
//! An `ethernet` interface is on a segment with its neighbours, and theirs: three or more are joined by a switch. Those
//! that name no neighbour, as the old daemon found them itself, are on one segment together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Interface files of one import.
const FILES_MAX: usize = 1024;

/// Interfaces of one node.
const INTERFACES_MAX: usize = 255;

/// Links that the addresses suffice for.
const LINKS_MAX: usize = 65_536;

/// Interfaces on one segment: its addresses have 8 bits of their own.
const MEMBERS_MAX: usize = 254;

/// The port of an address without one: that of the first daemon on a host.
const PORT: u16 = 3324;

/// An interface file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The node's name.
    pub node: String,
    /// The file's text.
    pub text: String,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The node whose file it is; empty for the hosts file.
    pub node: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong, and what should stand there.
    pub why: String,
}

impl core::fmt::Display for Wrong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let file = if self.node.is_empty() { "the hosts file" } else { &self.node };
        write!(f, "{file}, line {}: {}", self.line, self.why)
    }
}

impl core::error::Error for Wrong {}

/// An interface, as its line says.
struct Interface {
    line: usize,
    ethernet: bool,
    own: String,
    neighbours: Vec<String>,
}

/// What comes out, as texts of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The topology.
    pub topology: String,
    /// The hosts of its network: by the nodes' names, and by all names and addresses that the files have for them, with ports where
    /// several nodes were one host.
    pub hosts: String,
}

/// The topology with these nodes, and its hosts.
pub fn import(name: &str, sources: &[Source], hosts: &str) -> Result<Imported, Wrong> {
    let wrong = |node: &str, line, why: String| Wrong { node: node.into(), line, why };
    let hosts = read_hosts(hosts)?;
    if sources.is_empty() || sources.len() > FILES_MAX {
        return Err(wrong("", 0, format!("{} interface files: 1 to {FILES_MAX} are possible", sources.len())));
    }
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    let mut nodes = Vec::new();
    for (at, source) in sources.iter().enumerate() {
        let interfaces = read_interfaces(source, &hosts)?;
        for interface in &interfaces {
            if owners.insert(interface.own.clone(), at).is_some() {
                let why = format!("the address {} is that of another interface too", interface.own);
                return Err(wrong(&source.node, interface.line, why));
            }
        }
        nodes.push(interfaces);
    }
    let segments = segments(sources, &nodes, &owners)?;
    if segments.len() > LINKS_MAX {
        return Err(wrong("", 0, format!("{} links: at most {LINKS_MAX}", segments.len())));
    }
    if let Some(segment) = segments.iter().find(|segment| segment.len() > MEMBERS_MAX) {
        return Err(wrong("", 0, format!("{} interfaces on one segment: at most {MEMBERS_MAX}", segment.len())));
    }
    let topology = write(name, sources, &segments);
    Ok(Imported { topology, hosts: write_hosts(sources, &nodes, &segments, &hosts) })
}

/// Interfaces that hear each other: each its node and its address, in order.
type Segment = BTreeSet<(usize, String)>;

/// All segments, in the order of their first members.
fn segments(
    sources: &[Source],
    nodes: &[Vec<Interface>],
    owners: &BTreeMap<String, usize>,
) -> Result<BTreeSet<Vec<(usize, String)>>, Wrong> {
    let mut all: Vec<Segment> = Vec::new();
    let mut join = |members: Segment| {
        let (apart, mut together): (Vec<_>, Vec<_>) = all.drain(..).partition(|known| known.is_disjoint(&members));
        together.push(members);
        all = apart;
        all.push(together.into_iter().flatten().collect());
    };
    let mut alone = Segment::new();
    for (at, (interfaces, source)) in nodes.iter().zip(sources).enumerate() {
        for Interface { line, ethernet, own, neighbours } in interfaces {
            let wrong = |why| Wrong { node: source.node.clone(), line: *line, why };
            if neighbours.is_empty() {
                alone.insert((at, own.clone()));
            }
            for neighbour in neighbours {
                let Some(other) = owners.get(neighbour) else {
                    let why = format!("no file has an interface with the address of its neighbour, {neighbour}");
                    return Err(wrong(why));
                };
                let back = nodes[*other].iter().find(|interface| interface.own == *neighbour);
                let back = back.is_some_and(|back| back.neighbours.contains(own) || *ethernet && back.ethernet);
                if *other == at || !back {
                    return Err(wrong(format!("{neighbour} does not have this interface, {own}, as a neighbour")));
                }
                let ends = [(at, own.clone()), (*other, neighbour.clone())];
                if *ethernet {
                    join(ends.into_iter().collect());
                }
            }
        }
    }
    join(alone);
    let mut found: BTreeSet<Vec<_>> =
        all.into_iter().filter(|all| all.len() > 1).map(|all| all.into_iter().collect()).collect();
    // An ip interface has a link of its own to each neighbour.
    for (at, interface) in nodes.iter().enumerate().flat_map(|(at, all)| all.iter().map(move |it| (at, it))) {
        for neighbour in interface.neighbours.iter().filter(|_| !interface.ethernet) {
            let Some(other) = owners.get(neighbour) else { continue };
            let mut ends = vec![(at, interface.own.clone()), (*other, neighbour.clone())];
            ends.sort();
            found.insert(ends);
        }
    }
    Ok(found)
}

/// The address of a member of a segment, both from 0.
fn address_on(number: usize, member: usize) -> String {
    let [.., high, low] = (number as u32).to_be_bytes();
    format!("10.{high}.{low}.{}", member + 1)
}

/// A line for each interface with a link.
fn write_hosts(
    sources: &[Source],
    nodes: &[Vec<Interface>],
    segments: &BTreeSet<Vec<(usize, String)>>,
    hosts: &BTreeMap<String, String>,
) -> String {
    let mut addresses = BTreeMap::new();
    for (number, segment) in segments.iter().enumerate() {
        for (member, (_, own)) in segment.iter().enumerate() {
            addresses.entry(own.as_str()).or_insert_with(|| address_on(number, member));
        }
    }
    // How many interfaces a host had: one alone needs no port to be found.
    let host = |own: &str| own.rsplit_once(':').map_or(own, |(host, _)| host).to_owned();
    let mut shared: BTreeMap<String, usize> = BTreeMap::new();
    addresses.keys().for_each(|own| *shared.entry(host(own)).or_default() += 1);
    let mut text = String::new();
    for (source, interfaces) in sources.iter().zip(nodes) {
        let linked = interfaces.iter().filter_map(|it| addresses.get(it.own.as_str()).map(|address| (it, address)));
        for (at, (Interface { own, .. }, address)) in linked.enumerate() {
            let old = host(own);
            let port = &own[old.len()..];
            let _ = write!(text, "{address}");
            if at == 0 {
                let _ = write!(text, " {}", source.node);
            }
            let names = hosts.iter().filter(|(_, addr)| **addr == old).map(|(name, _)| name);
            for name in names.chain([&old]) {
                let _ = write!(text, " {name}{port}");
                if shared[&old] == 1 {
                    let _ = write!(text, " {name}");
                }
            }
            text.push('\n');
        }
    }
    text
}

fn write(name: &str, sources: &[Source], segments: &BTreeSet<Vec<(usize, String)>>) -> String {
    let mut text = format!("name = \"{name}\"\n\n");
    for source in sources {
        let _ = writeln!(text, "nodes.{}.active = true", source.node);
    }
    let is_node = |name: &str| sources.iter().any(|source| source.node == name);
    for (number, segment) in segments.iter().enumerate() {
        let [.., high, low] = (number as u32).to_be_bytes();
        let prefix = format!("[\"10.{high}.{low}.0/24\"]");
        let link = |a: &str, b: &str| format!("\n[[links]]\nends = [\"{a}\", \"{b}\"]\n");
        let name = |member: &(usize, String)| sources[member.0].node.as_str();
        if let [a, b] = segment.as_slice() {
            let _ = writeln!(text, "{}prefixes = {prefix}", link(name(a), name(b)));
            continue;
        }
        let mut switch = format!("segment{number}");
        while is_node(&switch) {
            switch.push('x');
        }
        let _ = writeln!(text, "\n[nodes.{switch}]\nkind = \"switch\"\nprefixes = {prefix}");
        segment.iter().for_each(|member| text += &link(name(member), &switch));
    }
    text
}

/// Lines without what is behind a `#`, and without empty ones, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, words(line))).filter(|(_, words)| !words.is_empty())
}

fn words(line: &str) -> Vec<&str> {
    line.split('#').next().unwrap_or_default().split_whitespace().collect()
}

fn read_hosts(text: &str) -> Result<BTreeMap<String, String>, Wrong> {
    let mut hosts = BTreeMap::new();
    for (line, words) in lines(text) {
        let [addr, names @ ..] = words.as_slice() else { continue };
        if addr.parse::<std::net::IpAddr>().is_err() || names.is_empty() {
            let why = "expected an address and names, such as 158.130.6.1 zeus".into();
            return Err(Wrong { node: String::new(), line, why });
        }
        hosts.extend(names.iter().map(|name| ((*name).to_owned(), (*addr).to_owned())));
    }
    Ok(hosts)
}

/// An address in its one form: host, or what its name stands for, and port.
fn address(text: &str, hosts: &BTreeMap<String, String>) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()?),
        None => (text, PORT),
    };
    let host = hosts.get(host).map_or(host, String::as_str);
    (!host.is_empty()).then(|| format!("{host}:{port}"))
}

fn read_interfaces(source: &Source, hosts: &BTreeMap<String, String>) -> Result<Vec<Interface>, Wrong> {
    let wrong = |line, why: &str| Wrong { node: source.node.clone(), line, why: why.into() };
    let mut lines = lines(&source.text);
    let number = match lines.next() {
        Some((line, words)) => match words.as_slice() {
            [number] => number.parse::<usize>().ok().filter(|number| *number <= INTERFACES_MAX),
            _ => None,
        }
        .ok_or_else(|| wrong(line, "expected the number of interfaces alone, at most 255"))?,
        None => return Err(wrong(1, "expected the number of interfaces")),
    };
    let mut interfaces = Vec::new();
    let mut last = 1;
    for (line, words) in lines {
        last = line;
        let [_, kind @ ("ip" | "ethernet"), own, neighbours @ ..] = words.as_slice() else {
            return Err(wrong(line, "expected name, 'ip' or 'ethernet', own address and those of neighbours"));
        };
        let all: Option<Vec<String>> = [own].into_iter().chain(neighbours).map(|text| address(text, hosts)).collect();
        let Some(mut all) = all else { return Err(wrong(line, "expected addresses such as zeus or zeus:3340")) };
        let own = all.remove(0);
        if all.is_empty() && *kind == "ip" {
            return Err(wrong(line, "an ip interface has neighbours"));
        }
        interfaces.push(Interface { line, ethernet: *kind == "ethernet", own, neighbours: all });
    }
    if interfaces.len() != number {
        let why = format!("{number} interfaces were announced, there are {}", interfaces.len());
        return Err(wrong(last, &why));
    }
    Ok(interfaces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Topology;

    fn source(node: &str, text: &str) -> Source {
        Source { node: node.into(), text: text.into() }
    }

    #[test]
    fn the_files_of_a_line_become_its_topology() {
        let sources = [
            source("a", "1\nip0 ip localhost:3340 localhost:3341\n"),
            source("r", "2 # the router\nip0 ip 127.0.0.1:3341 localhost:3340\n\nip1 ip zeus hera\n"),
            source("b", "1\neth0 ethernet hera zeus:3324\n"),
        ];
        let hosts = "127.0.0.1 localhost\n10.1.1.1 zeus\n10.1.1.2 hera\n";
        let Imported { topology, hosts } = import("old", &sources, hosts).unwrap();
        let topology = Topology::parse(&topology, "old.toml").unwrap();
        assert_eq!((topology.nodes.len(), topology.links()), (3, 2));
        let router = topology.node("r").unwrap();
        let peers: Vec<&str> = router.interfaces.iter().map(|interface| interface.peer.0.as_str()).collect();
        assert_eq!(peers, ["a", "b"]);
        assert!(topology.nodes.iter().all(|node| node.active));
        let expected = "10.0.0.1 a localhost:3340 127.0.0.1:3340\n10.0.0.2 r localhost:3341 127.0.0.1:3341\n\
                        10.0.1.1 zeus:3324 zeus 10.1.1.1:3324 10.1.1.1\n10.0.1.2 b hera:3324 hera 10.1.1.2:3324 10.1.1.2\n";
        assert_eq!(hosts, expected);
        let has = |node: &str, address: &str| {
            let all = &topology.node(node).unwrap().interfaces;
            all.iter()
                .flat_map(|interface| &interface.addresses)
                .any(|it| it.to_string().starts_with(&format!("{address}/")))
        };
        assert!(has("a", "10.0.0.1") && has("r", "10.0.0.2") && has("r", "10.0.1.1") && has("b", "10.0.1.2"));
    }

    #[test]
    fn an_ethernet_segment_is_a_segment() {
        // Four on one wire, one of which names all; two more beside it that name nobody are another.
        let sources = [
            source("a", "2\neth0 ethernet a b c d\nip0 ip a:1 e:1\n"),
            source("b", "1\neth0 ethernet b a\n"),
            source("c", "1\neth0 ethernet c a\n"),
            source("d", "1\neth0 ethernet d a b c\n"),
            source("e", "2\nip0 ip e:1 a:1\neth0 ethernet e\n"),
            source("segment1", "1\neth0 ethernet g\n"),
        ];
        let Imported { topology: text, hosts } = import("old", &sources, "").unwrap();
        let topology = Topology::parse(&text, "old.toml").unwrap_or_else(|why| panic!("{why}\n{text}"));
        let switch = topology.nodes.iter().find(|node| node.kind == crate::lab::Kind::Switch).unwrap();
        assert_eq!(switch.interfaces.len(), 4, "{text}");
        let on = |name: &str| {
            let all = topology.node(name).unwrap().interfaces.iter();
            all.map(|interface| interface.segment).collect::<Vec<_>>()
        };
        assert!(["b", "c", "d"].iter().all(|name| on(name) == on("b")) && on("a").contains(&on("b")[0]), "{text}");
        assert_eq!(topology.nodes.len(), 7, "two alone on a wire need no switch: {text}");
        // Each address of the hosts file is that of its node's interface.
        for line in hosts.lines() {
            let (address, name) = line.split_once(' ').unwrap();
            let name = name.split([' ', ':']).next().unwrap().replace('g', "segment1");
            let name = if topology.node(&name).is_some() { name } else { continue };
            let has = topology.node(&name).unwrap().all_addresses().any(|own| own.to_string() == address);
            assert!(has, "{line}\n{text}\n{hosts}");
        }
        assert_eq!(hosts.lines().count(), 8, "{hosts}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let one = |text: &str| import("x", &[source("a", text)], "").unwrap_err();
        let cases = [
            ("", 1, "number of interfaces"),
            ("x\n", 1, "number of interfaces"),
            ("1\n", 1, "announced"),
            ("1\n\nip0 tcp a b\n", 3, "'ip' or 'ethernet'"),
            ("1\nip0 ip a:x b\n", 2, "addresses"),
            ("1\nip0 ip a\n", 2, "has neighbours"),
            ("1\nip0 ip a b\n", 2, "no file has"),
            ("1\nip0 ip a a\n", 2, "does not have"),
            ("2\nip0 ip a b\nip1 ip a:3324 c\n", 3, "another interface"),
        ];
        for (text, line, why) in cases {
            let wrong = one(text);
            assert!(wrong.line == line && wrong.why.contains(why), "{text:?}: {wrong}");
        }
        let both = [source("a", "1\nip0 ip a b"), source("b", "1\nip0 ip b c")];
        assert!(import("x", &both, "").unwrap_err().why.contains("does not have this interface"));
        assert!(import("x", &both, "zeus 10.0.0.1").unwrap_err().to_string().starts_with("the hosts file, line 1"));
    }
}
