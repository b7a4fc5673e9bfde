//! `anode bench` becomes the program `anode-bench` beside it, with the same arguments, or names the command that builds
//! it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// A folder with the program, and one that prints what it is called and told.
fn place(with_bench: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (own, copy) = (Path::new(env!("CARGO_BIN_EXE_anode")), folder.path().join("anode"));
    std::fs::hard_link(own, &copy).or_else(|_| std::fs::copy(own, &copy).map(drop)).unwrap();
    if with_bench {
        let bench = folder.path().join("anode-bench");
        std::fs::write(&bench, "#!/bin/sh\nprintf '%s|' \"$@\"\nexit 7\n").unwrap();
        std::fs::set_permissions(&bench, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn shell(folder: &Path, script: &str) -> Output {
    Command::new("sh").args(["-c", script]).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_program_beside_gets_the_words_and_its_status_is_ours() {
    let folder = place(true);
    for (given, told) in [
        ("", "bench|"),
        ("--help", "bench|--help|"),
        ("method --quick --rounds 7 --out 'a b'", "bench|method|--quick|--rounds|7|--out|a b|"),
    ] {
        let output = shell(folder.path(), &format!("./anode bench {given}"));
        assert_eq!(said(&output), (Some(7), told.into()), "{given}");
    }
}

#[test]
fn without_it_the_error_says_what_to_build() {
    let output = shell(place(false).path(), "./anode bench method");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("/anode-bench cannot") && error.contains("cargo build --release -p anode-bench"), "{error}");
}

/// As while a new build takes the place of the old one.
#[test]
fn a_program_that_was_deleted_or_renamed_finds_it_in_its_folder() {
    for how in ["rm anode", "mv anode other"] {
        let folder = place(true);
        let output = shell(folder.path(), &format!("exec 3<anode; {how}; exec /proc/self/fd/3 bench method"));
        assert_eq!(said(&output), (Some(7), "bench|method|".into()), "{how}");
    }
}
