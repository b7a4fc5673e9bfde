//! `tools/again.sh` runs again what a log of tests says has failed, and nothing else.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Two targets of which three tests failed, as cargo and the test programs say it.
const LOG: &str = "test one::falls ... FAILED
failures:

---- one::falls stdout ----
no

failures:
    one::falls
    one::too

test result: FAILED. 7 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
failures:
    other
test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s
error: 2 targets failed:
    `-p anode-net --lib`
    `-p anode-net --test net`
";

/// Runs it over a log, with a cargo that says `said`: whether it ended well, and what cargo was asked.
fn again(log: &str, said: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cargo = format!("#!/bin/sh\necho \"$@\" >> {}\n{said}\n", at("asked").display());
    std::fs::write(at("cargo"), cargo).unwrap();
    std::fs::set_permissions(at("cargo"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(at("log"), log).unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/again.sh");
    let status = Command::new("sh").arg(script).arg(at("log")).env("CARGO", at("cargo")).output().unwrap().status;
    (status.success(), std::fs::read_to_string(at("asked")).unwrap_or_default())
}

const PASSED: &str = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'";

#[test]
fn failed_tests_alone_are_run_again() {
    let (is_well, asked) = again(LOG, PASSED);
    assert!(is_well);
    let names = "-- --exact one::falls one::too other";
    let wanted =
        ["--lib", "--test net"].map(|target| format!("test --release --locked -p anode-net {target} {names}\n"));
    assert_eq!(asked, wanted.concat());
}

#[test]
fn what_fails_again_fails() {
    let (is_well, asked) = again(LOG, "exit 101");
    assert!(!is_well && asked.lines().count() == 1, "{asked}");
}

#[test]
fn targets_whose_tests_are_not_named_are_run_whole() {
    let nameless = LOG.replace("    one::too\n", "");
    let (is_well, asked) = again(&nameless, PASSED);
    assert!(is_well);
    assert_eq!(asked, "test --release --locked -p anode-net --lib\ntest --release --locked -p anode-net --test net\n");
    // A program that ended before it could name one: its target has none of the names.
    let (is_well, asked) = again(LOG, "echo 'test result: ok. 0 passed; 0 failed'");
    assert!(is_well && asked.lines().filter(|line| !line.contains("--exact")).count() == 2, "{asked}");
}

#[test]
fn what_was_no_test_is_not_mended_by_a_second_run() {
    let (is_well, asked) = again("error: could not compile `anode-net`\n", PASSED);
    assert!(!is_well && asked.is_empty());
}
