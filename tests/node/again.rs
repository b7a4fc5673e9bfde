//! What one node does with a packet is the same if it has two workers, to whichever of them the packet comes.

use std::process::Command;

/// The files whose tests are about a node; those of others drive one worker of it step by step.
const ALIKE: [&str; 2] = ["cases::", "hello::"];

#[test]
fn verdicts_packets_and_counters_are_those_of_one_worker() {
    let mut again = Command::new(std::env::current_exe().unwrap());
    let done = again.env("WORKERS", "2").arg("-q").args(ALIKE).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "WORKERS=2: {text}{}", String::from_utf8_lossy(&done.stderr));
    assert!(text.contains("test result: ok") && !text.contains("running 0 tests"), "{text}");
}
