//! Tests wait for events: none of them sleeps, looks at a clock, or gives its turn away until something has changed.
//!
//! Example: `while Control::connect(dir).is_err() { yield_now() }` is complained of, and so is
//! `assert!(begin.elapsed() < limit)`. What sends at a rate is in one file, what waits in another, and these may.

use super::source::{Source, words};
use super::{Complaints, sources};

/// Folders of nothing but tests.
const TESTS: &[&str] = &["tests/", "libanode/tests/", "plan/tests/", "click/tests/", "bench/tests/"];

/// Who may, and why.
const MAY: &[(&str, &str)] = &[
    ("tests/running/pace.rs", "sends at a rate"),
    ("tests/running/wait.rs", "bounds every wait"),
    ("libanode/tests/ring.rs", "its threads are a model's, which tries all orders"),
    ("libanode/tests/ending.rs", "the same"),
];

/// Words of clocks, of sleep, and of looking again.
const WORDS: &[(&str, &str)] = &[
    ("Instant", "a clock"),
    ("elapsed", "a clock"),
    ("sleep", "sleep"),
    ("park_timeout", "sleep"),
    ("yield_now", "a look after a look"),
    ("spin_loop", "a look after a look"),
    ("try_wait", "a look after a look"),
];

/// A number to begin with is nothing that is measured.
const SEED: &str = "UNIX_EPOCH.elapsed()";

/// That one side of a ring sleeps is a state of it.
const STATE: &str = "down.sleep()";

fn tests_wait_for_events(source: &Source) -> Complaints {
    if !source.is_in(TESTS) || MAY.iter().any(|(path, _)| *path == source.path) {
        return vec![];
    }
    let mut complaints = vec![];
    for (at, line) in source.code.lines().enumerate() {
        let line = line.replace(SEED, "").replace(STATE, "");
        let found = WORDS.iter().filter(|(word, _)| words(&line).any(|found| found == *word));
        complaints.extend(found.map(|(word, what)| {
            source.complain(at, &format!("{word} is {what}: wait by tests/running/wait.rs, send by Pace"))
        }));
    }
    complaints
}

#[test]
fn tests_wait_for_events_and_look_at_no_clock() {
    let sources = sources();
    for (path, why) in MAY {
        let there = sources.iter().any(|source| source.path == *path);
        assert!(there && !why.is_empty(), "{path}");
    }
    let found: Vec<_> = sources.iter().flat_map(tests_wait_for_events).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_test_that_sleeps_or_measures_is_complained_of() {
    let count = |path: &str, text: &str| tests_wait_for_events(&Source::new(path, text)).len();
    for bad in [
        "fn f() { std::thread::sleep(LOOK); }",
        "use std::thread::sleep;",
        "fn f() { while there() { std::thread::yield_now(); } }",
        "fn f() { while child.try_wait().unwrap().is_none() {} }",
        "fn f() { assert!(begin.elapsed() < LIMIT); }",
        "fn f() { let begin = std::time::Instant::now(); }",
    ] {
        assert_eq!(count("tests/run/x.rs", bad), 1, "{bad}");
        assert_eq!(count("plan/tests/x.rs", bad), 1, "{bad}");
        assert_eq!(count("src/manage/x.rs", bad), 0, "{bad}");
        assert_eq!(count("tests/running/pace.rs", bad), 0, "{bad}");
    }
    let good = "use std::time::Duration; // sleep\nfn f() { run(\"exec sleep 1000\"); let seed = SystemTime::UNIX_EPOCH.elapsed(); }";
    assert_eq!(count("tests/run/x.rs", good), 0);
}
