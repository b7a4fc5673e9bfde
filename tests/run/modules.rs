//! Environments that are modules: what one can do, and what becomes of those that fail. The program is `tests/nodeos/module.c`.

use crate::build::{Linked, build};
use crate::single::{Node, write_config};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Roles with short turns, and little memory.
const ROLES: &str = "[[role]]\nname = \"ee\"\n\
                     grants = { domains = 8, events = 8, threads = 1, thread_ms = 200, memory_bytes = 4_194_304 }\n\
                     [[role]]\nname = \"bare\"\nrepresentations = [\"bpf\"]\n";

fn ee(name: &str, module: &Path, word: &str) -> String {
    format!("[[ee]]\nname = \"{name}\"\nrole = \"ee\"\nrestart = \"never\"\nmodule = [{module:?}, \"{word}\"]\n")
}

#[test]
fn a_module_can_do_what_a_process_can_and_its_faults_end_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let module = build("tests/nodeos/module.c", folder.path(), &[], Linked::Module);
    // What it is told to do, how it ends, and what the log has of it.
    let cases = [
        ("whole", "status 0", "came to 11211"),
        ("memory", "status 0", "no more behind 4"),
        ("trap", "status 1", "module.wasm: a place that was not to be reached, in trap"),
        ("loop", "", "module.wasm: a function has run for longer than 200 ms, in loop"),
        ("stack", "status 1", "module.wasm: an address outside its memory, in deep"),
        ("pointer", "status 1", "module.wasm: a call that was given an address outside its memory, in pointer"),
        ("function", "status 1", "module.wasm: a function that was named by an address of none"),
        ("other", "status 4", "environment has ended"),
    ];
    let all: String = cases.iter().map(|(word, ..)| ee(word, &module, word)).collect();
    let node = Node::start(&format!("{ROLES}{all}{}", ee("beside", &module, "waits")));
    for (word, how, said) in cases {
        let ended = node.await_environment(word, |environment| environment["state"] == "ended");
        let log = node.log();
        // The node may be faster than the module's own clock.
        let by_node =
            how.is_empty() && ended["ended"].as_str().unwrap().ends_with("after the node had ended its domain");
        assert!(log.contains(said) || by_node, "{word}: {log}");
        assert!(ended["ended"].as_str().unwrap().starts_with(how), "{word}: {ended}");
        assert_eq!(ended["failures"], u8::from(how != "status 0"), "{word}: {ended}");
    }
    let beside = node.environment("beside");
    assert_eq!((&beside["state"], &beside["starts"]), (&json!("running"), &json!(1)));
    assert!(node.anode(&["ee", "stop", "beside"]).0);
    node.await_environment("beside", |environment| environment["state"] == "stopped");
}

#[test]
fn a_file_that_cannot_be_run_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let whole = "(memory (export \"memory\") 1) (table (export \"__indirect_function_table\") 1 funcref) \
                 (func (export \"main\") (param i32 i32) (result i32) i32.const 0)";
    let import = "(import \"nodeos\" \"an_eventShedule\" (func (param i32)))";
    let module = |text: &str| wat::parse_str(format!("(module {text})")).unwrap();
    fs::write(path("text"), "no module").unwrap();
    fs::write(path("empty"), module("")).unwrap();
    fs::write(path("unknown"), module(&format!("{import}{whole}"))).unwrap();
    fs::write(path("whole"), module(whole)).unwrap();
    let cases = [
        ("absent", "absent: No such file"),
        ("text", "text: this is no WebAssembly module"),
        ("empty", "empty: it exports no memory"),
        ("unknown", "anode/nodeos.h has no such call; do you mean 'an_eventSchedule'?"),
    ];
    let all: String = cases.iter().map(|(name, _)| ee(name, &path(name), "")).collect();
    let node = Node::start(&format!("{ROLES}{all}{}", ee("whole", &path("whole"), "")));
    for (name, why) in cases {
        let ended = node.await_environment(name, |environment| environment["state"] == "ended");
        assert_eq!(ended["failures"], 1, "{ended}");
        assert!(node.log().contains(why), "{name}: {}", node.log());
    }
    node.await_environment("whole", |environment| environment["ended"] == "status 0");
    let check = |rest: &str| {
        let file = write_config(folder.path(), &format!("{ROLES}{rest}"));
        let output = Command::new(crate::single::ANODE).args(["node", "check"]).arg(file).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let said = check(&all);
    assert!(cases.iter().all(|(_, why)| said.contains(why)), "{said}");
    let said = check(&ee("whole", &path("whole"), "x"));
    assert!(said.contains("environment whole in the role ee") && said.contains("a module, "), "{said}");
    let said = check(&ee("bare", &path("whole"), "").replace("role = \"ee\"", "role = \"bare\""));
    assert!(said.contains("ee bare: module: the role bare does not include WebAssembly"), "{said}");
}
