//! The tutorials of docs/graphs.md: blocks fenced as `sh lab` are one script, with real hosts in namespaces.
//! Its labs have names of their own.

use crate::running::ANODE;
use std::path::Path;
use std::process::{Command, Stdio};

const DOCUMENT: &str = include_str!("../../docs/graphs.md");

/// It ends at the first failure, and what it has made ends with it.
const BEGINNING: &str = "set -eu\n\
    end() { status=$?; tail -n 3 page.txt served.txt || true; \
    for lab in bypass corner; do anode lab down $lab > said.txt 2>&1 || true; done; \
    kill $(jobs -p) 2> said.txt || true; exit $status; }\n\
    trap end EXIT\n";

fn script() -> String {
    let mut inside = false;
    let lines = DOCUMENT.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        inside = if is_fence { *line == "```sh lab" } else { inside };
        inside && !is_fence
    });
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_command_of_the_tutorial_of_graphs_works() {
    crate::gate::pass();
    if !anode::sys::process::is_root() {
        assert!(std::env::var_os("CI").is_none(), "namespaces need root, and continuous integration must run this");
        println!("SKIPPED: network namespaces need root");
        return;
    }
    let own = |script: String, lab: &str| script.replace(lab, &format!("{lab}{}", std::process::id()));
    let script = ["bypass", "corner"].into_iter().fold(format!("{BEGINNING}{}", script()), own);
    let mut paths = vec![Path::new(ANODE).parent().unwrap().to_owned()];
    paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", "60", "bash", "-c", &script]).current_dir(folder.path()).stdin(Stdio::null());
    let said = std::fs::File::create(folder.path().join("script.output")).unwrap();
    command.stdout(said.try_clone().unwrap()).stderr(said).env("PATH", std::env::join_paths(paths).unwrap());
    command.env("ANODE_SOURCE", env!("CARGO_MANIFEST_DIR"));
    let status = command.status().unwrap();
    let said = std::fs::read_to_string(folder.path().join("script.output")).unwrap();
    assert!(status.success(), "{status}\n{script}\n{said}");
}
