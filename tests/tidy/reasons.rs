//! Each reason for a drop has one meaning: `docs/drops.md` has its definition, its unit, and the files that count it.
//!
//! A file that counts a reason and is not in its row makes the check fail. A new place of use is added there, or gets a
//! reason of its own.

use super::source::Source;
use super::{Complaints, sources, texts};
use std::collections::{BTreeMap, BTreeSet};

/// Files that name reasons and count none.
const NAMING: &[&str] = &["src/core/reason.rs", "src/node/alarms.rs"];

/// Reasons by name, with the files of their rows.
type Rows = BTreeMap<String, BTreeSet<String>>;

/// The rows of the table: `| reason | unit | what | files | before |`.
fn rows(page: &str) -> Rows {
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let row = |line: &str| {
        let cells: Vec<_> = line.strip_prefix("| `").map(|_| line.split('|').skip(1).collect()).unwrap_or_default();
        let [name, _, _, files, ..] = cells[..] else { return None };
        Some((quoted(name).pop()?, quoted(files).into_iter().collect()))
    };
    page.lines().filter_map(row).collect()
}

/// The reason of this name, as Rust has it: `path-full` is `PathFull`.
fn variant(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('-').map(word).collect()
}

/// The reasons that a file counts.
fn counted(source: &Source) -> BTreeSet<String> {
    let paths = source.paths();
    let reasons = paths.iter().filter_map(|(_, path)| path.rsplit_once("Reason::").map(|(_, reason)| reason));
    reasons.filter(|reason| reason.starts_with(char::is_uppercase) && *reason != "ALL").map(str::to_owned).collect()
}

fn complaints(rows: &Rows, defined: &BTreeSet<String>, sources: &[Source]) -> Complaints {
    let listed: BTreeMap<String, &BTreeSet<String>> = rows.iter().map(|(name, files)| (variant(name), files)).collect();
    let mut found = vec![];
    let unlisted = defined.iter().filter(|reason| !listed.contains_key(*reason));
    found.extend(unlisted.map(|reason| format!("{reason} has no row in docs/drops.md")));
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.starts_with("src/") && !source.is_test()) {
        if !NAMING.contains(&source.path.as_str()) {
            counted(source).into_iter().for_each(|reason| {
                used.entry(reason).or_default().insert(source.path.clone());
            });
        }
    }
    for (reason, files) in &listed {
        let none = BTreeSet::new();
        let used = used.get(reason).unwrap_or(&none);
        let missing = |left: &BTreeSet<String>, right: &BTreeSet<String>| {
            left.difference(right).cloned().collect::<Vec<_>>().join(", ")
        };
        if !defined.contains(reason) {
            found.push(format!("docs/drops.md: {reason} is no reason"));
        }
        let (more, less) = (missing(used, files), missing(files, used));
        if !more.is_empty() {
            found.push(format!("{more}: {reason} has another meaning, or its row in docs/drops.md lacks the file"));
        }
        if !less.is_empty() {
            found.push(format!("docs/drops.md: {reason} is not counted in {less}"));
        }
    }
    found
}

#[test]
fn each_reason_is_counted_where_its_row_says() {
    let text = |wanted: &str| texts().into_iter().find(|(path, _)| path == wanted).expect(wanted).1;
    let table = rows(&text("docs/drops.md"));
    let reasons = text("src/core/reason.rs");
    let defined = reasons.lines().filter_map(|line| line.trim().split_once(" = \"")).map(|(name, _)| name.to_owned());
    let defined: BTreeSet<String> = defined.filter(|name| name.starts_with(char::is_uppercase)).collect();
    assert!(defined.len() > 60, "the reasons were not found");
    let found = complaints(&table, &defined, &sources());
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_reason_in_another_file_is_complained_of() {
    let table = rows(
        "| reason | unit | what | files | before |\n|---|---|---|---|---|\n| `path-full` | packet | x | `src/a.rs` | |\n",
    );
    let defined = BTreeSet::from(["PathFull".to_owned()]);
    let source = |path: &str, text: &str| Source::new(path, text);
    let good = source("src/a.rs", "fn f() { drop(Reason::PathFull); }");
    assert_eq!(complaints(&table, &defined, std::slice::from_ref(&good)), Vec::<String>::new());
    let bad = source("src/b.rs", "fn f() { drop(crate::core::reason::Reason::PathFull); }");
    let test = source("src/c.rs", "#[cfg(test)]\nmod tests { fn f() { drop(Reason::PathFull); } }");
    let found = complaints(&table, &defined, &[good, bad, test]);
    assert_eq!(found, ["src/b.rs: PathFull has another meaning, or its row in docs/drops.md lacks the file"]);
    assert_eq!(complaints(&table, &defined, &[]), ["docs/drops.md: PathFull is not counted in src/a.rs"]);
    let more = BTreeSet::from(["PathFull".to_owned(), "Other".to_owned()]);
    assert!(complaints(&table, &more, &[]).contains(&"Other has no row in docs/drops.md".to_owned()));
}
