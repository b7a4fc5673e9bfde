//! Tables of schedulers, engines and kinds of ports: a new one is one file and one row. So nothing else names them all.
//! Example of a complaint: `src/cli/x.rs names all of src/schedule/policies.rs: fifo priority …`.
//!
//! Tests and measurements mean each for what it does, and the reference of the interface has a row for each, which a unit
//! test compares with the table.

use super::source::words;
use super::{Complaints, texts};

/// A table: its file, what its rows stand between, and how code spells a row.
struct Table {
    file: &'static str,
    begins: &'static str,
    /// Files of rows.
    place: &'static str,
    spelled: fn(&str) -> Vec<String>,
}

const TABLES: &[Table] = &[
    Table {
        file: "src/port/mod.rs",
        begins: "\nports! {",
        place: "src/port/",
        spelled: |row| row.split("::").skip(1).map(str::to_owned).collect(),
    },
    Table {
        file: "src/schedule/policies.rs",
        begins: "\npolicies! {",
        place: "src/schedule/policies/",
        spelled: |row| row.split(" = ").flat_map(|name| [format!("Policy::{name}"), format!("\"{name}\"")]).collect(),
    },
    Table {
        file: "src/graph/engines/mod.rs",
        begins: "\nengines! {",
        place: "src/graph/engines/",
        spelled: |row| vec![format!("{row}::"), format!("\"{row}\""), format!("\"{row}(")],
    },
];

/// The rows of a table that are not tests'.
fn rows<'a>(table: &Table, text: &'a str) -> Vec<&'a str> {
    let rows = text.split_once(table.begins).and_then(|(_, rest)| rest.split_once("\n}")).map_or("", |(rows, _)| rows);
    let rows = rows.lines().map(|line| line.trim().trim_end_matches(','));
    rows.filter(|row| !row.is_empty() && !row.starts_with(['#', '/'])).collect()
}

/// Whether a text has a name, and no longer one that ends or begins with it.
fn has(text: &str, name: &str) -> bool {
    if name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return words(text).any(|word| word == name);
    }
    let begins = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let ends = |at: usize| !text[at..].starts_with(|c: char| c.is_alphanumeric() || c == '_') || name.ends_with(':');
    text.match_indices(name).any(|(at, _)| begins(at) && ends(at + name.len()))
}

fn complaints(tables: &[Table], texts: &[(String, String)]) -> Complaints {
    let mut complaints = vec![];
    for table in tables {
        let text = texts.iter().find(|(path, _)| path == table.file).map_or("", |(_, text)| text);
        let rows = rows(table, text);
        if rows.len() < 2 {
            complaints.push(format!("{}: the table was not found", table.file));
        }
        let names_all = |text: &str| rows.iter().all(|row| (table.spelled)(row).iter().any(|name| has(text, name)));
        let is_there = |path: &str| path == table.file || path.starts_with(table.place);
        let elsewhere = texts.iter().filter(|(path, _)| path.starts_with("src/") && !path.contains("tests"));
        let elsewhere = elsewhere.filter(|(path, _)| !is_there(path));
        let found = elsewhere.filter(|(_, text)| rows.len() > 1 && names_all(text));
        let named = found.map(|(path, _)| format!("{path} names all of {}: {}", table.file, rows.join(" ")));
        complaints.extend(named);
    }
    complaints
}

#[test]
fn what_has_a_table_is_named_in_full_nowhere_else() {
    let complaints = complaints(TABLES, &texts());
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn a_second_place_that_names_all_is_found() {
    let table = "policies! {\n    Fifo = fifo,\n    Wfq = wfq,\n    #[cfg(test)] Meek = tests,\n}\n";
    let found = |path: &str, text: &str| {
        let texts = [(TABLES[1].file, &*format!("\n{table}")), (path, text)];
        complaints(&TABLES[1..2], &texts.map(|(path, text)| (path.to_owned(), text.to_owned()))).len()
    };
    for bad in ["match x { Policy::Fifo => 1, Policy::Wfq => 2 }", "[\"fifo\", \"wfq\"]", "(Policy::Fifo, \"wfq\")"] {
        assert_eq!(found("src/cli/x.rs", bad), 1, "{bad}");
        assert_eq!(found("src/schedule/policies/x.rs", bad), 0, "{bad}");
    }
    for good in ["Policy::Fifo", "Policy::Fifo == Policy::Wfqs", "fifo and wfq"] {
        assert_eq!(found("src/cli/x.rs", good), 0, "{good}");
    }
    assert_eq!(complaints(&TABLES[1..2], &[]).len(), 1, "no table");
}
