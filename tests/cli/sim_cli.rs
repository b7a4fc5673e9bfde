//! `anode sim` on the example scenarios: the same seed gives the same result and history.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn anode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anode")).args(arguments).output().expect("the binary runs")
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/sim").join(name)
}

/// The result and the history of a scenario.
fn run(name: &str, seed: &str, folder: &Path) -> (Value, Vec<u8>) {
    let (scenario, trace) = (example(name), folder.join("history"));
    let (scenario, trace) = (scenario.to_str().unwrap(), trace.to_str().unwrap());
    let output = anode(&["sim", "run", scenario, "--seed", seed, "--trace", trace, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut result: Value = serde_json::from_slice(&output.stdout).unwrap();
    (result["result"].take(), std::fs::read(trace).unwrap())
}

#[test]
fn a_seed_gives_the_same_result_and_history_and_another_seed_another() {
    let folder = tempfile::tempdir().unwrap();
    let first = run("trouble.toml", "5", folder.path());
    assert_eq!(first, run("trouble.toml", "5", folder.path()));
    assert_ne!(first.1, run("trouble.toml", "6", folder.path()).1);
}

#[test]
fn explain_tells_the_story_of_a_packet() {
    let folder = tempfile::tempdir().unwrap();
    run("line.toml", "1", folder.path());
    let trace = folder.path().join("history");
    let output = anode(&["sim", "explain", "1", "--trace", trace.to_str().unwrap()]);
    let story = String::from_utf8(output.stdout).unwrap();
    let order = ["is sent from", "waits for its code", "asks for", "serves", "its code runs", "is delivered"];
    let mut at = 0;
    for part in order {
        at += story[at..].find(part).unwrap_or_else(|| panic!("no '{part}' behind byte {at} of:\n{story}"));
    }
    let nobody = anode(&["sim", "explain", "99999", "--trace", trace.to_str().unwrap()]);
    assert_eq!(nobody.status.code(), Some(1));
}

#[test]
fn wrong_scenarios_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let line = std::fs::read_to_string(example("line.toml")).unwrap();
    for (edit, part) in [
        (line.replace("duration_s", "duration"), "unknown field"),
        (line.replace("nodes = 3", "nodes = 1"), "node"),
        (line.replace("\"n2\"", "\"n9\""), "there is no node 'n9'"),
        (line.replace("per_second = 5", "per_second = 0"), "per_second = 0"),
        (line.replace("ping.c", "nosuch.c"), "nosuch.c"),
    ] {
        let file = folder.path().join("wrong.toml");
        std::fs::write(&file, &edit).unwrap();
        let output = anode(&["sim", "run", file.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(part), "'{part}' not in: {errors}");
    }
}
