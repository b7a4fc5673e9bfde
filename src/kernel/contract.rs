//! That `bpf/contract.h` and `bpf/sockets.h` say the same as the Rust that reads and writes their maps.

use super::layout::{
    ALLOWANCES, CHILDREN, CODES, CUT_LAYOUT, CUTS, FLOW_PLACES, FLOWS, LAYOUT, LINES, LINK_BITS, LINKS, PORTS, PROBES,
    PROGRAMS, SOCKETS,
};
use crate::abi::CONTEXT;

const HEADERS: [&str; 4] = [
    include_str!("../../bpf/contract.h"),
    include_str!("../../bpf/sockets.h"),
    include_str!("../../bpf/channel.h"),
    include_str!("../../bpf/cut.h"),
];

/// Structures that are not the values of a map in `LAYOUT`: octets of each. State is in a map of its code's, and its size is
/// checked when that is made.
const OTHERS: [(&str, usize); 6] =
    [("pattern", 48), ("plain", 48), ("prefix", 20), ("set", 328), ("passed_up", 104), ("context", CONTEXT)];

/// What the headers assert of the sizes of structures.
fn sizes() -> Vec<(&'static str, usize)> {
    let mut found = Vec::new();
    for part in HEADERS.iter().flat_map(|header| header.split("sizeof(struct ").skip(1)) {
        let Some((name, rest)) = part.split_once(") == ") else { continue };
        if let Ok(size) = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse() {
            found.push((name, size));
        }
    }
    found
}

/// The number that a header gives a name.
fn number(name: &str) -> usize {
    let at = |header: &&'static str| header.find(&format!("{name} = ")).map(|at| &header[at + name.len() + 3..]);
    let text = HEADERS.iter().find_map(at).unwrap_or_else(|| panic!("no {name}"));
    text.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn structures_have_the_size_of_their_maps() {
    let sizes = sizes();
    let values = LAYOUT.iter().chain(&CUT_LAYOUT).filter_map(|(map, shape)| {
        let stem = map.strip_suffix("_map").unwrap();
        let name = [stem, stem.strip_suffix('s').unwrap_or(stem)].into_iter();
        let found = name.filter_map(|name| sizes.iter().find(|(known, _)| *known == name)).next()?;
        Some((*map, found.0, found.1, shape.value))
    });
    let values: Vec<_> = values.collect();
    for (map, name, size, value) in &values {
        assert_eq!(size, value, "{map} has values of struct {name}");
    }
    let others = OTHERS.iter().map(|(name, _)| *name);
    let mut all: Vec<&str> = values.iter().map(|(_, name, ..)| *name).chain(others).collect();
    let mut asserted: Vec<&str> = sizes.iter().map(|(name, _)| *name).collect();
    all.sort_unstable();
    // Budgets and accounts are of codes and of domains.
    all.dedup();
    asserted.sort_unstable();
    assert_eq!(asserted, all, "each structure is of one map, or among the others");
    for (name, size) in OTHERS {
        assert!(sizes.contains(&(name, size)), "struct {name}");
    }
}

#[test]
fn maps_have_as_many_entries_and_programs_stand_where_both_say() {
    let of = |map: &str| LAYOUT.iter().find(|(name, _)| *name == map).unwrap().1;
    for (name, map) in
        [("CODES", "codes_map"), ("PORTS", "ports_map"), ("NEAR", "near_map"), ("NEXT_HOPS", "next_hops_map")]
    {
        assert_eq!(number(name), of(map).entries as usize, "{map}");
    }
    for (name, value) in [
        ("CODES", CODES),
        ("PROBES", PROBES),
        ("PROGRAMS", PROGRAMS),
        ("PORTS", PORTS),
        ("SOCKETS", SOCKETS),
        ("FLOWS", FLOWS),
        ("CUTS", CUTS),
        ("ALLOWANCES", ALLOWANCES),
        ("FLOW_PLACES", FLOW_PLACES),
        ("CHILDREN", CHILDREN),
        ("LINES", LINES),
        ("LINK_BITS", LINK_BITS),
        ("LINKS", LINKS),
    ] {
        assert_eq!(number(name), value as usize, "{name}");
    }
    assert_eq!(number("PROGRAMS"), of("programs_map").entries as usize);
    assert_eq!(of("routes_map").key, 20);
}
