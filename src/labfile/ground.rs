//! Nodes and links that a file does not list: `[topology]` with a shape or a row of names, and `[line]` for what links are like.
//!
//! Example: `[topology] shape = "line" nodes = 3` stands for three active nodes n0, n1, n2 and two links. They have the same
//! addresses in every world. Node i, from 0, has 10.0.0.0 + i + 1, or fd00:: + i + 1, or both, as `family` says. Link k has the
//! subnets 172.16.0.0 + 4k/30 and fd01:0:k::/64, where its first end is number 1 and its second number 2.

use super::Shape;
use super::file::{End, File, LinkEntry, NodesOf, ShapeName, TopologyEntry};
use super::problem::{Result, problem};
use super::run::Family;
use crate::labfile::Cidr;
use crate::wire::{Addr, Prefix};
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use toml::Spanned;

/// Nodes that a lab may have.
pub(super) const NODES_MAX: usize = 1024;

/// How long frames take on links of `[topology]` that say nothing, in milliseconds.
pub(crate) const DELAY_MS: f64 = 1.0;

/// What `[topology]` stands for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ground {
    /// Nodes by number, with their links.
    Shape(Shape),
    /// Nodes by name, whose links the file lists.
    Names(Vec<String>),
}

/// The IPv4 address of a node of `[topology]`.
pub(crate) fn v4(node: usize) -> Addr {
    let [_, high, middle, low] = (node as u32 + 1).to_be_bytes();
    Addr::v4([10, high, middle, low])
}

/// The IPv6 address of a node of `[topology]`.
pub(crate) fn v6(node: usize) -> Addr {
    let mut bytes = [0; 16];
    bytes[0] = 0xfd;
    bytes[12..].copy_from_slice(&(node as u32 + 1).to_be_bytes());
    Addr(bytes)
}

/// The addresses of an end of a link, 1 or 2, in its own subnets.
pub(crate) fn subnets(link: usize, end: u8, family: Family) -> impl Iterator<Item = (Addr, Prefix)> {
    let [_, high, middle, low] = (4 * link as u32 + u32::from(end)).to_be_bytes();
    let four = Addr::v4([172, 16 + high, middle, low]);
    let mut six = [0; 16];
    six[..2].copy_from_slice(&[0xfd, 0x01]);
    six[4..8].copy_from_slice(&(link as u32).to_be_bytes());
    six[15] = end;
    let four = family.has_v4().then(|| (four, Prefix::new(four, 96 + 30)));
    let six = family.has_v6().then(|| (Addr(six), Prefix::new(Addr(six), 64)));
    four.into_iter().chain(six)
}

impl TopologyEntry {
    /// Reads the table that stands there.
    pub(crate) fn ground(&self, at: usize) -> Result<Ground> {
        let need = |what: &str| problem(at, format!("this shape needs {what}"), "docs/lab.md has the keys of each");
        let TopologyEntry { shape, nodes, width, height, fanout, degree } = self;
        let count = if let Some(NodesOf::Count(count)) = nodes { Some(*count) } else { None };
        let ground = match (shape, nodes, count) {
            (None, Some(NodesOf::Names(names)), _) => Ground::Names(names.clone()),
            (None, ..) => {
                return problem(at, "[topology] without a shape", "write shape = \"line\", or nodes = [\"a\", …]");
            }
            (Some(ShapeName::Line), _, Some(nodes)) => Ground::Shape(Shape::Line { nodes }),
            (Some(ShapeName::Ring), _, Some(nodes)) => Ground::Shape(Shape::Ring { nodes }),
            (Some(ShapeName::Grid), None, _) => match (*width, *height) {
                (Some(width), Some(height)) => Ground::Shape(Shape::Grid { width, height }),
                _ => return need("width and height"),
            },
            (Some(ShapeName::Tree), _, Some(nodes)) => match *fanout {
                Some(fanout) => Ground::Shape(Shape::Tree { nodes, fanout }),
                None => return need("a fanout"),
            },
            (Some(ShapeName::Random), _, Some(nodes)) => match *degree {
                Some(degree) => Ground::Shape(Shape::Random { nodes, degree }),
                None => return need("a degree"),
            },
            (Some(ShapeName::Grid), ..) => return need("width and height in the place of nodes"),
            (Some(_), ..) => return need("nodes, a number"),
        };
        if let Ground::Names(names) = &ground
            && let Some(twice) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name))
        {
            return problem(at, format!("'{}' is named twice", twice.1), "leave one of them out");
        }
        let grid = matches!(ground, Ground::Shape(Shape::Grid { .. }));
        for (key, given, fits) in [
            ("width", width.is_some(), grid),
            ("height", height.is_some(), grid),
            ("fanout", fanout.is_some(), matches!(ground, Ground::Shape(Shape::Tree { .. }))),
            ("degree", degree.is_some(), matches!(ground, Ground::Shape(Shape::Random { .. }))),
        ] {
            if given && !fits {
                return problem(at, format!("{key} does not belong to this shape"), "leave it out");
            }
        }
        Ok(ground)
    }
}

/// Gives links what `[line]` says, and a file with `[topology]` its nodes and links.
pub(crate) fn spread(file: &mut File) -> Result<()> {
    let mut line = LinkEntry::default();
    if let Some(given) = &file.line {
        let at = given.span().start;
        line = given.get_ref().clone();
        if line.ends.is_some() || !line.prefixes.is_empty() {
            return problem(at, "[line] with ends or prefixes", "give those to a [[links]] table");
        }
    }
    for link in &mut file.links {
        let at = link.span().start;
        if link.get_ref().ends.is_none() {
            return problem(at, "a link without ends", "write ends = [\"a\", \"b\"]");
        }
        let merged = core::mem::take(link.get_mut()).or(&line);
        *link.get_mut() = merged;
    }
    let Some(entry) = file.topology.clone() else { return listed(file) };
    let at = entry.span().start;
    let names = match entry.get_ref().ground(at)? {
        Ground::Names(names) => names,
        Ground::Shape(shape) => shaped(file, shape, at, &line)?,
    };
    let family = file.family.as_ref().map_or(Family::default(), |family| *family.get_ref());
    if let Some(other) = file.nodes.keys().find(|known| !names.contains(known.get_ref())) {
        let what = format!("'{}' is no node of [topology]", other.get_ref());
        return problem(other.span().start, what, "add it there, or correct the name");
    }
    for (number, name) in names.into_iter().enumerate() {
        let own = [family.has_v4().then(|| v4(number)), family.has_v6().then(|| v6(number))];
        let addresses = own.into_iter().flatten().map(|addr| Cidr { addr, prefix: Prefix::host(addr) }).collect();
        let given = file.nodes.keys().find(|known| *known.get_ref() == name).cloned();
        let key = given.unwrap_or_else(|| Spanned::new(entry.span(), name));
        let at = key.span().start;
        let node = file.nodes.entry(key).or_default();
        if !node.addresses.is_empty() {
            return problem(
                at,
                "[topology] numbers its nodes",
                "leave their addresses out, or list all nodes in [nodes]",
            );
        }
        (node.active, node.addresses) = (node.active.or(Some(true)), addresses);
    }
    for (number, link) in file.links.iter_mut().enumerate() {
        let (at, link) = (link.span().start, link.get_mut());
        let given = link.ends.iter().flatten().any(|end| end.addresses.is_some() || end.mac.is_some());
        if given || !link.prefixes.is_empty() || link.cost.is_some() || link.routed.is_some() {
            let what = "addresses, blocks and costs of links belong to files that list their nodes in [nodes]";
            return problem(at, what, "leave them out, or write [nodes.NAME] tables in the place of [topology]");
        }
        link.delay_ms = link.delay_ms.or(Some(DELAY_MS));
        // Nothing ever waits there.
        link.rate_mbit = link.rate_mbit.filter(|rate| *rate != 0.0);
        let block = |addr: Addr, length| Prefix::new(addr, length);
        link.prefixes = subnets(number, 0, family).map(|(addr, prefix)| block(addr, prefix.length)).collect();
    }
    Ok(())
}

/// What only files with `[topology]` can say is refused in others.
fn listed(file: &File) -> Result<()> {
    let place = |what: &str, at: Option<usize>| match at {
        Some(at) => problem(at, format!("{what} belongs to a file with [topology]"), "leave it out"),
        None => Ok(()),
    };
    place("family", file.family.as_ref().map(|family| family.span().start))?;
    place("ethernet_share", file.ethernet_share.as_ref().map(|share| share.span().start))?;
    let carries = file.links.iter().find(|link| link.get_ref().carries.is_some());
    place("carries", carries.map(|link| link.span().start))
}

/// The nodes of a shape by name; the file gets its links.
fn shaped(file: &mut File, shape: Shape, at: usize, line: &LinkEntry) -> Result<Vec<String>> {
    if let Some(link) = file.links.first() {
        let remedy = "[[link]] goes with a list of nodes: write [topology] nodes = [...], or leave it out";
        return problem(link.span().start, "a link beside those of a shape", remedy);
    }
    let mut chance = Xoshiro256PlusPlus::seed_from_u64(file.seed.unwrap_or_default());
    let (nodes, links) = match shape.links(&mut chance) {
        Ok(found) => found,
        Err(unshapely) => return problem(at, unshapely.to_string(), "change the numbers of [topology]"),
    };
    if nodes > NODES_MAX {
        return problem(at, format!("{nodes} nodes"), format!("give at most {NODES_MAX}, or run it by `anode sim`"));
    }
    let end = |node: usize| End { node: format!("n{node}"), interface: None, mac: None, addresses: None };
    let link = |(a, b)| LinkEntry { ends: Some([end(a), end(b)]), ..line.clone() };
    file.links = links.into_iter().map(|ends| Spanned::new(at..at, link(ends))).collect();
    Ok((0..nodes).map(|node| format!("n{node}")).collect())
}
