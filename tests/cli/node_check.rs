//! `anode node check` and a start refuse the same, and name the key; settings without effect are reported, and existing
//! files stay.

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

/// The user that stands for an ordinary one where the tests are root's.
const ORDINARY: u32 = 12345;

/// `anode` as an ordinary user, who lacks a part of the sandbox on any host: a user of the node's own.
fn as_ordinary(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = match is_root() {
        true => Command::new("setpriv"),
        false => Command::new("env"),
    };
    if is_root() {
        command.args([format!("--reuid={ORDINARY}"), format!("--regid={ORDINARY}"), "--clear-groups".into()]);
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
        std::os::unix::fs::chown(folder.path().join("run"), Some(ORDINARY), Some(ORDINARY)).unwrap();
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
    let tables = "[plan]\nrestricted = [\"memoryUze\"]\n[[ee]]\nname = \"e\"\ncommand = \
                  [\"/usr/bin/forwarder\"]\n[security]\nuser = \"daemon\"";
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

/// What `check` and `run` say as an ordinary user of a configuration that neither takes, with the home of nobody and these variables.
fn refused_to_ordinary(folder: &Path, verb: &str, home: &Path) -> Option<String> {
    let mut command = Command::new("env");
    command.args(["-u", "XDG_RUNTIME_DIR"]).arg(format!("HOME={}", home.display()));
    if is_root() {
        command.args(["setpriv", &format!("--reuid={ORDINARY}"), &format!("--regid={ORDINARY}"), "--clear-groups"]);
    }
    command.args(["timeout", "--kill-after=1", "3", env!("CARGO_BIN_EXE_anode"), "node", verb, "node.toml"]);
    let output = command.current_dir(folder).output().unwrap();
    (output.status.code() == Some(1)).then(|| said(&output))
}

/// A folder that others can look into, with a home of the ordinary user's in it; nothing: that user cannot reach this program.
fn ordinary_folder() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("home")).unwrap();
    if is_root() {
        std::os::unix::fs::chown(folder.path().join("home"), Some(ORDINARY), Some(ORDINARY)).unwrap();
    }
    if !said(&as_ordinary(folder.path(), &["--version"])).contains("anode") {
        println!("SKIPPED: another user cannot reach this program");
        return None;
    }
    Some(folder)
}

#[test]
fn what_an_ordinary_user_may_not_is_refused_by_check_as_by_a_start() {
    let Some(folder) = ordinary_folder() else { return };
    let home = folder.path().join("home");
    let run = format!("run_dir = {:?}", home.join("run"));
    let udp = "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.8.0.1/24\"]";
    let packet = "[[port]]\npacket = \"lo\"";
    for (top, port, at, parts) in [
        (run.as_str(), packet, &home, ["port lo: packet", "CAP_NET_RAW"]),
        (&format!("{run}\nstore = \"/usr/anode-store\""), udp, &home, ["/usr/anode-store", "cannot be written"]),
        (&format!("{run}\nfiles = \"/usr/anode-files\""), udp, &home, ["/usr/anode-files", "cannot be written"]),
        ("", udp, &folder.path().join("nowhere/else"), ["cannot be written", "set run_dir"]),
    ] {
        fs::write(folder.path().join("node.toml"), format!("name = \"n\"\n{top}\n{port}\n")).unwrap();
        for verb in ["check", "run"] {
            let why =
                refused_to_ordinary(folder.path(), verb, at).unwrap_or_else(|| panic!("{verb} took {top} {port}"));
            assert!(parts.iter().all(|part| why.contains(part)), "{verb}: {why}\n{parts:?}");
        }
    }
    let environment = "[[ee]]\nname = \"e\"\ncommand = [\"sleep\", \"9\"]";
    fs::write(folder.path().join("node.toml"), format!("name = \"n\"\n{run}\n{udp}\n{environment}\n")).unwrap();
    let told = said(&as_ordinary(folder.path(), &["node", "check", "node.toml"]));
    assert!(told.contains("of a CPU, the node's user: sleep 9") && !told.contains("a user from"), "{told}");
    fs::write(folder.path().join("node.toml"), format!("name = \"n\"\n{udp}\n")).unwrap();
    for verb in ["check", "run"] {
        assert_eq!(refused_to_ordinary(folder.path(), verb, &home), None, "{verb}: there is a place in a home");
    }
}

#[test]
fn addresses_of_other_hosts_and_users_that_are_accounts_are_refused_by_check_as_by_a_start() {
    let folder = tempfile::tempdir().unwrap();
    let port = |udp: &str| format!("[[port]]\nname = \"west\"\nudp = \"{udp}\"\naddress = [\"10.8.0.1/24\"]");
    let here = port("127.0.0.1:0");
    for (text, part) in [
        (port("192.0.2.77:0"), "port west: udp = 192.0.2.77:0: this host has no such address"),
        (format!("{here}\n[plan]\ntcp = \"192.0.2.77:0\""), "[plan] tcp = 192.0.2.77:0: this host has no such address"),
        (format!("{here}\n[jail]\nusers = [1, 2]"), "[jail] users = [1, 2]: 2 of these are accounts of /etc/passwd"),
    ] {
        let run = folder.path().join("run");
        fs::write(folder.path().join("node.toml"), format!("name = \"n\"\nrun_dir = {run:?}\n{text}\n")).unwrap();
        for verb in ["check", "run"] {
            let output = anode(folder.path(), &["node", verb, "node.toml"]);
            assert_eq!(output.status.code(), Some(1), "{verb} {text}: {}", said(&output));
            assert!(said(&output).contains(part), "{verb}: {}\n{part}", said(&output));
        }
    }
}

#[test]
fn a_key_between_the_same_two_addresses_on_two_ports_is_refused() {
    let folder = folder();
    for name in ["one.key", "other.key"] {
        assert!(anode(folder.path(), &["cred", "secret", name]).status.success());
    }
    let near = |key: &str, address: &str| {
        let key = folder.path().join(key);
        format!("neighbours = [{{ address = \"{address}\", at = \"127.0.0.1:9\", keys = [{key:?}] }}]")
    };
    let second = |own: &str, neighbour: &str| {
        format!("[[port]]\nname = \"east\"\nudp = \"127.0.0.1:0\"\naddress = [\"{own}/24\"]\n{neighbour}")
    };
    for (own, key, address, why) in [
        // What was sent by one is what the other hears.
        ("10.8.0.2", "one.key", "10.8.0.1", Some("ports west and east")),
        ("10.8.0.2", "other.key", "10.8.0.1", None),
        ("10.8.0.2", "one.key", "10.8.0.3", None),
        ("10.8.0.9", "one.key", "10.8.0.2", None),
    ] {
        config(folder.path(), &near("one.key", "10.8.0.2"), &second(own, &near(key, address)));
        let checked = anode(folder.path(), &["node", "check", "node.toml"]);
        let said = said(&checked);
        assert_eq!(checked.status.success(), why.is_none(), "{own} {key} {address}: {said}");
        assert!(why.is_none_or(|why| said.contains(why) && said.contains("anode cred secret")), "{said}");
    }
}

#[test]
fn what_others_have_is_refused_by_check_as_by_a_start() {
    let folder = folder();
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let listens = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = format!("[[port]]\nudp = \"{}\"\naddress = [\"10.9.0.1/24\"]", taken.local_addr().unwrap());
    let tcp = format!("[plan]\ntcp = \"{}\"", listens.local_addr().unwrap());
    let twice = "[[port]]\nudp = \"127.0.0.1:0\"\naddress = [\"10.8.0.1/16\"]";
    for (tables, part) in [
        (udp.as_str(), "nother process listens there"),
        (tcp.as_str(), "[plan] tcp"),
        (twice, "address of the overlay ports: 10.8.0.1 stands twice"),
    ] {
        config(folder.path(), "", tables);
        for verb in ["check", "run"] {
            let refused = anode(folder.path(), &["node", verb, "node.toml"]);
            assert_eq!(refused.status.code(), Some(1), "{verb}: {}", said(&refused));
            assert!(said(&refused).contains(part), "{verb}: {}\n{part}", said(&refused));
        }
    }
    drop(taken);
    config(folder.path(), "", &udp);
    assert!(anode(folder.path(), &["node", "check", "node.toml"]).status.success(), "now it is free");
}

#[test]
fn a_secret_that_another_user_could_change_is_refused() {
    if !is_root() {
        println!("SKIPPED: not root, so nothing of others' can be made");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    for (name, owner) in [("theirs/a.key", 0), ("b.key", ORDINARY)] {
        assert!(anode(folder.path(), &["cred", "secret", name]).status.success());
        std::os::unix::fs::chown(folder.path().join(name), Some(owner), None).unwrap();
    }
    fs::write(theirs.join("plan.key"), "07".repeat(32)).unwrap();
    fs::set_permissions(theirs.join("plan.key"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&theirs, Some(ORDINARY), None).unwrap();
    let near = |file: &str| {
        format!(
            "neighbours = [{{ address = \"10.8.0.2\", at = \"127.0.0.1:9\", keys = [{:?}] }}]",
            folder.path().join(file)
        )
    };
    let principal = format!("[[plan.principal]]\nname = \"p\"\nkey_file = {:?}", theirs.join("plan.key"));
    for (port, tables, key) in [
        (near("theirs/a.key"), "", "neighbour 10.8.0.2: keys"),
        (near("b.key"), "", "neighbour 10.8.0.2: keys"),
        (String::new(), principal.as_str(), "key_file"),
    ] {
        config(folder.path(), &port, tables);
        for verb in ["check", "run"] {
            let why = said(&anode(folder.path(), &["node", verb, "node.toml"]));
            assert!(why.contains(key) && why.contains("belongs to user 12345"), "{verb}: {why}");
        }
    }
}
