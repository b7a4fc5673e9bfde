//! The imports among folders of `src/`: a hierarchy, from the bottom up, without circles.
//!
//! A row may name only folders of earlier rows. What still imports one of a later row is an exception, with what will end it. Rows say
//! neither more nor less than the code does, and ARCHITECTURE.md shows them. Code under `#[cfg(test)]` may import what it likes.

use super::source::Source;
use super::{Complaints, sources};
use std::collections::{BTreeMap, BTreeSet};

/// A folder, or a file of `src/`, and what it imports.
type Row = (&'static str, &'static [&'static str]);

/// Everything in earlier rows.
const ALL: &[&str] = &["all above"];

/// From the bottom up.
const ROWS: &[Row] = &[
    ("contract", &[]),
    ("abi", &["contract"]),
    ("clean", &[]),
    ("wire", &["contract"]),
    ("frame", &["wire"]),
    ("sys", &["wire"]),
    ("link", &["sys"]),
    ("trust", &["abi", "clean", "wire"]),
    ("labfile", &["wire", "sys", "link", "trust"]),
    ("topology", &["wire", "frame"]),
    ("classify", &["contract", "wire", "frame", "sys"]),
    ("core", &["contract", "abi", "wire", "frame", "sys", "link", "trust", "topology"]),
    ("schedule", &["sys", "topology", "core"]),
    ("log", &["clean", "sys", "core"]),
    ("nodeos", &["wire", "frame", "trust", "classify", "core"]),
    ("graph", &["contract", "clean", "wire", "frame", "sys", "topology", "classify", "core", "nodeos"]),
    ("broker", &["contract", "wire", "sys", "trust"]),
    ("code", &["contract", "abi", "clean", "wire", "frame", "sys", "trust", "classify", "core", "nodeos", "broker"]),
    (
        "kernel",
        &[
            "contract", "abi", "wire", "frame", "sys", "trust", "topology", "classify", "core", "graph", "broker",
            "code",
        ],
    ),
    ("port", &["contract", "wire", "frame", "sys", "classify", "schedule", "core", "broker", "kernel"]),
    ("ee", &["wire", "frame", "trust", "topology", "core", "code"]),
    (
        "node",
        &[
            "contract", "abi", "clean", "wire", "frame", "sys", "link", "trust", "topology", "classify", "schedule",
            "core", "nodeos", "graph", "code", "ee",
        ],
    ),
    ("driver", &["wire", "frame", "trust", "core", "nodeos", "code", "node"]),
    ("seen", &["contract", "clean", "wire", "frame", "classify", "core", "node"]),
    (
        "sim",
        &[
            "clean", "wire", "frame", "link", "trust", "labfile", "topology", "classify", "core", "code", "ee", "node",
            "driver",
        ],
    ),
    (
        "config",
        &[
            "wire", "frame", "sys", "link", "trust", "topology", "schedule", "nodeos", "graph", "code", "port", "ee",
            "node",
        ],
    ),
    (
        "manage",
        &[
            "clean", "wire", "frame", "sys", "link", "trust", "topology", "classify", "schedule", "core", "log",
            "nodeos", "graph", "broker", "code", "kernel", "port", "ee", "node", "driver", "seen", "config",
        ],
    ),
    ("lab", &["wire", "sys", "link", "labfile", "kernel", "config", "manage"]),
    ("apps", &["wire", "code"]),
    ("cli", ALL),
];

/// What is imported against the order: from where, what, and what will end it.
pub type Exception = (&'static str, &'static str, &'static str);

const SPLIT: &str = "ends when asking the broker and carrying out what it is asked for are two folders";

pub const EXCEPTIONS: &[Exception] =
    &[("broker", "code", SPLIT), ("broker", "kernel", SPLIT), ("broker", "config", SPLIT)];

/// One import: from which folder, which, and where it stands.
struct Import<'a> {
    from: &'a str,
    to: String,
    source: &'a Source,
    line: usize,
}

/// The folder of `src/`, or the file in it, that a file belongs to; the crate's root belongs to none.
fn folder(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("src/")?;
    let name = rest.split('/').next().unwrap_or(rest);
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (!["lib", "main"].contains(&name)).then_some(name)
}

/// How many modules a file is below the crate's root.
fn depth(path: &str) -> usize {
    let parts = path.trim_start_matches("src/").split('/');
    parts.filter(|part| *part != "mod.rs").count()
}

/// In which folder each macro of the crate is, which are named as if they were at its root.
fn macros(sources: &[Source]) -> BTreeMap<&str, &str> {
    let mut found = BTreeMap::new();
    for source in sources {
        let Some(folder) = folder(&source.path) else { continue };
        let names = source.live.lines().filter_map(|line| line.trim().strip_prefix("macro_rules! "));
        found.extend(names.filter_map(|name| Some((super::source::words(name).next()?, folder))));
    }
    found
}

/// Every import of one folder by another, outside tests.
fn imports(sources: &[Source]) -> Vec<Import<'_>> {
    let macros = macros(sources);
    let folders: BTreeSet<_> = sources.iter().filter_map(|source| folder(&source.path)).collect();
    let mut found = vec![];
    for source in sources.iter().filter(|source| !source.is_test()) {
        let Some(from) = folder(&source.path) else { continue };
        let root = vec!["super"; depth(&source.path)];
        for (line, path) in source.paths() {
            let parts: Vec<_> = path.split("::").collect();
            let named = match parts.strip_prefix(&["crate"]) {
                Some(rest) => rest.first(),
                None => parts.strip_prefix(&root[..]).and_then(<[_]>::first),
            };
            let to = named.map(|name| macros.get(name).copied().unwrap_or(name));
            let Some(to) = to.filter(|to| folders.contains(to) && *to != from) else { continue };
            found.push(Import { from, to: to.to_owned(), source, line });
        }
    }
    found
}

/// Imports that no row has, and no exception.
fn not_allowed(sources: &[Source], rows: &[Row], exceptions: &[Exception]) -> Complaints {
    let mut complaints = vec![];
    for Import { from, to, source, line } in imports(sources) {
        let row = rows.iter().position(|row| row.0 == from);
        let may = match row {
            Some(at) if rows[at].1 == ALL => rows[..at].iter().any(|row| row.0 == to),
            Some(at) => rows[at].1.contains(&to.as_str()),
            None => false,
        };
        if !may && !exceptions.iter().any(|exception| (exception.0, exception.1) == (from, to.as_str())) {
            complaints.push(source.complain(line, &format!("{from} may not import {to}: see tests/tidy/folders.rs")));
        }
    }
    complaints
}

/// Rows that import later ones, and so allow a circle; exceptions that are none.
fn circles(rows: &[Row], exceptions: &[Exception]) -> Complaints {
    let place = |name: &str| rows.iter().position(|row| row.0 == name);
    let mut complaints = vec![];
    for (at, (name, imports)) in rows.iter().enumerate().filter(|(_, row)| row.1 != ALL) {
        let later = imports.iter().filter(|import| place(import).is_none_or(|place| place >= at));
        complaints.extend(later.map(|import| format!("{name} imports {import}, which is not below it: a circle")));
    }
    let upward = |exception: &&Exception| place(exception.0) >= place(exception.1);
    let none = exceptions.iter().filter(upward);
    complaints.extend(none.map(|(from, to, _)| format!("{from} to {to} is no exception: it belongs into a row")));
    complaints
}

/// Rows and exceptions that say more than the code does, and folders without a row.
fn untrue(sources: &[Source], rows: &[Row], exceptions: &[Exception]) -> Complaints {
    let found: BTreeSet<_> = imports(sources).into_iter().map(|import| (import.from, import.to)).collect();
    let folders: BTreeSet<_> = sources.iter().filter_map(|source| folder(&source.path)).collect();
    let named: BTreeSet<_> = rows.iter().map(|row| row.0).collect();
    let listed = rows.iter().filter(|row| row.1 != ALL).flat_map(|(from, to)| to.iter().map(move |to| (*from, *to)));
    let all = listed.chain(exceptions.iter().map(|exception| (exception.0, exception.1)));
    let unused = all.filter(|(from, to)| !found.contains(&(*from, (*to).to_owned())));
    let mut complaints: Vec<_> = unused.map(|(from, to)| format!("{from} does not import {to}")).collect();
    complaints.extend(folders.symmetric_difference(&named).map(|name| format!("{name}: a row for each folder")));
    complaints
}

/// The table of ARCHITECTURE.md.
fn table(rows: &[Row], exceptions: &[Exception]) -> String {
    let mut table = String::from("| folder | imports |\n|---|---|\n");
    for (name, imports) in rows {
        let mut text = if imports.is_empty() { "nothing".to_owned() } else { imports.join(" ") };
        let upward: Vec<_> = exceptions.iter().filter(|exception| exception.0 == *name).map(|row| row.1).collect();
        if !upward.is_empty() {
            text += &format!("; for now also {}", upward.join(" "));
        }
        table += &format!("| {name} | {text} |\n");
    }
    table
}

#[test]
fn folders_import_what_is_below_them() {
    let sources = sources();
    let mut complaints = not_allowed(&sources, ROWS, EXCEPTIONS);
    complaints.extend(circles(ROWS, EXCEPTIONS));
    complaints.extend(untrue(&sources, ROWS, EXCEPTIONS));
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn the_page_of_the_architecture_shows_the_folders() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/ARCHITECTURE.md");
    let (page, table) = (std::fs::read_to_string(path).unwrap(), table(ROWS, EXCEPTIONS));
    assert!(page.contains(&table), "ARCHITECTURE.md has another table than:\n{table}");
}

/// Three folders: `low`, `middle` over it, `high` over both, with these files.
fn small(files: &[(&str, &str)]) -> Vec<Source> {
    let given = ["src/low/mod.rs", "src/middle/mod.rs", "src/high.rs"];
    let empty = given.iter().map(|path| Source::new(path, ""));
    empty.chain(files.iter().map(|(path, text)| Source::new(path, text))).collect()
}

const SMALL: &[Row] = &[("low", &[]), ("middle", &["low"]), ("high", ALL)];

#[test]
fn an_import_of_a_folder_that_is_not_below_is_found() {
    let bad = [
        ("src/low/x.rs", "\nuse crate::middle::Y;"),
        ("src/low/mod.rs", "\nfn f() { crate::high::g() }"),
        ("src/low/x/y.rs", "\nuse super::super::super::middle;"),
        ("src/middle.rs", "\nuse {crate::low, crate::{high as other}};"),
        ("src/low/x.rs", "\nfn f() { crate::shout!(1) }"),
    ];
    for (path, text) in bad {
        let sources = small(&[("src/high/m.rs", "macro_rules! shout { () => {} }"), (path, text)]);
        let found = not_allowed(&sources, SMALL, &[]);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{path}:2: ")), "{path} {text}: {found:?}");
    }
    let good = [
        ("src/middle/x.rs", "use crate::low::Z; use crate::middle::V; use super::high;"),
        ("src/high/x.rs", "use crate::{low, middle::{self, W}};"),
        ("src/low/tests.rs", "use crate::high;"),
        ("src/low/x.rs", "//! [`crate::high`]\n#[cfg(test)]\nmod tests { use crate::high; }"),
        ("src/lib.rs", "use crate::high;"),
        ("tests/x.rs", "use crate::high;"),
    ];
    let found = not_allowed(&small(&good), SMALL, &[]);
    assert!(found.is_empty(), "{found:?}");
    let upward = small(&[("src/low/x.rs", "use crate::high;")]);
    assert!(not_allowed(&upward, SMALL, &[("low", "high", "")]).is_empty());
}

#[test]
fn a_circle_is_found() {
    assert_eq!(circles(SMALL, &[("low", "high", "ends")]), [""; 0]);
    let back = [("low", &["middle"][..]), ("middle", &["low"])];
    assert_eq!(circles(&back, &[]), ["low imports middle, which is not below it: a circle"]);
    assert_eq!(circles(&[("low", &["low"])], &[]).len(), 1);
    assert_eq!(circles(SMALL, &[("middle", "low", "ends")]).len(), 1, "no exception");
}

#[test]
fn a_row_that_says_more_than_the_code_is_found() {
    let sources = small(&[("src/middle/x.rs", "use crate::low;")]);
    assert_eq!(untrue(&sources, SMALL, &[]), [""; 0]);
    assert_eq!(untrue(&small(&[]), SMALL, &[]), ["middle does not import low"]);
    assert_eq!(untrue(&sources, SMALL, &[("low", "high", "")]), ["low does not import high"]);
    assert_eq!(untrue(&sources, &SMALL[..2], &[]), ["high: a row for each folder"]);
}
