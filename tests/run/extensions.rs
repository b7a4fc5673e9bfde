//! Extensions of a running node, as operators load, call and unload them; what is printed is as its schema says.

use crate::held::{Held, OF_EXTENSIONS, printed};
use crate::single::{ANODE, Node};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// An extension that comes with anode.
fn file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("apps/extensions/{name}.wat")).display().to_string()
}

/// Why a command is refused.
fn refused(words: &[&str]) -> String {
    let output = Command::new(ANODE).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{words:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn extensions_are_loaded_called_and_unloaded_and_plan_programs_see_their_services() {
    let node = Node::start("");
    let (mut held, run) = (Held::default(), node.run_dir().display().to_string());
    let (run, names, tunnels) = (run.as_str(), file("names"), file("tunnels"));
    let mut of = |name: &'static str, words: &[&str]| held.check(name, &printed(&[words, &["--json"]].concat()));
    let checked = of("extension-checked", &["extension", "check", &tunnels]);
    assert_eq!((&checked["name"], &checked["needs"][0]), (&"tunnels".into(), &"names.lookup : string -> host".into()));
    let loaded = of("extension-changed", &["extension", "load", run, &tunnels, &names]);
    assert_eq!(loaded["names"], serde_json::json!(["names", "tunnels"]));
    of("extension-called", &["node", "call", run, "names.add", "vtep.west", "10.0.0.9"]);
    let end = of("extension-called", &["node", "call", run, "tunnels.end", "west"]);
    assert_eq!(end["value"], "10.0.0.9");
    let listed = of("extensions", &["extension", "ls", run]);
    assert_eq!((&listed[0]["name"], &listed[1]["called"]), (&"names".into(), &1.into()), "{listed}");
    let bare = node.dir.path().join("bare.wat");
    std::fs::write(&bare, "(module)").unwrap();
    let bare = bare.display().to_string();
    let services = || node.control().status().unwrap()["plan"]["services"].to_string();
    assert!(services().contains("\"end\""), "{}", services());
    for (words, why) in [
        (&["node", "call", run, "tunnels.end", "east"][..], "tunnels.end: not found"),
        (&["node", "call", run, "tunnels.and", "east"], "tunnels has no call 'and'; it has: end"),
        (&["extension", "load", run, &names], "an extension names is loaded already"),
        (&["extension", "unload", run, "names"], "names is needed by tunnels"),
        (&["extension", "load", run, &bare], "no custom section 'anode.extension'"),
    ] {
        let said = refused(words);
        assert!(said.contains(why), "{words:?}: {said}");
    }
    let unloaded = of("extension-changed", &["extension", "unload", run, "names", "--cascade"]);
    assert_eq!(unloaded["names"], serde_json::json!(["tunnels", "names"]));
    assert!(!services().contains("\"end\""), "{}", services());
    // What is an operator's service already is not taken from him.
    let rand = Path::new(env!("CARGO_MANIFEST_DIR")).join("apps/services/rand.wat").display().to_string();
    printed(&["plan", "load-service", "end", "void -> int", &rand, "--node", run]);
    let said = refused(&["extension", "load", run, &names, &tunnels]);
    assert!(said.contains("a service end is loaded already"), "{said}");
    assert_eq!(printed(&["extension", "ls", run]), b"", "none of them is there");
    assert_eq!(held.0, BTreeSet::from(OF_EXTENSIONS), "something was held against each schema");
}
