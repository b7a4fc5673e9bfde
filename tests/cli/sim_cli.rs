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
        (line.replace("\"n2\"", "\"n9\""), "wrong.toml:17: there is no node 'n9'; define it, or correct the name"),
        (line.replace("nodes = 3", "degree = 3"), "wrong.toml:5: this shape needs nodes, a number"),
        (line.replace("nodes = 3", "nodes = 3\ndegree = 3"), "wrong.toml:5: degree does not belong to this shape"),
        (
            line.replace("delay_ms = 1", "loss = 1.5"),
            "wrong.toml:9: loss = 1.5 is out of range; give a share from 0 to 1",
        ),
        (format!("{line}\n[nodes.n7]\n"), "there is no node 'n7'"),
        (format!("{line}\n[nodes.n1]\nkind = \"switch\"\n"), "'n1' is a switch, and the simulator has none"),
        (format!("{line}\n[nodes.n1]\nactive = false\n"), "only active nodes; write active = true"),
        (format!("{line}\n[nodes.n1]\nanode.routes = \"kernel\"\n"), "write what all have into [node]"),
        (line.replace("file = \"../../apps/ping.c\"", "").replace("\"ping\"", "\"pong\""), "these are: ping"),
    ] {
        let file = folder.path().join("wrong.toml");
        std::fs::write(&file, &edit).unwrap();
        let output = anode(&["sim", "run", file.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(part), "'{part}' not in: {errors}");
    }
}

/// A file that was written for labs plays in the simulator with the same names and addresses, and ping if it has no traffic.
#[test]
fn a_lab_file_runs_with_its_own_names_and_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("history");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/diamond/topology.toml");
    let (file, trace) = (file.to_str().unwrap(), trace.to_str().unwrap());
    let output = anode(&["sim", "run", file, "--seed", "1", "--trace", trace]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("no [[traffic]]: down pings up, once a second\n"), "{text}");
    assert!(text.contains("4 nodes, 4 links"), "{text}");
    let story = anode(&["sim", "explain", "1", "--trace", trace]);
    let story = String::from_utf8(story.stdout).unwrap();
    // Either address of the destination, on the shorter way of the lab's own routes.
    assert!(story.contains("10.0.0.2") || story.contains("fd00::2"), "{story}");
    assert!(story.contains("is delivered"), "{story}");
}
