//! Extensions of a running node, as operators load, call and unload them; what is printed is as its schema says.

use crate::apply::{apply, file as other_file};
use crate::held::{Held, OF_EXTENSIONS, printed};
use crate::single::{ANODE, Node};
use crate::wait;
use model::Ask;
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
    let built_in = listed.as_array().unwrap().iter().filter(|one| one["built_in"] == true).count();
    let loaded = &listed.as_array().unwrap()[built_in..];
    assert_eq!((built_in, &loaded[0]["name"], &loaded[1]["called"]), (3, &"names".into(), &1.into()), "{listed}");
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
    let all = String::from_utf8(printed(&["extension", "ls", run])).unwrap();
    assert_eq!((all.matches("part of every node").count(), all.contains("tunnels")), (3, false), "{all}");
    assert_eq!(held.0, BTreeSet::from(OF_EXTENSIONS), "something was held against each schema");
}

/// The table of an extension that comes with anode.
fn table(name: &str) -> String {
    String::from_utf8(printed(&["extension", "table", &file(name)])).unwrap()
}

#[test]
fn extensions_of_a_configuration_are_there_from_the_start_and_come_and_go_with_it() {
    let node = Node::start(&format!("[[role]]\nname = \"guests\"\n{}{}", table("tunnels"), table("names")));
    let run = node.run_dir().display().to_string();
    let run = run.as_str();
    let call = |words: &[&str]| String::from_utf8(printed(&[&["node", "call", run], words].concat())).unwrap();
    let services = || node.control().status().unwrap()["plan"]["services"].to_string();
    let names = || {
        let listed: serde_json::Value = serde_json::from_slice(&printed(&["extension", "ls", run, "--json"])).unwrap();
        let loaded = listed.as_array().unwrap().iter().filter(|one| one["built_in"] == false);
        loaded.map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!((names(), services().contains("\"end\"")), (vec!["names".into(), "tunnels".into()], true));
    call(&["names.add", "vtep.west", "10.0.0.9"]);
    assert_eq!(call(&["tunnels.end", "west"]), "10.0.0.9\n");
    for words in [&["extension", "unload", run, "tunnels"][..], &["extension", "unload", run, "names", "--cascade"]] {
        let said = refused(words);
        assert!(said.contains("tunnels is an [[extension]] of the configuration"), "{words:?}: {said}");
    }
    // What has not changed goes on as it is; what others need does not go alone.
    let without_any = other_file(&node, "none.toml", "");
    let with = |name: &str, tables: &str| other_file(&node, name, &format!("[[role]]\nname = \"guests\"\n{tables}"));
    let alone = with("alone.toml", &table("names"));
    let (done, said) = apply(&with("broken.toml", &table("tunnels")), &[]);
    assert!(
        !done && said.contains("tunnels needs names.lookup : string -> host: no extension 'names' is loaded"),
        "{said}"
    );
    let (done, said) = apply(&alone, &[]);
    assert!(done && said.contains("- extension tunnels"), "{said}");
    assert_eq!((names(), services().contains("\"end\"")), (vec!["names".to_owned()], false));
    assert_eq!(call(&["names.lookup", "vtep.west"]), "10.0.0.9\n", "its memory is what it was");
    // Operators may load what needs it; then it stays.
    printed(&["extension", "load", run, &file("tunnels")]);
    let (done, said) = apply(&without_any, &[]);
    assert!(!done && said.contains("tunnels, which an operator has loaded, needs names"), "{said}");
    let (done, said) = node.anode(&["node", "rollback"]);
    assert!(!done && said.contains("an extension tunnels is loaded already: unload it first"), "{said}");
    printed(&["extension", "unload", run, "tunnels"]);
    let (done, said) = node.anode(&["node", "rollback"]);
    assert!(done && said.contains("+ extension tunnels"), "{said}");
    assert_eq!((call(&["tunnels.end", "west"]), services().contains("\"end\"")), ("10.0.0.9\n".into(), true));
    // Another module has a memory of its own, and so have those that need it.
    let changed = std::fs::read_to_string(file("names")).unwrap().replace("256 names", "about 256 names");
    let text = format!("[[extension]]\nname = \"names\"\nmodule = '''\n{changed}'''\n{}", table("tunnels"));
    let (done, said) = apply(&with("changed.toml", &text), &[]);
    assert!(done && said.contains("extension names module: 0061736d"), "{said}");
    assert!(said.contains("bytes) → ;; Names of hosts"), "{said}");
    assert!(refused(&["node", "call", run, "tunnels.end", "west"]).contains("not found"), "its table is empty");
    let (done, said) = apply(&without_any, &[]);
    assert!(done, "{said}");
    assert_eq!((names(), services().contains("\"end\"")), (vec![], false));
}

/// Whether a channel's rule holds for a datagram from 10.0.0.N to port 2001.
fn holds(run: &str, last: u8) -> bool {
    let frame = format!(
        "020000000001020000000002080045000020000000004011{:04x}0a0000{last:02x}0a000002000907d1000c000011030007",
        0x66cc - u16::from(last)
    );
    let explained = printed(&["classify", "explain", &frame, "--node", run, "--json"]);
    serde_json::from_slice::<serde_json::Value>(&explained).unwrap()["rules"][0]["holds"] == true
}

#[test]
fn rules_ask_an_extension_for_hosts_and_one_that_fails_changes_nothing() {
    let role = "[[role]]\nname = \"ee\"\ngrants = { channels = 8, bandwidth = 1_000_000 }\n";
    let with = |extension: &str| {
        format!("{role}[classify]\nresolve = [\"www\"]\nname_service = \"names.lookup\"\n{extension}")
    };
    let node = Node::start(&with(&table("names")));
    let run = node.run_dir().display().to_string();
    let run = run.as_str();
    let rule = "*/ip/udp/rule [ip (src = www) | udp (dport = 2001) | *]";
    printed(&["channel", "cut", run, rule, "*/ip/udp *:9 -> 10.0.0.9:9", "--role", "ee"]);
    assert!(!holds(run, 7), "nobody knows the host");
    let add = |last: u8| {
        printed(&["node", "call", run, "names.add", "www", &format!("10.0.0.{last}")]);
        wait::unannounced("a status does not say what rules mean", || {
            holds(run, last).then_some(()).ok_or(String::new())
        });
    };
    add(7);
    add(8);
    assert!(!holds(run, 7), "the host is another one now");
    let said = refused(&["extension", "unload", run, "names", "--cascade"]);
    assert!(said.contains("names is an [[extension]] of the configuration"), "{said}");
    let (done, said) = apply(&other_file(&node, "without.toml", &with("")), &[]);
    assert!(!done && said.contains("there is no [[extension]] names in this configuration"), "{said}");
    let hosts = |of: &str| node.control().status().unwrap()["rule_hosts"][of].as_u64().unwrap();
    // One whose look-ups trap, loop, say no or are no host leaves what was found last.
    for body in ["(unreachable)", "(loop $on (br $on)) (i32.const 0)", "(i32.const -1)", "(i32.const 8)"] {
        let module = format!(
            "(module (memory (export \"memory\") 1) (global (export \"an_buffer\") i32 (i32.const 0))
               (func (export \"lookup\") (param i32) (result i32) {body})
               (@custom \"anode.extension\" \"name = 'names'\\n[[call]]\\nname = 'lookup'\\ntype = 'string -> host'\"))"
        );
        let (failed, text) = (hosts("failed"), format!("[[extension]]\nname = \"names\"\nmodule = '''\n{module}'''\n"));
        let (done, said) = apply(&other_file(&node, "bad.toml", &with(&text)), &[]);
        assert!(done, "{said}");
        node.until(|| (hosts("failed") > failed).then_some(()));
        assert_eq!((holds(run, 8), hosts("hosts"), hosts("unknown")), (true, 1, 0), "{body}");
    }
    let (done, said) = apply(&other_file(&node, "good.toml", &with(&table("names"))), &[]);
    assert!(done, "{said}");
    add(9);
}

#[test]
fn what_engines_of_extensions_keep_counts_for_their_graph() {
    let role = |memory: u32| {
        format!("[[role]]\nname = \"graphs\"\ngrants = {{ channels = 1, bandwidth = 1000, memory_bytes = {memory} }}\n")
    };
    let text = "TimedSource(1) -> n :: tunnels/Network(7) -> Discard; n [1] -> Discard;";
    for (memory, is_taken) in [(100_000, false), (200_000, true)] {
        let node = Node::start(&role(memory));
        let run = node.run_dir().display().to_string();
        printed(&["extension", "load", &run, &file("names"), &file("tunnels")]);
        let graph = node.dir.path().join("g.click");
        std::fs::write(&graph, text).unwrap();
        let words = ["graph", "apply", &run, "g", graph.to_str().unwrap(), "--role", "graphs"];
        if is_taken {
            printed(&words);
        } else {
            let why = refused(&words);
            let wanted =
                "its engines of extensions have 131072 bytes of memory, and its role 100000: grants.memory_bytes";
            assert!(why.contains(wanted), "{why}");
            assert_eq!(String::from_utf8(printed(&["domain", "ls", &run])).unwrap().matches(" g ").count(), 0);
        }
    }
}

#[test]
fn what_every_node_has_is_called_and_needed_as_others_are_and_stays() {
    let node = Node::start("neighbours = [{ address = \"10.9.9.2\", at = \"127.0.0.1:9\" }]\n");
    let run = node.run_dir().display().to_string();
    let call = |words: &[&str]| String::from_utf8(printed(&[&["node", "call", &run], words].concat())).unwrap();
    assert_eq!(call(&["links.neighbour", "0"]), "(10.9.9.2, <dev 0>)\n");
    let not_called = |words: &[&str]| refused(&[&["node", "call", &run], words].concat());
    assert!(not_called(&["links.neighbour", "1"]).contains("not found"));
    let fetch = call(&["code.fetch", "http://a/", "b"]);
    assert!(call(&["code.state", fetch.trim()]).contains("refused"), "the configuration has no hosts");
    // More routes than there is room for.
    let ask = |at: u32| {
        let [.., third, fourth] = at.to_be_bytes();
        let arguments = [&format!("172.16.{third}.{fourth}"), "32", "10.9.9.2", "0"].map(str::to_owned).to_vec();
        let call = Ask::Call { call: "ways.set".into(), arguments };
        node.control().asked::<model::extensions::Called>(&call)
    };
    for at in 0..64 {
        ask(at).unwrap();
    }
    let why = ask(64).unwrap_err().to_string();
    assert!(why.contains("too big, or no room for more"), "{why}");
    ask(63).unwrap();
    call(&["ways.remove", "172.16.0.0", "32"]);
    ask(64).unwrap();
    for name in ["links", "ways", "code"] {
        assert!(refused(&["extension", "unload", &run, name]).contains("part of every node"));
        let module = node.dir.path().join("taken.wat");
        let text = format!(
            "(module (memory (export \"memory\") 1) (global (export \"an_buffer\") i32 (i32.const 0))
               (@custom \"anode.extension\" \"name = '{name}'\"))"
        );
        std::fs::write(&module, text).unwrap();
        let said = refused(&["extension", "load", &run, &module.display().to_string()]);
        assert!(said.contains("every node has an extension of this name"), "{said}");
    }
}
