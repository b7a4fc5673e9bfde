//! Wrong PLAN programs and what is said of them, kept as they are: `plan_wrong/NAME.plan` and `NAME.said`.
//!
//! Each says in one message the cause, the place and a remedy, ends with 1, and leaves nothing behind. `ANODE_BLESS=1`
//! writes what is said again.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/plan_wrong")
}

fn programs() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let plans = entries.filter(|path| path.extension().is_some_and(|extension| extension == "plan"));
    let mut names: Vec<_> = plans.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn ten_wrong_programs_are_explained_as_they_were() {
    let names = programs();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let empty = tempfile::tempdir().unwrap();
        let file = format!("{name}.plan");
        std::fs::copy(folder().join(&file), empty.path().join(&file)).unwrap();
        let run = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_anode"));
            command.arg("plan").args(arguments).current_dir(empty.path()).output().unwrap()
        };
        let output = run(&["check", &file]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{name}: {said}");
        let kept = folder().join(format!("{name}.said"));
        if std::env::var_os("ANODE_BLESS").is_some() {
            std::fs::write(&kept, &said).unwrap();
        }
        assert_eq!(said, std::fs::read_to_string(&kept).unwrap(), "{name}");
        // One message: cause, place, remedy.
        let count = |text: &str| said.matches(text).count();
        assert_eq!((count("Error: "), count(&format!("--> {file}:")), count("Help: ")), (1, 1, 1), "{name}: {said}");
        assert!(said.lines().all(|line| line.chars().count() <= 260), "{name}: {said}");
        // A node is asked for nothing, and no file stays.
        for arguments in [&["inject", &file, "1", "f()", "--node", "absent"][..], &["run", &file, "f()"]] {
            let output = run(arguments);
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(1) && why.contains("Error: "), "{name}: {why}");
        }
        assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 1, "{name} leaves nothing behind");
    }
}
