//! `anode bench NAME --against BINARY`: two builds of anode in turn, from the command line.
//!
//! One test measures for real, with this build as both sides. The others hand it programs that are no other build, which it
//! must refuse before it measures anything.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ANODE: &str = env!("CARGO_BIN_EXE_anode-bench");

fn against(bench: &str, binary: &Path, out: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(ANODE);
    command.args(["bench", bench, "--quick", "--against"]).arg(binary).arg("--out").arg(out).args(more);
    command.output().expect("the binary runs")
}

/// A program of the shell.
fn program(folder: &Path, lines: &str) -> PathBuf {
    let path = folder.join("other");
    std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A program that prints `text`, whatever it is asked.
fn says(folder: &Path, text: &str) -> PathBuf {
    program(folder, &format!("cat <<'END'\n{text}\nEND"))
}

fn refused(output: &Output, part: &str) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains(part), "no '{part}' in: {error}");
}

#[test]
fn a_build_beside_itself_has_ratios_of_all_its_rows_and_leaves_files() {
    let folder = tempfile::tempdir().unwrap();
    let output = against("nodeos", Path::new(ANODE), folder.path(), &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert!(
        !rows.is_empty() && result["only_this"] == serde_json::json!([]) && result["only_other"] == result["only_this"]
    );
    for row in rows {
        assert_eq!(row["rounds"], 5, "{row}");
        assert!(row["ratio"]["interval_95"].is_array(), "{row}");
    }
    assert_eq!(result["this"]["sha256"], result["other"]["sha256"]);
    assert!(!result["command"].as_str().unwrap().contains('/'), "{}", result["command"]);
    let page = std::fs::read_to_string(folder.path().join("nodeos-against.md")).unwrap();
    assert!(page.contains("this/other"), "{page}");
    assert!(folder.path().join("nodeos-against.json").exists());
}

/// As `anode bench` does, and as the node did that had its measurements inside: the noun comes first.
#[test]
fn a_build_is_named_by_its_node_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let node = program(folder.path(), &format!("[ \"$1\" = bench ] && exec {ANODE} \"$@\""));
    let output = against("nodeos", &node, folder.path(), &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!result["rows"].as_array().unwrap().is_empty() && result["only_other"] == serde_json::json!([]));
}

#[test]
fn what_is_no_other_build_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    refused(&against("method", Path::new("/nonexistent/anode"), out, &[]), "/nonexistent/anode does not start");
    refused(&against("method", &says(out, "hello"), out, &[]), "prints no report of a round");
    refused(&against("method", Path::new("/bin/false"), out, &[]), "exit status: 1");
    let report = |bench: &str, definition: u32| {
        format!(r#"{{"bench":"{bench}","definition":{definition},"environment":{{"anode":"9"}},"rows":[],"notes":[]}}"#)
    };
    refused(&against("method", &says(out, &report("method", 999)), out, &[]), "its definition of method is 999");
    refused(&against("method", &says(out, &report("plan", 1)), out, &[]), "it measured plan in the place of method");
    assert!(!out.join("method-against.json").exists());
}

#[test]
fn fewer_than_five_pairs_are_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let output = against("method", Path::new(ANODE), folder.path(), &["--rounds", "4"]);
    assert_eq!(output.status.code(), Some(2));
}
