//! Ports whose interfaces are not there yet, or come and go; and what two nodes cannot have at once.

use crate::kernel_host::make_link_again;
use crate::running::{self, ANODE, LINE, Running, in_kernel};
use crate::wait;
use serde_json::Value;
use std::fs;
use std::process::Output;

const R: &str = "10.0.1.2";
const B: &str = "10.0.2.2";

fn link<'a>(status: &'a Value, interface: &str) -> &'a Value {
    let links = status["links"].as_array().unwrap();
    links.iter().find(|link| link["interface"] == interface).unwrap()
}

fn passes(net: &Running, to: &str) -> bool {
    net.anode("a", &["ping", "-c", "3", "-i", "0.02", "-t", "0.3", to])["summary"]["received"] == 3
}

/// A node runs without one of its interfaces, and has it when it comes.
fn an_interface_comes_later(name: &str, adjust: running::Adjust<'_>) -> Option<Running> {
    let mut net = Running::build(name, LINE)?;
    net.shell("r", "ip link del to-b");
    net.start(adjust);
    let status = net.status("r");
    assert_eq!((&link(&status, "to-a")["state"], &link(&status, "to-b")["state"]), (&"there".into(), &"away".into()));
    net.await_status("r", |_| passes(&net, R));
    make_link_again(&net);
    net.await_status("r", |_| passes(&net, B));
    // Not the one before those that have passed.
    let status = net.status("r");
    let link = link(&status, "to-b");
    assert_eq!((&link["state"], link["came"].as_u64()), (&"there".into(), Some(1)), "{status}");
    Some(net)
}

#[test]
fn an_interface_that_comes_later_is_served() {
    let Some(net) = an_interface_comes_later("later", &|_, _| {}) else { return };
    net.shell("r", "ip link del to-b");
    let status = net.await_status("r", |status| link(status, "to-b")["state"] == "away");
    assert!(status["routes"].as_u64().is_some() && passes(&net, R));
}

#[test]
fn an_interface_that_comes_later_has_the_kernel_half() {
    let Some(net) = an_interface_comes_later("laterk", &in_kernel) else { return };
    assert!(net.shell("r", "ip link show to-b").contains("xdp"));
    net.await_status("r", |status| {
        passes(&net, B);
        status["kernel"]["codes"][0]["usage"]["forwarded"].as_u64() > Some(0)
    });
}

#[test]
fn an_interface_that_comes_later_has_its_sockets() {
    for (name, kernel) in [("laters", false), ("latersk", true)] {
        let Some(net) = an_interface_comes_later(name, &running::sockets(kernel)) else { return };
        let by_sockets = |status: &Value| status["xdp"][1]["to_socket"].as_u64() > Some(0);
        let status = net.await_status("r", |status| {
            passes(&net, B);
            by_sockets(status)
        });
        assert_ne!(status["xdp"][1]["mode"], "none", "{status}");
    }
}

/// Descriptors of a node and of its broker.
fn descriptors(net: &Running, node: &str) -> usize {
    let pid = net.daemon(node).pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let broker = children.split_whitespace().next().unwrap().to_owned();
    let count = |pid: &str| fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    count(&pid.to_string()) + count(&broker)
}

/// Whoever can make and delete an interface can keep nobody busy with that, and nothing is left of it.
fn flaps(name: &str, adjust: running::Adjust<'_>) {
    let Some(net) = Running::up_with(name, LINE, adjust) else { return };
    let b = net.lab.topology().namespace("b");
    let again = format!("ip link del to-b; ip link add to-b type veth peer name to-r netns {b} && ip link set to-b up");
    let flap = || {
        net.shell("r", &format!("for at in 1 2 3 4 5 6 7 8 9 10 11 12; do {again}; sleep 0.05; done"));
        let status = net.status("r");
        let came = link(&status, "to-b")["came"].as_u64().unwrap();
        assert!(came <= 24 && passes(&net, R), "{status}");
        make_link_again(&net);
        net.await_status("r", |_| passes(&net, B));
    };
    flap();
    let before = descriptors(&net, "r");
    flap();
    wait::unannounced("sockets of an interface that is gone are closed by and by, and nobody tells", || {
        let now = descriptors(&net, "r");
        if now <= before { Ok(()) } else { Err(format!("{now} descriptors in the place of {before}")) }
    });
}

/// Larger packets pass when all interfaces on their way have grown.
fn an_mtu_grows(name: &str, adjust: running::Adjust<'_>) {
    let Some(net) = Running::up_with(name, LINE, adjust) else { return };
    net.await_status("r", |_| passes(&net, B));
    let all = [("a", "to-r"), ("r", "to-a"), ("r", "to-b"), ("b", "to-r")];
    for (node, interface) in all {
        net.shell(node, &format!("ip link set {interface} mtu 9000"));
    }
    let large = |_: &Value| {
        net.anode("a", &["ping", "-c", "3", "-i", "0.02", "-t", "0.3", "-s", "6000", B])["summary"]["received"] == 3
    };
    net.await_status("r", large);
    if name != "mtu" {
        return;
    }
    net.shell("r", "ip link set to-b mtu 65000");
    net.until("r", || net.log("r").contains("need a start anew").then_some(()));
    net.await_status("r", |_| passes(&net, B));
}

#[test]
fn an_mtu_may_grow_while_a_node_runs() {
    an_mtu_grows("mtu", &|_, _| {});
    an_mtu_grows("mtuk", &in_kernel);
    an_mtu_grows("mtus", &running::sockets(false));
}

#[test]
fn an_interface_that_flaps_costs_a_node_little_and_leaves_nothing() {
    flaps("flaps", &|_, _| {});
    flaps("flapsk", &running::sockets(true));
}

fn anode(net: &Running, words: &[&str], file: &std::path::Path) -> Output {
    net.lab.command("r", ANODE).unwrap().args(words).arg(file).output().unwrap()
}

#[test]
fn an_interface_is_one_nodes_and_a_check_of_that_node_finds_nothing_wrong() {
    let Some(net) = Running::up("second", LINE) else { return };
    let own = net.dir("r").join("node.toml");
    let mut other: toml::Table = fs::read_to_string(&own).unwrap().parse().unwrap();
    let dir = tempfile::tempdir().unwrap();
    other.insert("run_dir".into(), dir.path().join("run").display().to_string().into());
    other.remove("store");
    let second = dir.path().join("second.toml");
    fs::write(&second, other.to_string()).unwrap();
    for verb in ["check", "run"] {
        let refused = anode(&net, &["node", verb], &second);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains("another node has this interface"), "{verb}: {said}");
    }
    let checked = anode(&net, &["node", "check"], &own);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    // Nobody has disturbed it.
    net.await_status("r", |_| passes(&net, B));
}
