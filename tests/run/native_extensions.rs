//! Extensions as shared objects: a node takes them where its configuration says so, and they do what modules of the same text do.

use crate::build::{Linked, build};
use crate::held::printed;
use crate::single::{ANODE, Node};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Lets native extensions in, and graphs have engines.
const TAKES: &str = "[security]\nnative_extensions = true\n[[role]]\nname = \"graphs\"\ngrants = { channels = 1, bandwidth = 1000000 }\n";

/// The object of the text, which counts by so many.
fn object(folder: &Path, name: &str, step: u32) -> PathBuf {
    let object = folder.join(format!("{name}.so"));
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(Path::new(ROOT).join("sdk"));
    cc.args([format!("-DSTEP={step}"), format!("-DNAME=\"{name}\""), "-o".into()]).arg(&object);
    let done = cc.arg(Path::new(ROOT).join("tests/nodeos/counted.c")).status().unwrap();
    assert!(done.success());
    object
}

fn names() -> String {
    Path::new(ROOT).join("apps/extensions/names.wat").display().to_string()
}

fn refused(words: &[&str]) -> String {
    let output = Command::new(ANODE).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{words:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn said(words: &[&str]) -> String {
    String::from_utf8(printed(words)).unwrap().trim().to_owned()
}

#[test]
fn shared_objects_are_taken_where_the_configuration_says_so_and_else_refused() {
    let folder = tempfile::tempdir().unwrap();
    let object = object(folder.path(), "counted", 1).display().to_string();
    let node = Node::start("");
    let run = node.run_dir().display().to_string();
    let why = refused(&["extension", "load", &run, &names(), &object]);
    assert!(why.contains("counted is native code") && why.contains("[security] native_extensions = true"), "{why}");
    let listed = said(&["extension", "ls", &run]);
    assert!(!listed.contains("counted") && !listed.contains("names"), "nothing of the list is there: {listed}");
    let table = said(&["extension", "table", &object]);
    let file = folder.path().join("node.toml");
    let text = |security: &str| {
        let names = said(&["extension", "table", &names()]);
        format!(
            "name = \"n\"\n[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.0.0.1/24\"]\n{security}\n{names}\n{table}\n"
        )
    };
    std::fs::write(&file, text("")).unwrap();
    let why = refused(&["node", "check", file.to_str().unwrap()]);
    assert!(why.contains("[[extension]]: counted is native code"), "{why}");
    std::fs::write(&file, text("[security]\nnative_extensions = true")).unwrap();
    printed(&["node", "check", file.to_str().unwrap()]);
    let checked = said(&["extension", "check", &object]);
    assert!(
        checked.contains("native code: it runs in the node's process") && checked.contains("counted/Number"),
        "{checked}"
    );
}

#[test]
fn a_shared_object_does_what_a_module_does() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(TAKES);
    let run = node.run_dir().display().to_string();
    let call = |words: &[&str]| said(&[&["node", "call", &run], words].concat());
    let objects = [object(folder.path(), "counted", 1), object(folder.path(), "other", 10)];
    let [counted, other] = objects.each_ref().map(|object| object.display().to_string());
    printed(&["extension", "load", &run, &names(), &counted]);
    // Both are there together, and each is itself.
    printed(&["extension", "load", &run, &other]);
    for (extension, step) in [("counted", 1), ("other", 10)] {
        let count = format!("{extension}.count");
        assert_eq!([call(&[&count, "100"]), call(&[&count, "0"])], [(100 + step).to_string(), (2 * step).to_string()]);
        assert_eq!(call(&[&format!("{extension}.later")]), "true");
        let why = refused(&["node", "call", &run, &format!("{extension}.no")]);
        assert!(why.contains("refused"), "{why}");
        let why = refused(&["node", "call", &run, &format!("{extension}.lies")]);
        assert!(why.contains("it has failed"), "{why}");
    }
    // A call of another extension, which is a module, and says no.
    assert!(refused(&["node", "call", &run, "counted.find", "www"]).contains("not found"));
    call(&["names.add", "www", "10.0.0.80"]);
    assert_eq!(call(&["counted.find", "www"]), "10.0.0.80");
    let listed: serde_json::Value = serde_json::from_slice(&printed(&["extension", "ls", &run, "--json"])).unwrap();
    let loaded = listed.as_array().unwrap().iter().filter(|one| one["built_in"] == false);
    let native: Vec<_> = loaded.map(|one| one["native"].as_bool().unwrap()).collect();
    assert_eq!(native, [false, true, true], "{listed}");
    // Each engine has variables of its own.
    let graph = folder.path().join("g.click");
    let text = "s :: InfiniteSource(LIMIT 3) -> a :: counted/Number -> Print(a, 1) -> b :: counted/Number -> Print(b, 1) \
                -> c :: other/Number -> Print(c, 1) -> Discard;";
    std::fs::write(&graph, text).unwrap();
    let extensions = ["--extension", &counted, "--extension", &other, "--extension", &names()];
    let shown = said(&[&["graph", "run", graph.to_str().unwrap()][..], &extensions].concat());
    for line in ["a:   68 | 01", "b:   68 | 01", "c:   68 | 0a", "a:   68 | 03", "b:   68 | 03", "c:   68 | 1e"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    printed(&["graph", "apply", &run, "g", graph.to_str().unwrap(), "--role", "graphs"]);
    node.until(|| (said(&["graph", "read", &run, "g", "c.calls"]) == "3").then_some(()));
    assert!(refused(&["extension", "unload", &run, "counted"]).contains("graphs have engines of counted"));
    std::fs::write(&graph, "Idle -> Discard;").unwrap();
    printed(&["graph", "apply", &run, "g", graph.to_str().unwrap()]);
    printed(&["extension", "unload", &run, "counted"]);
    // It begins anew.
    printed(&["extension", "load", &run, &counted]);
    assert_eq!([call(&["counted.count", "0"]), call(&["other.count", "0"])], ["1", "30"]);
}

#[test]
fn a_shared_object_serves_plan_programs_and_is_an_order_of_queues() {
    let folder = tempfile::tempdir().unwrap();
    let object = build("tests/nodeos/fair.c", folder.path(), &[], Linked::Here).display().to_string();
    let node = Node::start("[security]\nnative_extensions = true\n");
    let run = node.run_dir().display().to_string();
    printed(&["extension", "load", &run, &object]);
    let program = folder.path().join("twice.plan");
    std::fs::write(&program, "svc twice : int -> int\nfun go(n : int) : unit = print(twice(n) + twice(1))\n").unwrap();
    let inject = ["plan", "inject", program.to_str().unwrap(), "9", "go(20)", "--node", &run, "--replies", "1"];
    let inject = [&inject[..], &["--wait", "20"]].concat();
    assert_eq!(said(&inject), "42");
    assert_eq!(said(&["extension", "unload", &run, "fair"]), "unloaded fair");
    let gone = Command::new(ANODE).args(inject).output().unwrap();
    let words = String::from_utf8_lossy(&[gone.stdout, gone.stderr].concat()).into_owned();
    assert!(words.contains("ServiceNotPresent"), "no program sees it any more: {words}");
    // Three packets of one for each of the other.
    let graph = folder.path().join("g.click");
    let text = "InfiniteSource(LIMIT 90) -> Queue(100) -> a :: Counter -> [0] o :: fair/Shares(3, 1);
                InfiniteSource(LIMIT 90) -> Queue(100) -> b :: Counter -> [1] o;
                o -> Unqueue(LIMIT 80) -> Discard;";
    std::fs::write(&graph, text).unwrap();
    let run = ["graph", "run", graph.to_str().unwrap(), "--extension", &object];
    let counts = said(&[&run[..], &["--read", "a.count", "--read", "b.count", "--read", "o.failed"]].concat());
    assert!(counts.contains("a.count: 60") && counts.contains("b.count: 20"), "{counts}");
    for (wrong, why) in
        [("fair/Shares(3, 0)", "refused"), ("fair/Shares", "refused"), ("fair/Most(3)", "unknown class")]
    {
        std::fs::write(&graph, text.replace("fair/Shares(3, 1)", wrong)).unwrap();
        let said = refused(&run);
        assert!(said.contains(why), "{wrong}: {said}");
    }
}

#[test]
fn what_is_no_extension_of_this_processor_is_refused_before_it_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(object(folder.path(), "counted", 1)).unwrap();
    let at = |text: &[u8]| whole.windows(text.len()).position(|window| window == text).unwrap();
    let changed = |place: usize, bytes: &[u8]| {
        let mut other = whole.clone();
        other[place..place + bytes.len()].copy_from_slice(bytes);
        other
    };
    let without_call = at(b"an_call_count\0");
    for (bytes, why) in [
        (whole[..40].to_vec(), ""),
        (whole[..whole.len() / 2].to_vec(), ""),
        (changed(18, &[0xf7, 0]), "not a shared object (ELF, 64 bits) for"),
        (changed(at(b"anode.extension\0"), b"x"), "no section 'anode.extension'"),
        (changed(without_call, b"x"), "the object exports no an_call_count"),
        (changed(at(b"about = "), b"abuut"), "abuut"),
        ([&whole[..], &vec![0; 300 << 10]].concat(), "at most 262144 bytes"),
    ] {
        let file = folder.path().join("bent.so");
        std::fs::write(&file, bytes).unwrap();
        let said = refused(&["extension", "check", file.to_str().unwrap()]);
        assert!(said.contains(why), "{why}: {said}");
    }
}
