//! Every command that a document shows as a test is run.
//!
//! Blocks fenced as `sh test` of one document are one script, in an empty folder with the project's
//! binary first in the path; a command that fails fails the test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The documents of the project.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in [root.to_owned(), root.join("docs"), root.join("clients/python")] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        found.extend(entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "md")));
    }
    found.sort();
    found
}

/// The script in a document, and how many blocks it has.
fn script(text: &str) -> (String, usize) {
    let (mut script, mut blocks, mut inside) = (String::from("set -eu\n"), 0, false);
    for line in text.lines() {
        match line.trim() {
            "```sh test" => {
                inside = true;
                blocks += 1;
            }
            "```" => inside = false,
            _ if inside => {
                script += line;
                script.push('\n');
            }
            _ => {}
        }
    }
    (script, blocks)
}

#[test]
fn every_command_shown_as_a_test_works() {
    let binary = Path::new(env!("CARGO_BIN_EXE_anode"));
    let mut paths = vec![binary.parent().unwrap().to_owned()];
    paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let path = std::env::join_paths(paths).unwrap();
    let mut run = 0;
    for document in documents() {
        let (script, blocks) = script(&std::fs::read_to_string(&document).unwrap());
        if blocks == 0 {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new("bash")
            .args(["-c", &script])
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("XDG_RUNTIME_DIR", folder.path())
            .env("XDG_DATA_HOME", folder.path())
            .env("ANODE_SOURCE", env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}:\n{script}\n{said}\n{errors}", document.display());
        run += blocks;
    }
    assert!(run > 0, "no document shows a command as a test");
}

#[test]
fn blocks_of_other_kinds_are_not_run() {
    let text = "```sh\nfalse\n```\n```sh test\ntrue\n```\n```toml\nx = 1\n```\n";
    assert_eq!(script(text), ("set -eu\ntrue\n".into(), 1));
}
