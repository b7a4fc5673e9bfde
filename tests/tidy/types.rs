//! Names of types, from the headers on the wire up to the node. Example of a complaint: `Limits` in `src/trust/limits.rs`
//! and in `src/code/store/mod.rs`.
//!
//! Who reads `Limits` in a function of the node must not have to look which of several is imported. So a type that is
//! seen outside its folder has a name of its own in all folders of which the node is made.

use super::{Complaints, Source, sources};
use std::collections::BTreeMap;

/// The folders of which the node is made (`folders.rs`), but for `sys`: its types are the kernel's and stay with whoever
/// carries out what the node asks for.
const NODE: &[&str] = &[
    "src/contract/",
    "src/abi/",
    "src/clean.rs",
    "src/wire/",
    "src/frame/",
    "src/trust/",
    "src/topology/",
    "src/classify/",
    "src/schedule/",
    "src/core/",
    "src/nodeos/",
    "src/graph/",
    "src/code/",
    "src/ee/",
    "src/node.rs",
    "src/node/",
    "src/driver/",
];

/// Names that may stand for several types: the name, where, and why.
const SHARED: &[(&str, &str, &str)] = &[
    ("Error", "src/", "each module has one enum of its own errors, and says it with the module: `store::Error`"),
    ("Message", "src/wire/", "a file of `wire` is a format: `fetch::Message`, `plan::Message`"),
    ("Opt", "src/wire/", "as above: `ipv4::Opt`"),
    ("Options", "src/wire/", "as above: `ipv4::Options`"),
    ("Packet", "src/wire/", "as above: the view of a format's bytes, `udp::Packet`"),
    ("PacketMut", "src/wire/", "as above: the same to be written, `udp::PacketMut`"),
    ("Repr", "src/wire/", "as above: the format as a value, `udp::Repr`"),
];

/// The types of a file that are public, or the crate's, outside of tests: name and line from 0.
fn types(source: &Source) -> impl Iterator<Item = (&str, usize)> {
    source.live.lines().enumerate().filter_map(|(at, line)| {
        let seen = line.trim_start().strip_prefix("pub")?;
        let seen = seen.strip_prefix("(crate)").unwrap_or(seen).strip_prefix(' ')?;
        let mut words = seen.split_whitespace().filter(|word| *word != "unsafe");
        let kind = words.next().filter(|kind| ["struct", "enum", "trait", "type", "union"].contains(kind));
        let name = kind.and(words.next())?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        Some((name, at))
    })
}

fn complaints(sources: &[Source]) -> Complaints {
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_in(NODE) && !source.is_test()) {
        for (name, at) in types(source) {
            let shared = SHARED.iter().any(|(known, place, _)| *known == name && source.is_in(&[place]));
            let named = format!("{}:{}", source.path, at + 1);
            if !shared {
                found.entry(name).or_default().push(named);
            }
        }
    }
    let several = found.into_iter().filter(|(_, places)| places.len() > 1);
    several
        .map(|(name, places)| format!("{name} is the name of {} types: {}", places.len(), places.join(", ")))
        .collect()
}

#[test]
fn a_name_of_a_type_of_the_node_is_one_types_name() {
    let sources = sources();
    let found = complaints(&sources);
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    for (name, place, why) in SHARED {
        let has = |source: &&Source| source.is_in(&[place]) && types(source).any(|(found, _)| found == *name);
        assert!(sources.iter().filter(has).count() > 1, "{name} needs no exception: {why}");
    }
}

#[test]
fn two_types_of_one_name_are_found() {
    let count = |files: &[(&str, &str)]| {
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        complaints(&sources).len()
    };
    let one = ("src/trust/a.rs", "pub struct Limits {\n}\n");
    for other in [
        "pub(crate) enum Limits {}",
        "pub type Limits = u8;",
        "pub unsafe trait Limits: Sync {}",
        "pub struct Limits(u8);",
    ] {
        assert_eq!(count(&[one, ("src/node/b.rs", other)]), 1, "{other}");
    }
    let fine = [
        "struct Limits;",
        "pub(super) struct Limits;",
        "// pub struct Limits;",
        "pub struct LimitsOf;",
        "pub fn Limits() {}",
    ];
    for other in fine.into_iter().chain(["#[cfg(test)]\nmod tests { \n pub struct Limits;\n }"]) {
        assert_eq!(count(&[one, ("src/node/b.rs", other)]), 0, "{other}");
    }
    assert_eq!(count(&[one, ("src/manage/b.rs", "pub struct Limits;")]), 0, "above the node");
    let packets = [("src/wire/a.rs", "pub struct Packet;"), ("src/wire/b.rs", "pub struct Packet;")];
    assert_eq!(
        [
            count(&packets),
            count(&[packets[0], ("src/node/b.rs", "pub struct Packet;"), ("src/ee/c.rs", "pub struct Packet;")])
        ],
        [0, 1]
    );
}
