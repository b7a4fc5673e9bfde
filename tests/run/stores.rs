//! Stores that outlive their node, which is killed while a program writes; what an operator sees of stores.

use crate::build::{Linked, build};
use crate::held::{Held, OF_STORES};
use crate::single::Node;
use crate::wait;
use libanode::seqpacket::SeqPacket;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROLE: &str = "[[role]]\nname = \"ee\"\n[role.grants]\nthreads = 4\nmemory_bytes = 33_554_432\nfiles = 10\nfile_bytes = 20_000_000\n";

/// Numbers that are written before the node is killed: the journal is rewritten some times before.
const WRITTEN: u32 = 1500;

fn program(dir: &Path) -> PathBuf {
    build("tests/nodeos/stores_kept.c", dir, &["-O1"], Linked::Static)
}

fn run(node: &Node, program: &Path, words: &[&str]) -> Command {
    let socket = node.run_dir().join("nodeos.sock");
    wait::unannounced(
        "one that was killed has left its socket, and the next one does not say when it has its own",
        || SeqPacket::connect(&socket).map(drop).map_err(|error| error.to_string()),
    );
    let mut command = Command::new(program);
    command.args(words).env("ANODE_NODEOS", &socket).stdout(Stdio::piped());
    command
}

/// Has a program write until the node is killed; the last number that was acknowledged.
fn write_until_killed(node: &mut Node, program: &Path, from: u32) -> u32 {
    let mut writer = run(node, program, &["write", &from.to_string()]).spawn().unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut last = 0;
    for line in lines {
        last = line.unwrap().parse().unwrap();
        if last == from + WRITTEN {
            node.process.kill().unwrap();
        }
    }
    assert!(writer.wait().unwrap().success() && last >= from + WRITTEN);
    last
}

fn read(node: &Node, program: &Path, most: u32) -> (bool, String) {
    let output = run(node, program, &["read", &most.to_string()]).output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_node_is_killed() {
    let mut node = Node::start(ROLE);
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path());
    let mut last = 0;
    for _ in 0..3 {
        last = write_until_killed(&mut node, &program, last + 1);
        node.process.wait().unwrap();
        let dir = std::mem::replace(&mut node.dir, tempfile::tempdir().unwrap());
        node = Node::start_in(dir, ROLE);
        let (done, said) = read(&node, &program, last);
        let found: u32 = said.trim().parse().unwrap_or_else(|_| panic!("{said}\n{}", node.log()));
        // One more may be there that nobody was told of.
        assert!(done && (last..=last + 1).contains(&found), "{found} of {last}");
    }
    let file = node.dir.path().join("files/spaces/keeper/stores/numbers");
    let (long, least) = (file.metadata().unwrap().len(), u64::from(last) * 740);
    assert!(long <= 2 * least + (1 << 19), "{long} bytes where {least} would do");
    // What is torn is cut off, and what is damaged is refused and said.
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 5]).unwrap();
    assert!(read(&node, &program, last - 2).0);
    assert!(node.log().contains("was not written whole"), "{}", node.log());
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let (done, said) = read(&node, &program, 1);
    assert!(!done && said.starts_with("AN_EIO"), "{said}");
    assert!(node.log().contains("a store is damaged and stays closed"), "{}", node.log());
    std::fs::write(&file, &bytes).unwrap();
    assert!(read(&node, &program, last).0, "repaired");
}

#[test]
fn an_operator_lists_stores_and_looks_into_them() {
    let node = Node::start(ROLE);
    let folder = tempfile::tempdir().unwrap();
    let mut writer = run(&node, &program(folder.path()), &["write"]).spawn().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "1");
    let json = |words: &[&str]| -> Value {
        let (done, said) = node.anode(words);
        assert!(done, "{said}");
        serde_json::from_str(&said).unwrap()
    };
    let mut held = Held::default();
    let mut of = |name: &'static str, words: &[&str]| held.check(name, json(words).to_string().as_bytes());
    let stores = of("stores", &["store", "ls", "--json"]);
    assert_eq!((&stores[0]["holder"], &stores[0]["name"]), (&"keeper".into(), &"numbers".into()), "{stores}");
    assert_eq!((&stores[0]["limit"], &stores[0]["persistent"]), (&(8 << 20).into(), &true.into()));
    let keys = of("store-keys", &["store", "ls", "keeper/numbers", "--prefix", "0x01000000", "--json"]);
    let key = &keys[0];
    assert_eq!((&key["key"], &key["version"], &key["bytes"]), (&"0x01000000".into(), &1.into(), &700.into()), "{keys}");
    let domain = json(&["domain", "ls", "--json"])["domains"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["title"] == "keeper")
        .unwrap()["id"]
        .clone();
    let said = of("store-keys", &["store", "ls", "keeper/said", "--json"]);
    assert_eq!(said[0]["domain"], Value::Null, "{said}");
    assert_eq!((&said[1]["key"], &said[1]["domain"]), (&"writer".into(), &domain), "{said}");
    let (done, text) = node.anode(&["store", "ls", "keeper/said"]);
    assert!(done && text.contains(&format!("ends with domain {domain}")), "{text}");
    let value = of("store-value", &["store", "get", "keeper/numbers", "0x01000000", "--json"]);
    assert_eq!(
        (&value["bytes"], value["value"].as_str()),
        (&700.into(), Some(format!("0x{}", "01".repeat(700)).as_str()))
    );
    assert_eq!(held.0, BTreeSet::from(OF_STORES), "something was held against each schema");
    let status = json(&["node", "status", "--json"]);
    assert!(
        status["stores"]["stores"] == 2
            && status["stores"]["registered"] == 1
            && status["stores"]["keys"].as_u64() >= Some(1),
        "{}",
        status["stores"]
    );
    let (done, said) = node.anode(&["store", "ls"]);
    assert!(done && said.contains("keeper/numbers"), "{said}");
    for (words, why) in [
        (&["store", "get", "keeper/numbers", "none"][..], "has nothing under none"),
        (&["store", "get", "keeper/others", "none"], "there is no store keeper/others"),
        (&["store", "get", "numbers", "none"], "named HOLDER/NAME"),
        (&["store", "get", "keeper/numbers", "0x1"], "pairs of hexadecimal digits"),
    ] {
        let (done, said) = node.anode(words);
        assert!(!done && said.contains(why), "{words:?}: {said}");
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    // With its domain the store ends; its file stays.
    node.until(|| json(&["store", "ls", "--json"]).as_array().unwrap().is_empty().then_some(()));
    assert!(node.dir.path().join("files/spaces/keeper/stores/numbers").exists());
}
