//! Wrong lab files and what is said of them, kept as they are: `lab_wrong/NAME.toml` and `NAME.said`.
//!
//! Each says in one message the cause, the place and a remedy, ends with 1, and leaves nothing behind, whether the lab is
//! checked or to be built. Files that begin with `# For anode sim` are the simulator's. `ANODE_BLESS=1` writes what is said
//! again.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What files begin with that are wrong in the simulator only.
const SIMULATOR: &str = "# For anode sim";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/lab_wrong")
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let mut names: Vec<_> = files.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// What is wrong with a message about a file: cause, place and remedy stand in it once.
fn lacks(said: &str, file: &str) -> Option<&'static str> {
    let Some((first, rest)) = said.split_once('\n') else { return Some("nothing") };
    let Some(place) = first.strip_prefix(&format!("anode: {file}:")) else { return Some("no file") };
    // The parser of TOML shows the place, and the remedy stands below; else it is one line.
    if let Some(column) = place.strip_prefix(" TOML parse error at line ") {
        let shown = rest.lines().any(|line| line.trim_start().starts_with('|') && line.contains('^'));
        let last = rest.lines().last().unwrap_or_default();
        return (!column.contains(", column ") || !shown || !last.starts_with("remedy: "))
            .then_some("no mark or remedy");
    }
    let Some((line, text)) = place.split_once(": ") else { return Some("no line") };
    if line.parse::<usize>().is_err() {
        return Some("no line");
    }
    let remedy = text.split_once("; ").is_some_and(|(cause, remedy)| !cause.is_empty() && !remedy.is_empty());
    (!remedy || !rest.is_empty()).then_some("no cause and remedy in one line")
}

#[test]
fn ten_wrong_lab_files_are_explained_as_they_were() {
    let names = names();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let (empty, file) = (tempfile::tempdir().unwrap(), format!("{name}.toml"));
        let text = std::fs::read_to_string(folder().join(&file)).unwrap();
        std::fs::write(empty.path().join(&file), &text).unwrap();
        let run = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_anode"));
            let output = command.args(arguments).arg(&file).current_dir(empty.path()).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]), "{name} {arguments:?}: {said}");
            said
        };
        let ways: &[&[&str]] = if text.starts_with(SIMULATOR) {
            &[&["sim", "run"]]
        } else {
            &[&["lab", "check"], &["lab", "up", "--nodes"]]
        };
        let kept = folder().join(format!("{name}.said"));
        for way in ways {
            let said = run(way);
            if std::env::var_os("ANODE_BLESS").is_some() {
                std::fs::write(&kept, &said).unwrap();
            }
            assert_eq!(said, std::fs::read_to_string(&kept).unwrap_or_default(), "{name} {way:?}");
            assert_eq!(lacks(&said, &file), None, "{name}: {said}");
        }
        assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 1, "{name} leaves a file behind");
        assert!(!anode::lab::list().unwrap().iter().any(|lab| lab.name == "wrong"), "{name} leaves a lab behind");
        let namespaces = anode::sys::netns::names().unwrap();
        assert!(!namespaces.iter().any(|name| name.starts_with("an-wrong-")), "{name} leaves {namespaces:?} behind");
    }
}
