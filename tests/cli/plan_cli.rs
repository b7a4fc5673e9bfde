//! `anode plan`: exit status, output, and files that are left alone unless they should change.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn plan(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_anode"));
    command.arg("plan").args(arguments).current_dir(folder).output().unwrap()
}

fn status(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn every_file_is_checked_and_every_mistake_shown() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.plan"), "fun f(x) = x + 1").unwrap();
    std::fs::write(folder.path().join("bad.plan"), "fun f(x) = x + fals\nfun g() = 1 +").unwrap();
    let good = plan(folder.path(), &["check", "good.plan"]);
    assert_eq!(status(&good), (Some(0), "good.plan: f : int -> int\n".into()));
    let both = plan(folder.path(), &["check", "bad.plan", "good.plan"]);
    assert_eq!(status(&both), (Some(1), "good.plan: f : int -> int\n".into()));
    let shown = String::from_utf8_lossy(&both.stderr);
    for part in ["bad.plan:1:16", "did you mean 'false'?", "bad.plan:2:14", "expected an expression"] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert_eq!(plan(folder.path(), &["check", "absent.plan"]).status.code(), Some(1));
    assert_eq!(plan(folder.path(), &["check"]).status.code(), Some(2));
}

#[test]
fn json_has_types_code_and_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.plan"), "fun f(x) = x + 1").unwrap();
    std::fs::write(folder.path().join("bad.plan"), "fun f(x) =\n  prnt(x)").unwrap();
    let output = plan(folder.path(), &["check", "--json", "good.plan", "bad.plan"]);
    assert_eq!(output.status.code(), Some(1));
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value[0]["definitions"][0]["type"], "int -> int");
    assert_eq!(value[0]["code"].as_str().map(str::len), Some(64));
    assert_eq!(value[0]["diagnostics"].as_array().map(Vec::len), Some(0));
    let wrong = &value[1]["diagnostics"][0];
    assert_eq!((&wrong["line"], &wrong["column"]), (&Value::from(2), &Value::from(3)));
    assert_eq!(wrong["hint"], "did you mean 'print'?");
    assert!(value[1]["code"].is_null());
}

#[test]
fn formatting_changes_only_what_is_not_canonical_and_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("loose.plan"), "fun  f(x)=x").unwrap();
    std::fs::write(path("tidy.plan"), "fun f(x) = x\n").unwrap();
    std::fs::write(path("bad.plan"), "fun f(x = x").unwrap();
    let checked = plan(folder.path(), &["fmt", "--check", "loose.plan", "tidy.plan"]);
    assert_eq!(status(&checked), (Some(1), "loose.plan\n".into()));
    assert_eq!(std::fs::read_to_string(path("loose.plan")).unwrap(), "fun  f(x)=x");
    let written = plan(folder.path(), &["fmt", "bad.plan", "loose.plan", "tidy.plan"]);
    assert_eq!(written.status.code(), Some(1), "one could not be read");
    assert_eq!(std::fs::read_to_string(path("loose.plan")).unwrap(), "fun f(x) = x\n");
    assert_eq!(std::fs::read_to_string(path("bad.plan")).unwrap(), "fun f(x = x");
    assert_eq!(status(&plan(folder.path(), &["fmt", "--check", "loose.plan", "tidy.plan"])), (Some(0), String::new()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left behind");
}
