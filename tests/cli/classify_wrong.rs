//! Wrong definitions and rules and what is said of them, kept as they are: `classify_wrong/NAME.rules`, `.protocols` and `NAME.said`.
//!
//! Each mistake has its place, the cause and a remedy, and the command ends with 1. `ANODE_BLESS=1` writes what is said again.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/classify_wrong")
}

fn classify(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_anode")).arg("classify").args(arguments).current_dir(folder()).output().unwrap()
}

#[test]
fn wrong_definitions_and_rules_are_explained_as_they_were() {
    for (name, option) in [
        ("many.rules", "--rules"),
        ("beyond.protocols", "--protocols"),
        ("circle.protocols", "--protocols"),
        ("contradicts.protocols", "--protocols"),
        ("clause.protocols", "--protocols"),
    ] {
        let output = classify(&["check", option, name]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{name}: {said}");
        let kept = folder().join(Path::new(name).with_extension("said"));
        if std::env::var_os("ANODE_BLESS").is_some() {
            std::fs::write(&kept, &said).unwrap();
        }
        assert_eq!(said, std::fs::read_to_string(&kept).unwrap(), "{name}");
    }
}

#[test]
fn what_is_no_frame_and_no_file_is_said_to_be_none() {
    let refused = |arguments: &[&str]| {
        let output = classify(arguments);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refused(&["explain", "no-such-file"]).contains("no-such-file: no frame in hexadecimal, and no file"));
    assert!(
        refused(&["explain", "many.rules"])
            .contains("many.rules: neither a capture (pcap, pcapng) nor text in hexadecimal")
    );
    assert!(refused(&["explain", "00ff", "--number", "2"]).contains("there is one frame, not 2"));
    assert!(
        refused(&["explain", "00ff", "--from", "ethernot"])
            .contains("no protocol 'ethernot' is taught; do you mean 'ethernet'?")
    );
    assert!(refused(&["check", "--rules", "no-such-file"]).contains("no-such-file"));
    let output = classify(&["explain", "00ff"]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "no more headers: ethernet at byte 0 has fewer bytes than it needs or says\n"
    );
}
