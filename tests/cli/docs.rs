//! Every command in a document that is marked as a test is run.
//!
//! Blocks fenced as `sh test` of one document are one script, in an empty folder with the project's
//! binary first in the path; a command that fails fails the test. What a script leaves running is ended
//! with it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Every script begins so: it ends at the first failure, and its jobs end with it.
const BEGINNING: &str = "set -eu\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n";

/// The script in a document, and how many blocks it has.
fn script(text: &str) -> (String, usize) {
    let (mut script, mut blocks, mut inside) = (String::from(BEGINNING), 0, false);
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
        // Into a file, as a job that goes on would hold a pipe open.
        let said = folder.path().join("script.output");
        let file = File::create(&said).unwrap();
        let status = Command::new("timeout")
            .args(["--kill-after=5", "120", "bash", "-c", &script])
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .current_dir(folder.path())
            .env("PATH", &path)
            .env("XDG_RUNTIME_DIR", folder.path())
            .env("XDG_DATA_HOME", folder.path())
            .env("ANODE_SOURCE", env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        let said = std::fs::read_to_string(&said).unwrap();
        assert!(status.success(), "{}: {status}\n{script}\n{said}", document.display());
        run += blocks;
    }
    assert!(run > 0, "no document shows a command as a test");
}

#[test]
fn blocks_of_other_kinds_are_not_run() {
    let text = "```sh\nfalse\n```\n```sh test\ntrue\n```\n```toml\nx = 1\n```\n";
    assert_eq!(script(text), (format!("{BEGINNING}true\n"), 1));
}

/// The file of docs/node.md is one that can be copied: it is read, and names no user that only some hosts have.
#[test]
fn the_file_that_the_page_of_nodes_shows_is_one() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/node.md")).unwrap();
    let (_, rest) = text.split_once("## The file").unwrap();
    let (_, rest) = rest.split_once("```toml\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let file = anode::config::NodeFile::parse(shown).unwrap();
    assert_eq!((file.name.as_str(), file.security.user), ("r1", None));
}
