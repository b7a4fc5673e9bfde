//! Addresses that the file leaves to the lab: `addresses = "auto"`.
//!
//! Link number N of the file, from 0, has the blocks 10.(128 + N/256).(N mod 256).0/24 and fd00:a:0:N::/64, N in hexadecimal, unless it has
//! some of its own. Links to one switch have those of the first of them.

use std::collections::BTreeMap;

use super::file::{Automatic, File, Kind};
use super::problem::{Result, problem};
use crate::wire::{Addr, Prefix};
use toml::Spanned;

/// Links that there are blocks for.
const LINKS_MAX: usize = 126 << 8;

/// The blocks of a link.
fn blocks(number: usize) -> [Prefix; 2] {
    let [.., high, low] = (number as u32).to_be_bytes();
    let mut six = [0; 16];
    (six[0], six[3], six[6], six[7]) = (0xfd, 0x0a, high, low);
    [Prefix::new(Addr::v4([10, 128 + high, low, 0]), 96 + 24), Prefix::new(Addr(six), 64)]
}

/// Gives blocks to links and switches that have none, if the file asks for that.
pub(crate) fn fill(file: &mut File) -> Result<()> {
    if file.addresses.as_ref().map(Spanned::get_ref) != Some(&Automatic::Auto) {
        return Ok(());
    }
    let given = given(file);
    let mut switches: BTreeMap<String, usize> = BTreeMap::new();
    for (number, link) in file.links.iter_mut().enumerate() {
        let at = link.span().start;
        let link = link.get_mut();
        let is_switch = |name: &str| {
            file.nodes.iter().any(|(known, entry)| known.get_ref() == name && entry.kind == Some(Kind::Switch))
        };
        let ends = || link.ends.iter().flatten();
        let switch = ends().map(|end| &end.node).find(|name| is_switch(name));
        if !link.prefixes.is_empty() || ends().all(|end| end.addresses.is_some()) {
            continue;
        }
        if number >= LINKS_MAX {
            return problem(at, format!("link {number} has no block of its own"), "give it prefixes");
        }
        let meets = |block: &Prefix, other: &Prefix| block.contains(other.addr) || other.contains(block.addr);
        if let Some(taken) = given.iter().find(|taken| blocks(number).iter().any(|block| meets(block, taken))) {
            let what = format!("{} meets the block that this link would have", taken.addr);
            return problem(at, what, "give the link prefixes, or change that address");
        }
        match switch {
            Some(switch) => drop(switches.entry(switch.clone()).or_insert(number)),
            None => link.prefixes = blocks(number).to_vec(),
        }
    }
    for (name, entry) in &mut file.nodes {
        if let Some(number) = switches.get(name.get_ref()).filter(|_| entry.prefixes.is_empty()) {
            entry.prefixes = blocks(*number).to_vec();
        }
    }
    Ok(())
}

/// The addresses and blocks that the file gives.
fn given(file: &File) -> Vec<Prefix> {
    let nodes = file.nodes.values();
    let own = nodes.clone().flat_map(|node| node.addresses.iter().map(|cidr| cidr.addr));
    let blocks =
        nodes.flat_map(|node| &node.prefixes).chain(file.links.iter().flat_map(|link| &link.get_ref().prefixes));
    let ends = file
        .links
        .iter()
        .flat_map(|link| link.get_ref().ends.iter().flatten())
        .filter_map(|end| end.addresses.as_ref());
    own.chain(ends.flatten().map(|cidr| cidr.addr)).map(Prefix::host).chain(blocks.copied()).collect()
}
