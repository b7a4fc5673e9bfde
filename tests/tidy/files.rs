//! The imports among files of `src/`: no circles, except those in a table. Example: `secret.rs` uses `key.rs`, which therefore
//! must not use `secret.rs`.
//!
//! An import counts for the file that has what it names, also through what other files export again. What folders import against the
//! order for now (`folders.rs`) is left out. ARCHITECTURE.md shows the table.

use super::folders::EXCEPTIONS;
use super::source::Source;
use super::{Complaints, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The place of files that import each other, how many at most do in one circle there, and why they stay.
type Circle = (&'static str, usize, &'static str);

const CIRCLES: &[Circle] = &[
    ("broker", 3, "a request is carried out in the process that asks if it has no broker"),
    ("cli", 6, "commands of one noun share what prints and reads for them"),
    ("code/check", 3, "sections, costs and instructions of one module refer to each other"),
    ("code/fetch", 7, "the tables of the one search are children of its types"),
    ("code/run", 5, "run-times bind the calls, and calls answer in the run-times' terms"),
    ("config", 7, "sections of the file refer to each other, and it has them all"),
    ("ee/plan", 32, "evaluation, waiting, routing and services share the state of one environment"),
    ("graph", 2, "a class makes engines, and an engine in its graph knows its class"),
    ("kernel", 22, "the half holds its parts, and they its maps"),
    ("lab", 3, "a lab starts nodes and reports on its links, which are both told of labs"),
    ("labfile", 5, "a topology is resolved when it is read, from the types that it has"),
    ("manage", 53, "the worker and whoever does its slow work send each other their types"),
    ("node", 39, "the table of environments names each, and each is called with the node's `Cx`"),
    ("sim", 10, "the simulation holds hosts, traffic and reports, which act in it"),
    ("sys/jail", 3, "the stages of a jail's birth call the next and share the first's description"),
    ("trust", 6, "roles, credentials and refusals name each other"),
    ("wire", 2, "neighbour discovery is a part of ICMPv6 in a file of its own"),
];

/// The module that a file is: `["wire", "udp"]`.
fn module(path: &str) -> Option<Vec<String>> {
    let rest = path.strip_prefix("src/")?.strip_suffix(".rs")?;
    let mut parts: Vec<_> = rest.split('/').map(str::to_owned).collect();
    if parts.last()? == "mod" {
        parts.pop();
    }
    // The crate's root is no place that anybody needs.
    (!["lib", "main"].contains(&rest)).then_some(parts)
}

/// The files of a crate by their modules, and what each file's imports call other things.
struct Tree<'a> {
    files: BTreeMap<Vec<String>, &'a Source>,
    names: BTreeMap<&'a str, BTreeMap<String, Vec<String>>>,
}

impl<'a> Tree<'a> {
    fn of(sources: &'a [Source]) -> Tree<'a> {
        let live = sources.iter().filter(|source| !source.is_test());
        let files = live.filter_map(|source| Some((module(&source.path)?, source))).collect();
        let mut tree = Tree { files, names: BTreeMap::new() };
        let names = tree.files.iter().map(|(at, source)| (&*source.path, tree.imported(at, source))).collect();
        tree.names = names;
        tree
    }

    /// A path as one from the crate's root.
    fn absolute(&self, at: &[String], path: &str) -> Option<Vec<String>> {
        let parts: Vec<_> = path.split("::").map(str::to_owned).collect();
        let (first, rest) = parts.split_first()?;
        let up = parts.iter().take_while(|part| *part == "super").count();
        let base = match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => return Some([at, rest].concat()),
            "super" => at.get(..at.len().checked_sub(up)?)?,
            child if self.files.contains_key(&[at, &[child.to_owned()]].concat()) => at,
            _ => return None,
        };
        Some([base, &parts[up..]].concat())
    }

    /// What a file's imports call things: the last word of each path.
    fn imported(&self, at: &[String], source: &Source) -> BTreeMap<String, Vec<String>> {
        let paths = source.imports().into_iter().filter_map(|path| self.absolute(at, &path));
        paths.filter_map(|path| Some((path.last()?.clone(), path))).collect()
    }

    /// The file that has what a path from the root means, through the imports of the files on the way.
    fn file(&self, path: &[String], steps: usize) -> Option<&'a Source> {
        let length = (0..=path.len()).rev().find(|length| self.files.contains_key(&path[..*length]))?;
        let source = self.files[&path[..length]];
        let other = path.get(length).and_then(|name| self.names.get(&*source.path)?.get(name));
        match other {
            Some(other) if steps > 0 && other[..] != path[..=length] => {
                self.file(&[&other[..], &path[length + 1..]].concat(), steps - 1)
            }
            _ => Some(source),
        }
    }

    /// Which files each file needs.
    fn needs(&self) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let of = |at: &[String], source: &Source| {
            let words = source.paths().into_iter().map(|(_, path)| path).filter(|path| path.contains("::"));
            let paths = words.filter_map(|path| self.absolute(at, &path));
            let files = paths.filter_map(|path| Some(&*self.file(&path, 8)?.path));
            files.filter(|path| *path != source.path && !is_exception(&source.path, path)).collect()
        };
        self.files.iter().map(|(at, source)| (&*source.path, of(at, source))).collect()
    }
}

/// Whether one folder imports another against the order, as is known.
fn is_exception(from: &str, to: &str) -> bool {
    let folder = |path: &str| path.split('/').nth(1).map(|name| name.trim_end_matches(".rs").to_owned());
    let pair = (folder(from), folder(to));
    EXCEPTIONS.iter().any(|(from, to, _)| pair == (Some((*from).to_owned()), Some((*to).to_owned())))
}

/// Groups of files of which each needs the others, perhaps through others.
fn groups<'a>(needs: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reached = |from: &'a str| {
        let (mut found, mut todo) = (BTreeSet::new(), vec![from]);
        while let Some(at) = todo.pop() {
            let new = needs.get(at).into_iter().flatten().filter(|file| !found.contains(*file));
            let new: Vec<_> = new.copied().collect();
            found.extend(&new);
            todo.extend(new);
        }
        found
    };
    let reached: BTreeMap<_, _> = needs.keys().map(|file| (*file, reached(file))).collect();
    let mut groups = BTreeSet::new();
    for (file, others) in &reached {
        let group: Vec<_> = others.iter().copied().filter(|other| reached[other].contains(file)).collect();
        groups.extend((!group.is_empty()).then_some(group));
    }
    groups.into_iter().collect()
}

/// Whether a file is below a place, or is its first file.
fn is_at(path: &str, place: &str) -> bool {
    let rest = path.strip_prefix("src/").and_then(|rest| rest.strip_prefix(place));
    rest.is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
}

/// Circles that no row has, or that are larger; rows without a circle.
fn complaints(sources: &[Source], rows: &[Circle]) -> Complaints {
    let groups = groups(&Tree::of(sources).needs());
    let all_at = |group: &[&str], place: &str| group.iter().all(|path| is_at(path, place));
    let is_known = |group: &[&str]| rows.iter().any(|row| all_at(group, row.0) && group.len() <= row.1);
    let new = groups.iter().filter(|group| !is_known(group));
    let mut complaints: Vec<_> =
        new.map(|group| format!("{} files import each other: {}", group.len(), group.join(" "))).collect();
    let unused = rows.iter().filter(|row| !groups.iter().any(|group| all_at(group, row.0)));
    complaints.extend(unused.map(|row| format!("{}: no files there import each other any more", row.0)));
    complaints
}

/// The table of ARCHITECTURE.md.
fn table(rows: &[Circle]) -> String {
    let rows = rows.iter().map(|(place, most, why)| format!("| {place} | {most} | {why} |\n"));
    format!("| in | files at most | since |\n|---|---|---|\n{}", rows.collect::<String>())
}

#[test]
fn no_files_import_each_other_but_those_of_the_table() {
    let complaints = complaints(&sources(), CIRCLES);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn the_page_of_the_architecture_shows_the_circles() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md");
    let (page, table) = (std::fs::read_to_string(path).unwrap(), table(CIRCLES));
    assert!(page.contains(&table), "ARCHITECTURE.md has another table than:\n{table}");
}

#[test]
fn files_that_import_each_other_are_found() {
    let found = |files: &[(&str, &str)], rows: &[Circle]| {
        complaints(&files.iter().map(|(path, text)| Source::new(path, text)).collect::<Vec<_>>(), rows)
    };
    let pair = [("src/a/x.rs", "use super::y::Y;"), ("src/a/y.rs", "fn f() { crate::a::x::X }")];
    assert_eq!(found(&pair, &[]), ["2 files import each other: src/a/x.rs src/a/y.rs"]);
    assert_eq!(found(&pair, &[("a", 2, "")]), [""; 0]);
    assert_eq!(found(&pair, &[("a", 1, "")]).len(), 1, "it has grown");
    assert_eq!(found(&pair, &[("a/x", 2, "")]).len(), 2, "another place");
    assert_eq!(found(&pair[..1], &[("a", 2, "")]), ["a: no files there import each other any more"]);
    // Three in a row, the last through a name that a third file exports again.
    let again = [
        ("src/a/mod.rs", "pub use z::Z;"),
        ("src/a/z.rs", "use crate::b::{self, B};"),
        ("src/b.rs", "use crate::a::Z;"),
    ];
    assert_eq!(found(&again, &[]), ["2 files import each other: src/a/z.rs src/b.rs"]);
    let child = [("src/a.rs", "use x::X;"), ("src/a/x.rs", "use super::A;")];
    assert_eq!(found(&child, &[]).len(), 1, "also a file and its child");
    let good = [
        ("src/a/x.rs", "use super::y::Y; // crate::a::z\n#[cfg(test)]\nmod tests { use crate::a::z::Z; }"),
        ("src/a/y.rs", "fn f(x: u32) { x }"),
        ("src/a/z.rs", "use super::x;"),
    ];
    assert_eq!(found(&good, &[]), [""; 0]);
    assert!(
        is_exception("src/broker/x.rs", "src/config/mod.rs") && !is_exception("src/config/mod.rs", "src/broker/x.rs")
    );
}
