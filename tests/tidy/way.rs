//! The way of a packet from its port to its guest, read from the source. Example: `take_batch` calls `receive_all`, that
//! calls `take_in`, and five calls later mobile code runs.
//!
//! A list has the functions of one way; the body of each must call the next by name. So nobody can put a station on the
//! way without a line here, and there are at most eight calls.

use super::source::{Source, words};
use super::{Complaints, sources};

/// Calls from the worker to the guest.
const CALLS_MAX: usize = 8;

/// The functions of a way, each with its file; the last calls the guest.
struct Way {
    name: &'static str,
    stations: &'static [(&'static str, &'static str)],
    guest: &'static str,
}

const WORKER: &str = "src/manage/worker.rs";
const TAKING: &str = "src/manage/worker/taking.rs";
const RUNTIME: &str = "src/code/run/mod.rs";
const WASM: &str = "src/code/run/wasm.rs";
const NODE: &str = "src/node.rs";

const WAYS: &[Way] = &[
    Way {
        name: "a capsule that nobody lets wait",
        stations: &[
            (TAKING, "take_batch"),
            ("src/node/batch.rs", "receive_all"),
            (NODE, "take_in"),
            ("src/node/capsules.rs", "packet"),
            ("src/node/running.rs", "process"),
            ("src/node/running.rs", "run_code"),
            (RUNTIME, "run"),
            (WASM, "run"),
        ],
        guest: "call",
    },
    Way {
        name: "a capsule that has waited",
        stations: &[
            (WORKER, "run_packets"),
            ("src/node/paths/driven.rs", "run_turn"),
            ("src/node/paths/driven.rs", "run_next"),
            ("src/node/environment.rs", "run"),
            ("src/node/capsules.rs", "run"),
            ("src/node/running.rs", "run_code"),
            (RUNTIME, "run"),
            (WASM, "run"),
        ],
        guest: "call",
    },
    Way {
        name: "a packet of a channel",
        stations: &[
            (TAKING, "take_batch"),
            ("src/node/batch.rs", "receive_all"),
            (NODE, "take_in"),
            (NODE, "receive_channel"),
            (NODE, "enter_channel"),
            ("src/node/environment.rs", "run"),
            ("src/node/forms.rs", "run"),
            ("src/node/forms.rs", "hand_packet"),
        ],
        guest: "upcall",
    },
];

/// Whether a line of code calls a function of this name.
fn calls(line: &str, name: &str) -> bool {
    let called = |at: usize| line[at + name.len()..].starts_with('(') && !line[..at].trim_end().ends_with("fn");
    words(line).any(|word| word == name) && line.match_indices(name).any(|(at, _)| called(at))
}

/// Whether a function of this name in a file calls the next one; nothing if there is none.
fn leads_on(source: &Source, function: &str, next: &str) -> Option<bool> {
    let lines: Vec<&str> = source.code.lines().collect();
    let bodies = source.functions().into_iter().filter(|(_, name, _)| *name == function);
    let mut found = bodies.map(|(at, _, length)| lines[at..at + length].iter().any(|line| calls(line, next)));
    let first = found.next()?;
    Some(first || found.any(|calls| calls))
}

fn complaints(way: &Way, sources: &[Source]) -> Complaints {
    let mut found = vec![];
    if way.stations.len() > CALLS_MAX {
        found.push(format!("{}: {} calls, at most {CALLS_MAX}", way.name, way.stations.len()));
    }
    let followers = way.stations.iter().skip(1).map(|(_, name)| *name).chain([way.guest]);
    for ((path, function), next) in way.stations.iter().zip(followers) {
        let source = sources.iter().find(|source| source.path == *path);
        match source.and_then(|source| leads_on(source, function, next)) {
            Some(true) => {}
            Some(false) => found.push(format!("{path}: {function} does not call {next}")),
            None => found.push(format!("{path}: there is no {function}")),
        }
    }
    found
}

#[test]
fn from_a_port_to_a_guest_there_are_at_most_eight_calls() {
    let sources = sources();
    let found: Vec<_> = WAYS.iter().flat_map(|way| complaints(way, &sources)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_way_that_is_longer_or_leads_elsewhere_is_complained_of() {
    let file = Source::new("src/a.rs", "fn a() { self.b(1); }\nfn b() { c(); // d()\n}\nfn c() { bd(); }");
    let of = |stations, guest| complaints(&Way { name: "w", stations, guest }, std::slice::from_ref(&file));
    assert_eq!(of(&[("src/a.rs", "a"), ("src/a.rs", "b")], "c"), Vec::<String>::new());
    assert_eq!(of(&[("src/a.rs", "b")], "d"), ["src/a.rs: b does not call d"], "a comment is no call");
    assert_eq!(of(&[("src/a.rs", "c")], "d"), ["src/a.rs: c does not call d"], "nor is another name");
    assert_eq!(of(&[("src/a.rs", "e")], "f"), ["src/a.rs: there is no e"]);
    assert_eq!(of(&[("src/b.rs", "a")], "b"), ["src/b.rs: there is no a"]);
    assert_eq!(of(&[("src/a.rs", "a"); 9], "b")[0], "w: 9 calls, at most 8");
}
