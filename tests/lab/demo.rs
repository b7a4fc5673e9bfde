//! `anode demo` tells its story, in the simulator and on real interfaces, and leaves nothing behind.

use serde_json::Value;
use std::process::{Command, Output};

fn demo(arguments: &[&str]) -> Output {
    crate::gate::pass();
    Command::new(env!("CARGO_BIN_EXE_anode")).arg("demo").args(arguments).output().expect("the binary runs")
}

fn told(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

/// Code crossed both links, every part exactly once, and three nodes got it.
fn check(story: &Value) {
    assert_eq!(story["loads"].as_array().map(Vec::len), Some(3), "{story}");
    let crossings = story["crossings"].as_object().expect("crossings");
    assert_eq!(crossings.len(), 2, "{story}");
    for objects in crossings.values() {
        let parts: Vec<&Value> = objects.as_object().into_iter().flat_map(|o| o.values()).collect();
        assert_eq!(parts.len(), 2, "a manifest and a representation: {story}");
        assert!(parts.iter().all(|parts| parts.as_object().is_some_and(|p| p.values().all(|times| *times == 1))));
    }
    let cache = story["cache"].as_array().expect("cache");
    assert_eq!(cache[0][0], 2, "the origin answers first, two hops away");
    assert!(cache[1][0].as_u64() < Some(2), "then a copy on the way does");
}

#[test]
fn the_story_in_the_simulator_is_the_same_every_time() {
    let (first, second) = (told(&demo(&["--simulated", "--json"])), told(&demo(&["--simulated", "--json"])));
    check(&first);
    assert_eq!(first, second);
}

#[test]
fn the_story_on_real_interfaces_leaves_nothing_behind() {
    if !anode::sys::process::is_root() {
        assert!(std::env::var_os("CI").is_none(), "namespaces need root, and continuous integration must run this");
        println!("SKIPPED: network namespaces need root");
        return;
    }
    let ours = |name: &String| name.starts_with("an-demo");
    let output = demo(&["--json"]);
    let story = told(&output);
    check(&story);
    assert!(story["icmp_ms"].as_f64() > Some(0.0), "{story}");
    let kernel = &story["kernel"];
    match kernel["missing"].as_str() {
        Some(why) if std::env::var_os("CI").is_none() => println!("SKIPPED the kernel half: {why}"),
        _ => {
            assert!(kernel["capsules"].as_u64() > Some(0), "{story}");
            assert_eq!(kernel["in_kernel"], kernel["capsules"], "{story}");
        }
    }
    let left: Vec<_> = anode::sys::netns::names().expect("names").into_iter().filter(ours).collect();
    assert!(left.is_empty(), "namespaces left: {left:?}");
    let run = std::fs::read_dir("/run/anode").into_iter().flatten().flatten();
    let left: Vec<_> = run.map(|entry| entry.file_name()).filter(|n| n.to_string_lossy().starts_with("demo")).collect();
    assert!(left.is_empty(), "run directories left: {left:?}");
}
