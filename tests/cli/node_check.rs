//! `anode node check` and a start refuse the same, with the key that is meant; what has no effect is said, and what was there stays.

use anode::manage::client::ClientError;
use anode::sys::process::is_root;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

fn anode(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", "20", env!("CARGO_BIN_EXE_anode")]).args(arguments).current_dir(folder);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A folder with a secret that others can read, one that is a signing key, and a text.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("open.key"), "07".repeat(32)).unwrap();
    fs::set_permissions(at("open.key"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(at("short.key"), "07").unwrap();
    fs::set_permissions(at("short.key"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(at("letter.txt"), "Dear operator").unwrap();
    assert!(anode(folder.path(), &["cred", "new", "signing.key"]).status.success());
    folder
}

/// A configuration: lines of its port, then whole tables.
fn config(folder: &Path, port: &str, tables: &str) {
    let text = format!(
        "name = \"n\"\nrun_dir = {:?}\n[[port]]\nname = \"west\"\nudp = \"127.0.0.1:0\"\naddress = [\"10.8.0.1/24\"]\n{port}\n{tables}\n",
        folder.join("run")
    );
    fs::write(folder.join("node.toml"), text).unwrap();
}

/// `anode` as an ordinary user, who lacks a part of the sandbox on any host: a user of the node's own.
fn as_ordinary(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = match is_root() {
        true => Command::new("setpriv"),
        false => Command::new("env"),
    };
    if is_root() {
        command.args(["--reuid=12345", "--regid=12345", "--clear-groups"]);
    }
    command.args(["timeout", "--kill-after=1", "3", env!("CARGO_BIN_EXE_anode")]).args(arguments).current_dir(folder);
    command.output().unwrap()
}

#[test]
fn a_host_that_lacks_what_is_required_starts_no_node_and_others_are_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("run")).unwrap();
    if is_root() {
        std::os::unix::fs::chown(folder.path().join("run"), Some(12345), Some(12345)).unwrap();
    }
    for verb in ["check", "run"] {
        for (table, words) in [
            ("security", "[security] require has \"user\": the node has no user of its own"),
            ("jail", "jails have no user"),
        ] {
            config(folder.path(), "", &format!("[{table}]\nrequire = [\"user\"]"));
            let refused = as_ordinary(folder.path(), &["node", verb, "node.toml"]);
            if said(&refused).contains("ermission denied") {
                println!("SKIPPED: another user cannot reach this program");
                return;
            }
            assert_eq!(refused.status.code(), Some(1), "{verb}: {}", said(&refused));
            assert!(said(&refused).contains(words), "{verb}: {}", said(&refused));
        }
        config(folder.path(), "", "");
        let told = said(&as_ordinary(folder.path(), &["node", verb, "node.toml"]));
        assert!(told.contains("the node has no user of its own"), "{verb}: {told}");
        assert!(told.contains("no user of their own (needs root)"), "{verb}: {told}");
    }
    config(folder.path(), "", "[jail]\nrequire = [\"landlock\"]");
    assert!(
        said(&as_ordinary(folder.path(), &["node", "check", "node.toml"]))
            .contains("[jail] require is part of [security] require")
    );
    config(folder.path(), "", "[security]\nrequire = [\"namespaces\", \"magic\"]");
    assert!(said(&as_ordinary(folder.path(), &["node", "check", "node.toml"])).contains("magic"));
}

#[test]
fn what_a_start_refuses_check_refuses_with_the_key_that_is_meant() {
    let folder = folder();
    let near =
        |keys: &str| format!("neighbours = [{{ address = \"10.8.0.2\", at = \"127.0.0.1:9\", keys = [\"{keys}\"] }}]");
    let principal = |file: &str| format!("[[plan.principal]]\nname = \"p\"\nkey_file = \"{file}\"");
    for (port, tables, part) in [
        ("", "[security]\nuser = 0".to_owned(), "[security] user = 0 is root: name a user of its own"),
        ("", "[security]\nuser = \"root\"".into(), "[security] user = \"root\" is root"),
        ("", "[security]\nuser = -1".into(), "the name of a user, or its number"),
        ("", "[jail]\nusers = [60_800, 60_900]".into(), "[jail] users"),
        ("", "[cpu]\naffinity = [9999]".into(), "[cpu] affinity: this host has no CPU 9999"),
        ("", "[plan]\nhosts = \"nowhere\"".into(), "cannot read the hosts nowhere"),
        ("", principal("nowhere"), "[[plan.principal]] p: key_file: key nowhere"),
        ("", principal("open.key"), "mode 644"),
        ("", principal("short.key"), "64 hexadecimal digits"),
        ("pcap = \"letter.txt\"", String::new(), "this is no capture file, and would be lost"),
        ("pcap = \"nowhere/x.pcap\"", String::new(), "there is no directory nowhere"),
        (
            "signed_bound_max = 10",
            String::new(),
            "node.toml: port west: signed_bound_max = 10: less than bound_max = 64",
        ),
        ("demand = \"mac\"", String::new(), "as in [\"mac\"]"),
        (&near("signing.key"), String::new(), "this is a signing key, not a secret of two neighbours"),
        (&near("nowhere"), String::new(), "make one with: anode cred secret FILE"),
    ] {
        config(folder.path(), port, &tables);
        for verb in ["check", "run"] {
            let output = anode(folder.path(), &["node", verb, "node.toml"]);
            let said = said(&output);
            assert!(output.status.code() == Some(1) && said.contains(part), "{verb} {port}{tables}: {said}");
        }
    }
    assert_eq!(fs::read_to_string(folder.path().join("letter.txt")).unwrap(), "Dear operator");
}

#[test]
fn what_has_no_effect_is_said_in_words_for_people() {
    let folder = folder();
    fs::write(folder.path().join("before.pcap"), [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]).unwrap();
    let tables = "[plan]\nrestricted = [\"memoryUze\"]\n[[ee]]\nname = \"e\"\ncommand = [\"/usr/bin/forwarder\"]\n[security]\nuser = \"daemon\"";
    config(folder.path(), "pcap = \"before.pcap\"", tables);
    let output = anode(folder.path(), &["node", "check", "node.toml"]);
    let text = said(&output);
    assert!(output.status.success() && text.ends_with("ok\n"), "{text}");
    for part in [
        "note: [plan] restricted: no service \"memoryUze\" here now",
        "note: ee e: command: there is no program /usr/bin/forwarder",
        "changed default: [[port]] bound_max is 64 by default",
        "; write [cpu] scheduler = \"wfq\" to keep this quiet",
        "restarted on failure",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(text.contains("note: [security] user is without effect"), !is_root(), "{text}");
    for not in ["OnFailure", "via ::", "Overlay", "Some("] {
        assert!(!text.contains(not), "{not}: {text}");
    }
    let json = anode(folder.path(), &["node", "check", "node.toml", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&json["ports"][0]["bound_max"], &json["entry"]["share"]), (&64.into(), &0.5.into()));
    assert!(json["notes"].as_array().unwrap().len() >= 2 && !json["changed_defaults"].as_array().unwrap().is_empty());
}

#[test]
fn who_may_not_ask_is_told_who_may() {
    let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let said = ClientError::NotRunning("/run/x/control.sock".into(), error).to_string();
    assert!(said.contains("only root and the node's own user may ask") && !said.contains("Is it running"), "{said}");
}
