//! The kernel half on hosts of several kinds: with policy routing, jumbo frames, links that change. Real nodes and
//! interfaces.

#[path = "running/mod.rs"]
mod running;

use running::{ANODE, LINE, Running, in_kernel};
use serde_json::Value;
use std::process::Command;

const B: &str = "10.0.2.2";
const B6: &str = "fd00:0:2::2";

/// Packets that the kernel half of the node in the middle has sent on.
fn forwarded(net: &Running) -> u64 {
    let status = net.status("r");
    let codes = status["kernel"]["codes"].as_array().into_iter().flatten();
    codes.map(|code| code["usage"]["forwarded"].as_u64().unwrap()).sum()
}

/// Pings until the code runs in the kernel half of the node in the middle and its neighbours are known there.
fn warm_up(net: &Running, destinations: &[&str]) {
    for to in destinations {
        let before = forwarded(net);
        let warm = |_: &Value| {
            net.ping("a", to, 5);
            forwarded(net) >= before + 10
        };
        net.await_status("r", warm);
    }
}

/// Whether all of some pings of so many octets come back, and run in the kernel half on both ways.
fn all_come_back_by_the_kernel(net: &Running, to: &str, size: &str) {
    let before = forwarded(net);
    let pinged = net.anode("a", &["ping", "-c", "20", "-i", "0.005", "-s", size, to]);
    assert_eq!(pinged["summary"]["received"], 20, "{pinged}");
    assert_eq!(forwarded(net) - before, 40, "{}", net.status("r"));
}

#[test]
fn rules_of_policy_routing_are_shown_and_obeyed_by_neither_half() {
    let Some(net) = Running::up_with("rules", LINE, &in_kernel) else { return };
    warm_up(&net, &[B, B6]);
    let rules = |verb: &str| {
        let rule = |family, to| format!("ip {family} rule {verb} pref 100 to {to} iif to-a blackhole");
        net.shell("r", &format!("{}; {}", rule("-4", "10.0.2.0/24"), rule("-6", "fd00:0:2::/64")));
    };
    let shown = |count: u64| move |status: &Value| status["kernel"]["rules_not_obeyed"] == count;
    rules("add");
    net.await_status("r", shown(2));
    for to in [B, B6] {
        all_come_back_by_the_kernel(&net, to, "64");
    }
    let text = Command::new(ANODE).args(["node", "status"]).arg(net.dir("r")).output().unwrap().stdout;
    assert!(String::from_utf8(text).unwrap().contains("2 rules of policy routing not obeyed"));
    // The user half alone, which has no code in the kernel.
    assert!(net.anode("a", &["trace", B])["trace"].to_string().contains(B));
    assert!(net.log("r").contains("rules of policy routing are not obeyed"));
    rules("del");
    net.await_status("r", shown(0));
}

#[test]
fn jumbo_frames_in_several_buffers_stay_in_the_kernel() {
    let Some(mut net) = Running::build("jumbo", LINE) else { return };
    for (node, interface) in [("a", "to-r"), ("r", "to-a"), ("r", "to-b"), ("b", "to-r")] {
        net.shell(node, &format!("ip link set {interface} mtu 9000"));
    }
    net.start(&in_kernel);
    warm_up(&net, &[B, B6]);
    for port in net.status("r")["kernel"]["ports"].as_array().unwrap() {
        assert_eq!(port["mode"], "driver", "{port}");
    }
    for size in ["64", "1400", "3000", "8000"] {
        all_come_back_by_the_kernel(&net, B, size);
    }
    all_come_back_by_the_kernel(&net, B6, "3000");
    // There is a sum over all of it, of which the kernel half sees the first part alone: the user half takes it.
    let before = forwarded(&net);
    assert_eq!(net.anode("a", &["ping", "-c", "20", "-i", "0.005", "-s", "8000", B6])["summary"]["received"], 20);
    assert_eq!(forwarded(&net), before);
}

#[test]
fn links_that_change_are_obeyed() {
    let Some(net) = Running::up_with("links", LINE, &in_kernel) else { return };
    warm_up(&net, &[B]);
    all_come_back_by_the_kernel(&net, B, "1200");
    net.shell("r", "ip link set to-b mtu 1300");
    let lost =
        |_: &Value| net.anode("a", &["ping", "-c", "1", "-t", "0.2", "-s", "1200", B])["summary"]["received"] == 0;
    net.await_status("r", lost);
    warm_up(&net, &[B]);
    all_come_back_by_the_kernel(&net, B, "64");
    net.shell("r", "ip link set to-b mtu 1500");
    let back =
        |_: &Value| net.anode("a", &["ping", "-c", "1", "-t", "0.2", "-s", "1200", B])["summary"]["received"] == 1;
    net.await_status("r", back);
    warm_up(&net, &[B]);
    all_come_back_by_the_kernel(&net, B, "1200");
    net.shell("r", "ip link set to-b down");
    net.await_status("r", lost);
    net.shell("r", "ip link set to-b up");
    // The kernel has forgotten link addresses there, so that the user half may have a part in it.
    net.await_status("r", back);
}
