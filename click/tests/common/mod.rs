//! Classes for tests, files of cases, and what of a tree is compared.
#![allow(dead_code, reason = "every test uses a part")]

pub mod generate;

use click::arguments::split;
use click::check::CheckedGraph;
use click::classes::{Class, Item, Processing, Table};
use click::diagnostic;
use click::syntax::{lexer::lex, parse};
use std::path::PathBuf;

/// Name, ports, processing, flow, items.
const CLASSES: &[(&str, &str, &str, &str, &str)] = &[
    ("ARPQuerier", "2/1-2", "h/h", "xy/x", "p/p"),
    ("Average", "1/1", "a/a", "x/x", "i/i"),
    ("CheckIPHeader", "1/1-2", "a/ah", "x/x", "p/p"),
    ("Classifier", "1/-", "h/h", "x/x", "p/p"),
    ("Counter", "1/1", "a/a", "x/x", "p/p"),
    ("DecIPTTL", "1/1-2", "a/ah", "x/x", "p/p"),
    ("Discard", "1/0", "a", "x/x", "a/a"),
    ("FromDevice", "0/1", "h", "x/x", "p/p"),
    ("IPFilter", "1/-", "h/h", "x/x", "p/p"),
    ("InfiniteSource", "0/1", "h", "x/x", "p/p"),
    ("Lanes", "-/=", "a/a", "#/#", "p/p"),
    ("Log", "1/1", "a/a", "x/x", "a/a"),
    ("Null", "1/1", "a/a", "x/x", "p/p"),
    ("Paint", "1/1", "a/a", "x/x", "p/p"),
    ("PrioSched", "1-/1", "l/l", "x/x", "p/p"),
    ("PullTee", "1/1-", "l/lh", "x/x", "p/p"),
    ("Queue", "1-/1", "h/l", "x/x", "a/a"),
    ("RatedSource", "0/1", "a", "x/x", "p/p"),
    ("Sensor", "0/1", "h", "x/x", "i/i"),
    ("Shaper", "1/1", "l/l", "x/x", "p/p"),
    ("StaticSwitch", "1/-", "h/h", "x/x", "p/p"),
    ("Strip", "1/1", "a/a", "x/x", "p/p"),
    ("Tee", "1/1-", "h/h", "x/x", "p/p"),
    ("ToDevice", "1/0", "l", "x/x", "p/p"),
    ("Unqueue", "1/1", "l/h", "x/x", "a/a"),
];

/// The classes of the cases.
pub fn classes() -> Table {
    let mut table = Table::default();
    for (name, ports, processing, flow, items) in CLASSES {
        let class = Class::new(ports).and_then(|class| class.processing(processing));
        let class = class.and_then(|class| class.flow(flow)).and_then(|class| class.items(items));
        table.add(name, class.unwrap_or_else(|wrong| panic!("{name}: {wrong}")));
    }
    table.add("Idle", Class::new("-/-").and_then(|class| class.flow("x/y")).unwrap().optional());
    table.add("Script", Class::new("0/0").unwrap());
    table.add_package("analysis");
    table.add_package("local");
    table
}

/// How many cases a generated test has, unless the environment says otherwise.
pub fn cases(count: u32) -> proptest::test_runner::Config {
    let count = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(count);
    proptest::test_runner::Config { failure_persistence: None, cases: count, ..Default::default() }
}

/// A case of a file: what it shows, a configuration, and what is expected of it.
pub struct Case {
    pub title: String,
    pub source: String,
    pub expected: String,
}

fn folder(kind: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(kind)
}

/// The cases of a text: `=== title`, the configuration, `---`, what is expected.
fn read(text: &str) -> Vec<Case> {
    let sections = text.split("=== ").skip(1);
    let case = |section: &str| {
        let (title, rest) = section.split_once('\n').expect("a line of its own for the title");
        let (source, expected) = rest.split_once("---\n").unwrap_or((rest, ""));
        let expected = expected.trim_end_matches('\n').to_owned() + "\n";
        Case { title: title.to_owned(), source: source.to_owned(), expected }
    };
    sections.map(case).collect()
}

/// Runs every case of a folder; with ANODE_BLESS=1 writes down what comes out instead of comparing.
pub fn run(kind: &str, least: usize, outcome: impl Fn(&Case) -> String) {
    let mut count = 0;
    let bless = std::env::var_os("ANODE_BLESS").is_some();
    let mut files: Vec<_> = std::fs::read_dir(folder(kind)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let (head, mut written) = (text.split("=== ").next().unwrap_or(""), String::new());
        for case in read(&text) {
            count += 1;
            let found = outcome(&case).trim_end_matches('\n').to_owned() + "\n";
            written += &format!("=== {}\n{}---\n{found}\n", case.title, case.source);
            assert!(
                bless || found == case.expected,
                "{}: {}\n{}found:\n{found}",
                path.display(),
                case.title,
                case.source
            );
        }
        if bless {
            std::fs::write(&path, format!("{head}{}\n", written.trim_end_matches('\n'))).unwrap();
        }
    }
    assert!(count >= least, "{count} cases in {kind}, expected {least}");
}

/// What is wrong with a configuration, as it is shown.
pub fn shown(diagnostics: &[diagnostic::Diagnostic], source: &str) -> String {
    diagnostic::render(diagnostics, "x.click", source, false)
}

/// A graph as text, its connections with what goes through them.
pub fn flat(checked: &CheckedGraph) -> String {
    let graph = &checked.graph;
    let text = graph.to_string();
    let declared = text.lines().count() - graph.connections.len();
    let mut out = String::new();
    for (at, line) in text.lines().enumerate() {
        out += line;
        if let Some(connection) = at.checked_sub(declared).and_then(|at| graph.connections.get(at)) {
            let port = checked.ports[connection.from.element].outputs[connection.from.port as usize];
            let other = checked.ports[connection.to.element].inputs[connection.to.port as usize];
            assert_eq!(port, other, "{line}");
            out += if port.processing == Processing::Push { " // push" } else { " // pull" };
            if port.item != Item::Packet {
                out += &format!(" {}", port.item);
            }
        }
        out.push('\n');
    }
    out
}

/// What of a graph is the same however it was written.
pub fn essence(checked: &CheckedGraph) -> String {
    let mut text = String::new();
    for (element, ports) in checked.graph.elements.iter().zip(&checked.ports) {
        let arguments: Vec<&str> = element.arguments.iter().map(|argument| argument.text.as_str()).collect();
        text += &format!("{} {} {arguments:?} {ports:?}\n", element.name, element.class);
    }
    for connection in &checked.graph.connections {
        text += &format!("{:?} {:?}\n", connection.from, connection.to);
    }
    text
}

/// The tree of a text without its places, with the arguments of its configurations.
pub fn shape(text: &str) -> String {
    let parsed = parse(text);
    assert!(parsed.diagnostics.is_empty(), "{text}\n{}", shown(&parsed.diagnostics, text));
    let tree = format!("{:?}", parsed.statements);
    let mut shape = String::new();
    let mut rest = &tree[..];
    while let Some(at) = rest.find("Span {") {
        shape += &rest[..at];
        rest = &rest[at + rest[at..].find('}').unwrap() + 1..];
    }
    shape += rest;
    for spanned in parsed.tokens {
        let text = spanned.span.text(text);
        if let Some(inner) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
            shape += &format!("\n{:?}", split(inner));
        }
    }
    shape
}

/// The comments of a text.
pub fn comments(text: &str) -> Vec<String> {
    lex(text).comments.iter().map(|comment| comment.span.text(text).trim_end().to_owned()).collect()
}

/// Formats, and checks what must hold for every text.
pub fn formatted(text: &str) -> String {
    let once = click::format::format(text).unwrap_or_else(|wrong| panic!("{text}\n{}", shown(&wrong, text)));
    assert_eq!(click::format::format(&once).as_deref(), Ok(&once[..]), "formatting again changes it\n{text}");
    assert_eq!(shape(&once), shape(text), "the tree changed\n{text}\n{once}");
    assert_eq!(comments(&once), comments(text), "comments changed\n{text}\n{once}");
    assert!(once.is_empty() || (once.ends_with('\n') && !once.ends_with("\n\n")), "{once:?}");
    once
}
