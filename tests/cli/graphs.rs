//! Graphs in `examples/graphs` run over their captures: what leaves is what `make.py` has written there by other means, and what is
//! printed is what each file says. `// run:` has the arguments of a graph, `// >` a line of output.

use anode::port::pcap;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/graphs");

fn anode(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anode")).arg("graph").args(arguments).current_dir(FOLDER).output().unwrap()
}

fn graphs() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "click")).collect();
    found.sort();
    found
}

/// Whether a line is as the file says, in which `…` is anything.
fn fits(shown: &str, said: &str) -> bool {
    match shown.split_once('…') {
        Some((begin, end)) => said.starts_with(begin) && said.ends_with(end),
        None => shown == said,
    }
}

/// The frames of each capture in a folder, by the name of its file.
fn captures(folder: &Path) -> BTreeMap<String, Vec<Vec<u8>>> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
    entries.map(|path| (name(&path), pcap::read(&path).unwrap())).collect()
}

#[test]
fn graphs_do_what_their_files_say() {
    let (mut run, mut compared) = (0, 0);
    for graph in graphs() {
        let text = std::fs::read_to_string(&graph).unwrap();
        let name = graph.file_stem().unwrap().to_str().unwrap();
        let arguments = text.lines().find_map(|line| line.strip_prefix("// run:")).unwrap_or_else(|| panic!("{name}"));
        let shown: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("// > ")).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = format!("{name}.click");
        let mut all = vec!["run", &file, "--to", folder.path().to_str().unwrap()];
        all.extend(arguments.split_whitespace());
        let done = anode(&all);
        let said = String::from_utf8(done.stdout).unwrap();
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{name}: {why}");
        let lines: Vec<_> = said.lines().collect();
        let matches = lines.len() == shown.len() && shown.iter().zip(&lines).all(|(shown, said)| fits(shown, said));
        assert!(matches, "{name}:\n{said}is not\n{}", shown.join("\n"));
        let (expected, left) = (captures(&Path::new(FOLDER).join("expected").join(name)), captures(folder.path()));
        for (device, frames) in &expected {
            let came = left.get(device).unwrap_or_else(|| panic!("{name}: nothing left by {device}"));
            assert_eq!(came.len(), frames.len(), "{name}: {device}");
            for (at, (came, wanted)) in came.iter().zip(frames).enumerate() {
                assert_eq!(hex::encode(came), hex::encode(wanted), "{name}: {device}, frame {at}");
            }
        }
        compared += usize::from(!expected.is_empty());
        run += 1;
    }
    assert!(run >= 25 && compared >= 12, "{run} graphs, {compared} with frames");
}

#[test]
fn graphs_are_checked_formatted_and_shown() {
    let files: Vec<_> = graphs().iter().map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let files: Vec<_> = files.iter().map(String::as_str).collect();
    let checked = anode(&[&["check"], &files[..]].concat());
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert_eq!(String::from_utf8(checked.stdout).unwrap().lines().count(), files.len());
    let formatted = anode(&[&["fmt", "--check"], &files[..]].concat());
    assert!(formatted.status.success(), "{}", String::from_utf8_lossy(&formatted.stdout));
    let shown = String::from_utf8(anode(&["show", "priority.click"]).stdout).unwrap();
    assert!(shown.contains("Queue@") && shown.contains(":: PrioSched  ll/l"), "{shown}");
    let doc = String::from_utf8(anode(&["doc", "RED"]).stdout).unwrap();
    assert!(doc.contains("MIN_THRESH"), "{doc}");
    assert!(!anode(&["doc", "NoSuchClass"]).status.success());
}

#[test]
fn wrong_graphs_are_refused_with_their_place_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out");
    for (text, said) in [
        ("FromDevice(a) -> ToDevice(b);", "push and pull meet"),
        ("FromDevice(a) -> Queu -> ToDevice(b);", "Queue"),
        ("FromDevice(a) -> Strip(x) -> Discard;", "'x' is not a number"),
        ("FromDevice(a) -> Queue(9999999) -> ToDevice(b);", "too large"),
        ("a :: Counter -> b :: Counter -> a;", "circle"),
    ] {
        let file = folder.path().join("wrong.click");
        std::fs::write(&file, text).unwrap();
        let done = anode(&["run", file.to_str().unwrap(), "--to", to.to_str().unwrap()]);
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && why.contains(said) && why.contains("wrong.click:1:"), "{text}: {why}");
        assert!(!to.exists(), "{text}");
    }
    for (arguments, said) in [
        (&["run", "failover.click", "--from", "eth9=in/mixed.pcap"][..], "no device"),
        (&["run", "failover.click", "--from", "eth0=make.py"], "no capture"),
        (&["run", "failover.click", "--read", "s.nothing"], "no such handler"),
        (&["run", "failover.click", "--write", "t.switch=1"], "no such engine"),
        (&["run", "generator.click", "--packets", "3"], "LIMIT"),
    ] {
        let done = anode(arguments);
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && why.contains(said), "{arguments:?}: {why}");
    }
}

/// A graph of somebody else's reads no file that its user did not name, and writes none outside the folder that was given.
#[test]
fn names_in_graphs_lead_to_no_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let graph = folder.path().join("g.click");
    std::fs::write(
        &graph,
        concat!(
            "FromDump(/etc/passwd) -> ToDump(../../outside); FromDump(../x) -> Discard;",
            "s :: InfiniteSource(LIMIT 1) -> ToDump(..);",
        ),
    )
    .unwrap();
    let to = folder.path().join("out");
    let done = anode(&["run", graph.to_str().unwrap(), "--to", to.to_str().unwrap()]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let names: Vec<_> = std::fs::read_dir(&to).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["unnamed.pcapng"], "of '..' nothing is left");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
