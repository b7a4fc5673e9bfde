//! Ports that come, change and go by `anode node apply`, while capsules pass those that do not change: each of these
//! arrives once.

use crate::apply::{apply, under_load};
use crate::pace::Pace;
use crate::running::{self, ANODE, Running, guest};
use crate::wait;
use crate::workers::{capsule, with_workers};
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use toml::{Table, Value as Toml};

/// A node between two hosts, and another node beside it, which is not behind a port yet.
const BESIDE: &str = r#"
name = "t"
nodes.a = {}
nodes.r.active = true
nodes.b = {}
nodes.c.active = true
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24", "fd00:0:1::/64"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24", "fd00:0:2::/64"]
[[links]]
ends = ["r", "c"]
prefixes = ["10.0.3.0/24", "fd00:0:3::/64"]
"#;

/// Node r by the link to c, and by an overlay on it.
const R: &str = "10.0.3.1";
const OVER: &str = "10.9.0.1";

/// The lab, where r begins without a port towards c.
fn up(name: &str, adjust: running::Adjust<'_>) -> Option<Running> {
    let mut net = Running::build(name, BESIDE)?;
    for (node, interface, what) in [("r", "to-c", "rx"), ("r", "to-c", "tx"), ("c", "to-r", "tx")] {
        net.shell(node, &format!("ethtool -L {interface} {what} 2 2>&1 | grep -v unmodified >&2 || true"));
    }
    net.start(&|node, config| {
        adjust(node, config);
        if node == "r" {
            // A worker that was kept waiting finds a hundred capsules of the sender's at once, and others ask meanwhile.
            config.insert("entry".into(), Toml::Table("burst_ms = 100".parse().unwrap()));
            config["port"].as_array_mut().unwrap().retain(|port| port["packet"].as_str() != Some("to-c"));
        }
    });
    Some(net)
}

/// The configuration that a node was started with.
fn begun(net: &Running, node: &str) -> Table {
    fs::read_to_string(net.dir(node).join("node.toml")).unwrap().parse().unwrap()
}

/// The same with other ports behind its own.
fn with(net: &Running, node: &str, ports: &[Table]) -> PathBuf {
    let mut config = begun(net, node);
    config["port"].as_array_mut().unwrap().extend(ports.iter().cloned().map(Toml::from));
    let path = net.dir(node).join("next.toml");
    fs::write(&path, config.to_string()).unwrap();
    path
}

/// The port of r towards c, like its others, with these keys.
fn towards_c(net: &Running, keys: &str) -> Table {
    let mut port = begun(net, "r")["port"][0].as_table().unwrap().clone();
    port.insert("packet".into(), "to-c".into());
    port.extend(keys.parse::<Table>().unwrap());
    port
}

/// An overlay port, whose other end is the other number's.
fn overlay(own: (u8, u16), other: (u8, u16)) -> Table {
    let text = format!(
        "name = \"over\"\nudp = \"10.0.3.{0}:{1}\"\naddress = [\"10.9.0.{0}/24\"]\n\
         neighbours = [{{ address = \"10.9.0.{2}\", at = \"10.0.3.{2}:{3}\" }}]\n",
        own.0, own.1, other.0, other.1
    );
    text.parse().unwrap()
}

fn applied(net: &Running, node: &str, ports: &[Table], words: &[&str]) {
    let (done, said) = apply(net, node, &with(net, node, ports), words);
    assert!(done && said.contains("applied as configuration"), "{said}");
}

/// Back to what ran before, which nobody has confirmed.
fn roll_back(net: &Running) {
    let done = Command::new(ANODE).args(["node", "rollback"]).arg(net.dir("r")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn passes(net: &Running, to: &str) -> bool {
    net.anode("c", &["ping", "-c", "3", "-i", "0.02", "-t", "0.3", to])["summary"]["received"] == 3
}

fn titles(status: &Value) -> Vec<&str> {
    status["ports"].as_array().unwrap().iter().map(|port| port["name"].as_str().unwrap()).collect()
}

/// Nothing of r's is at its interface towards c.
fn has_left(net: &Running) {
    assert!(!passes(net, R));
    let status = net.status("r");
    assert_eq!(titles(&status), ["to-a", "to-b"]);
    assert!(status["links"].as_array().unwrap().iter().all(|link| link["interface"] != "to-c"), "{status}");
    let shown = net.shell("r", "ip link show to-c; ethtool -k to-c | grep generic-receive");
    assert!(!shown.contains("xdp"), "{shown}");
}

/// A port comes, is called otherwise and carries less, receives otherwise, and goes.
fn native(net: &Running, pace: &Pace, other: &str) {
    applied(net, "r", &[towards_c(net, "")], &[]);
    net.await_status("r", |_| passes(net, R));
    assert_eq!(titles(&net.status("r")), ["to-a", "to-b", "to-c"]);
    pace.await_more(20);
    applied(net, "r", &[towards_c(net, "name = \"beside\"\nmtu = 1300")], &[]);
    net.await_status("r", |status| titles(status)[2] == "beside" && passes(net, R));
    applied(net, "r", &[towards_c(net, other)], &[]);
    net.await_status("r", |_| passes(net, R));
    pace.await_more(20);
    applied(net, "r", &[], &[]);
    has_left(net);
}

/// The same of an overlay, which listens elsewhere in between.
fn over(net: &Running, pace: &Pace) {
    for at in [4001, 4002] {
        applied(net, "r", &[overlay((1, at), (2, 4001))], &[]);
        applied(net, "c", &[overlay((2, 4001), (1, at))], &[]);
        net.await_status("r", |_| passes(net, OVER));
        assert_eq!(titles(&net.status("r")), ["to-a", "to-b", "over"]);
        pace.await_more(20);
    }
    applied(net, "r", &[], &[]);
    applied(net, "c", &[], &[]);
    assert!(!passes(net, OVER));
    assert_eq!(titles(&net.status("r")), ["to-a", "to-b"]);
}

/// What nobody has confirmed is taken back, with the ports.
fn taken_back(net: &Running, pace: &Pace) {
    applied(net, "r", &[towards_c(net, ""), overlay((1, 4003), (2, 4001))], &["--confirm-within", "1h"]);
    net.await_status("r", |_| passes(net, R));
    roll_back(net);
    has_left(net);
    pace.await_more(20);
    // And so is one that has taken a port away.
    applied(net, "r", &[towards_c(net, "")], &[]);
    net.await_status("r", |_| passes(net, R));
    applied(net, "r", &[overlay((1, 4003), (2, 4001))], &["--confirm-within", "1h"]);
    assert_eq!(titles(&net.status("r")), ["to-a", "to-b", "over"]);
    roll_back(net);
    net.await_status("r", |status| titles(status) == ["to-a", "to-b", "to-c"] && passes(net, R));
    applied(net, "r", &[], &[]);
    has_left(net);
}

fn come_and_go(name: &str, adjust: running::Adjust<'_>, in_kernel: bool, other: &str) {
    let Some(net) = up(name, adjust) else { return };
    under_load(name, &net, in_kernel, |pace| {
        native(&net, pace, other);
        over(&net, pace);
        taken_back(&net, pace);
    });
    net.status("r");
}

#[test]
fn ports_come_change_and_go_in_the_user_half() {
    come_and_go("ports", &|_, _| {}, false, "xdp = true");
}

#[test]
fn ports_come_change_and_go_in_the_kernel_half() {
    come_and_go("portsk", &running::in_kernel, true, "kernel = false");
}

#[test]
fn ports_come_change_and_go_with_sockets_in_the_driver() {
    come_and_go("portsx", &running::sockets(false), false, "xdp = false");
    come_and_go("portsxk", &running::sockets(true), true, "xdp = false");
}

#[test]
fn ports_come_change_and_go_with_several_workers() {
    come_and_go("portsw", &with_workers(2, |_, _| {}), false, "xdp = true");
}

/// Capsules from c by many flows reach each worker by a port that has come.
#[test]
fn a_port_that_comes_has_a_queue_for_each_worker() {
    for (name, xdp) in [("portsq", false), ("portsqx", true)] {
        let adjust = move |node: &str, config: &mut Table| {
            if xdp {
                running::sockets(false)(node, config);
            }
        };
        let Some(net) = up(name, &with_workers(2, adjust)) else { return };
        let code = net.control("r").add_code(&guest("state")).unwrap();
        applied(&net, "r", &[towards_c(&net, "")], &[]);
        net.await_status("r", |_| passes(&net, R));
        let bytes = capsule(code, "10.0.3.2", "10.0.2.2");
        let received = |status: &Value, at: usize| status["workers"][at]["balance"]["received"].as_u64().unwrap();
        let before = net.status("r");
        let send = || {
            for _ in 0..64 {
                UdpSocket::bind(("10.0.3.2", 0)).unwrap().send_to(&bytes, ("10.0.2.2", 3322)).unwrap();
            }
        };
        net.lab.enter("c", send).unwrap();
        net.await_status("r", |status| (0..2).all(|at| received(status, at) > received(&before, at) + 8));
        applied(&net, "r", &[], &[]);
        has_left(&net);
    }
}

#[test]
fn what_is_somebody_elses_is_refused_and_nothing_is_changed() {
    let Some(net) = up("portsno", &|_, _| {}) else { return };
    let number = |status: &Value| status["configuration"]["number"].clone();
    let before = number(&net.status("r"));
    // An address where another process listens, beside a port that could be had.
    let taken = net.lab.enter("r", || UdpSocket::bind((R, 4009)).unwrap()).unwrap();
    let both = [towards_c(&net, ""), overlay((1, 4009), (2, 4001))];
    let (done, said) = apply(&net, "r", &with(&net, "r", &both), &[]);
    assert!(!done && said.contains("cannot open port over") && said.contains("Another process listens"), "{said}");
    has_left(&net);
    drop(taken);
    // An interface of another node.
    let dir = tempfile::tempdir().unwrap();
    let run_dir = dir.path().join("run");
    let second = dir.path().join("second.toml");
    let text = format!("name = \"second\"\nrun_dir = {run_dir:?}\nroutes = \"kernel\"\n[[port]]\npacket = \"to-c\"\n");
    fs::write(&second, text).unwrap();
    let mut command = net.lab.command("r", ANODE).unwrap();
    command.args(["node", "run"]).arg(&second).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    wait::control(&run_dir, Some(&process), String::new);
    let (done, said) = apply(&net, "r", &with(&net, "r", &[towards_c(&net, "")]), &[]);
    assert!(!done && said.contains("another node has this interface"), "{said}");
    assert_eq!(number(&net.status("r")), before);
    process.kill().unwrap();
    process.wait().unwrap();
    // Its broker goes with it.
    net.until("r", || apply(&net, "r", &with(&net, "r", &both), &[]).0.then_some(()));
    net.await_status("r", |_| passes(&net, R));
    let checked = net.lab.command("r", ANODE).unwrap().args(["node", "check"]).arg(&second).output().unwrap();
    assert!(String::from_utf8_lossy(&checked.stderr).contains("another node has this interface"), "it is r's now");
    applied(&net, "r", &[], &[]);
    let checked = net.lab.command("r", ANODE).unwrap().args(["node", "check"]).arg(&second).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
