//! What the node asks of the kernel within a turn: each such trait is in the table of ARCHITECTURE.md, with its reason.
//! Example of a complaint: `src/kernel/x.rs has Watcher asked at once, which ARCHITECTURE.md does not explain`.
//!
//! Such a trait is one of the node's that `kernel` implements. All else that the node wants goes out as an effect.

use super::source::words;
use super::{Complaints, Source, sources};
use std::collections::BTreeSet;

/// The folders of which the node is made that know the kernel by traits alone.
const NODE: &[&str] = &[
    "src/topology/",
    "src/classify/",
    "src/core/",
    "src/nodeos/",
    "src/graph/",
    "src/ee/",
    "src/node/",
    "src/node.rs",
];

/// How the table begins.
const TABLE: &str = "| asked by | what | since |\n|---|---|---|\n";

/// The names that stand behind a word in a line's code: of traits that are made, or implemented.
fn named<'a>(source: &'a Source, before: &'a str) -> impl Iterator<Item = &'a str> {
    source.live.lines().filter_map(move |line| {
        let mut words = words(line);
        words.find(|word| *word == before)?;
        words.next().filter(|_| before == "trait" || line.contains(" for "))
    })
}

fn asked(sources: &[Source]) -> BTreeSet<(&str, &str)> {
    let of = |places: &'static [&str]| sources.iter().filter(move |source| source.is_in(places) && !source.is_test());
    let traits: BTreeSet<_> = of(NODE).flat_map(|source| named(source, "trait")).collect();
    let kernel = of(&["src/kernel/"]);
    let implemented = kernel.flat_map(|source| named(source, "impl").map(move |name| (name, &*source.path)));
    implemented.filter(|(name, _)| traits.contains(name)).collect()
}

fn complaints(asked: &BTreeSet<(&str, &str)>, page: &str) -> Complaints {
    let table = page.split_once(TABLE).map_or("", |(_, rest)| rest.split("\n\n").next().unwrap_or(rest));
    let rows: BTreeSet<_> = table.lines().filter_map(|row| row.split('`').nth(1)).collect();
    let missing = asked.iter().filter(|(name, _)| !rows.contains(name));
    let mut complaints: Vec<_> = missing
        .map(|(name, path)| format!("{path} has {name} asked at once, which ARCHITECTURE.md does not explain"))
        .collect();
    let gone = rows.iter().filter(|row| !asked.iter().any(|(name, _)| name == *row));
    complaints.extend(gone.map(|row| format!("ARCHITECTURE.md: the kernel has no {row} any more")));
    complaints
}

#[test]
fn what_the_node_asks_the_kernel_at_once_is_explained() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md");
    let (sources, page) = (sources(), std::fs::read_to_string(path).unwrap());
    let asked = asked(&sources);
    assert!(asked.len() > 1, "nothing was found");
    let complaints = complaints(&asked, &page);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn a_trait_without_its_row_is_found() {
    let sources = [
        Source::new("src/core/x.rs", "pub trait Asked: Send {}\npub trait Other {}"),
        Source::new("src/kernel/x.rs", "impl Asked for X {}\nimpl Drop for X {}\nimpl Other {}"),
    ];
    let asked = asked(&sources);
    assert_eq!(asked.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["Asked"]);
    let page = |name: &str| format!("{TABLE}| `{name}` | x | y |\n\n| `Other` | z |");
    assert_eq!(complaints(&asked, &page("Asked")), [""; 0]);
    assert_eq!(complaints(&asked, &page("Another")).len(), 2);
}
