//! AF_XDP ports: real node processes on veth interfaces, frames by sockets in place of the Linux stack.

use crate::running::{self, LINE, PATIENCE, Running, guest, no_drops, sockets, sockets_with, sum};
use anode::code::bundle::Bundle;
use anode::kernel::{Filters, Which};
use anode::manage::client::Attachment;
use anode::sys::bpf::{Hook, Program, XdpMode};
use anode::sys::mmsg::{Batch, RawAddr};
use anode::sys::packet::PacketSocket;
use anode::wire::{Addr, Digest, capsule};
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;

/// A host that sends, and a node.
const PAIR: &str = r#"
name = "t"
nodes.a = {}
nodes.r.active = true
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24"]
"#;

const B: &str = "10.0.2.2";

fn header(code: Digest, to: &str, app_port: u16) -> capsule::Header {
    let none = Addr::UNSPECIFIED;
    capsule::Header { app_port, bound: 8, code, previous: none, source: none, destination: to.parse().unwrap() }
}

/// Whether the kernel half of a node runs its first code.
fn runs(status: &Value) -> bool {
    status["codes"][0]["kernel"] == "running"
}

/// What the kernel half of a node did with packets of all codes.
fn in_kernel(status: &Value, counter: &str) -> u64 {
    let codes = status["kernel"]["codes"].as_array().into_iter().flatten();
    codes.map(|code| code["usage"][counter].as_u64().unwrap()).sum()
}

/// Capsules of three applications cross the line; gives the status of the node in the middle.
fn use_applications(net: &Running) -> Value {
    for to in [B, "fd00:0:2::2"] {
        let pinged = net.ping_warm("a", to, 50);
        let drops = ["a", "r", "b"].map(|node| net.status(node)["drops"].clone());
        assert_eq!(pinged["summary"]["received"], 50, "{drops:?} {pinged}");
        assert_eq!(pinged["summary"]["duplicates"], 0, "{pinged}");
        assert_eq!(pinged["replies"][0]["hops_there"], 2, "the node in the middle ran the code: {pinged}");
    }
    let traced = net.anode("a", &["trace", B]);
    assert!(traced["trace"].to_string().contains("10.0.2.2"), "{traced}");
    let mut origin = Command::new(running::ANODE);
    origin.args(["cache", "serve", "--json", "--node"]).arg(net.dir("b"));
    let mut origin = origin.stdout(std::process::Stdio::null()).spawn().unwrap();
    net.await_status("b", |status| status["applications"].as_array().unwrap().contains(&json!(3322)));
    net.anode("a", &["cache", "put", B, "key", "value"]);
    for _ in 0..2 {
        let got = net.anode("a", &["cache", "get", B, "key"]);
        assert!(got.to_string().contains("value"), "{got}");
    }
    origin.kill().unwrap();
    origin.wait().unwrap();
    net.status("r")
}

#[test]
fn capsules_cross_nodes_by_sockets() {
    let Some(net) = Running::up_with("xsk", LINE, &sockets(false)) else { return };
    let status = use_applications(&net);
    assert!(no_drops(&status), "{status}");
    assert_eq!(status["kernel"], Value::Null, "no kernel half was asked for: {status}");
    for port in status["xdp"].as_array().unwrap() {
        assert_eq!((&port["mode"], &port["sockets"]), (&json!("copy"), &json!(1)), "{status}");
        assert!(port["to_socket"].as_u64().unwrap() >= 100, "{status}");
        assert_eq!(port["to_stack"], 0, "{status}");
    }
    assert!(net.log("r").contains("frames come by AF_XDP"));
    let text = Command::new(running::ANODE).args(["node", "status"]).arg(net.dir("r")).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("by AF_XDP sockets in copy mode at 1 of 1 queues"), "{text}");
}

#[test]
fn capsules_cross_the_kernel_half_and_its_sockets() {
    let Some(net) = Running::up_with("xskk", LINE, &sockets(true)) else { return };
    let status = use_applications(&net);
    assert!(no_drops(&status), "{status}");
    assert!(sum(&status, "to_socket") > 0 && sum(&status, "to_stack") == 0, "{status}");
    net.await_status("r", runs);
    let mut total = 0;
    while in_kernel(&net.status("r"), "forwarded") < 100 {
        let pinged = net.ping("a", B, 20);
        assert_eq!(pinged["summary"]["received"], 20, "{pinged}");
        assert_eq!(pinged["replies"][0]["hops_there"], 2, "{pinged}");
        total += 20;
        assert!(total < 2000, "{}", net.status("r"));
    }
}

#[test]
fn a_verdict_of_the_kernel_half_comes_up_by_the_socket() {
    let Some(net) = Running::up_with("xskv", LINE, &sockets(true)) else { return };
    let bundle = guest("halfway");
    net.control("a").add_code(&bundle).unwrap();
    let (from, mut at) = (net.attach("a", 0), net.attach("r", 7));
    let mut number = 0u32;
    let mut deliver = |count: u32| {
        for _ in 0..count {
            from.send(&header(bundle.name(), B, 1), &number.to_be_bytes()).unwrap();
            let (_, payload) = at.receive(PATIENCE).unwrap().expect("delivered half way");
            assert_eq!(payload, number.to_be_bytes());
            number += 1;
        }
    };
    // The kernel half runs what it knows a way for.
    assert_eq!(net.ping("a", B, 3)["summary"]["received"], 3);
    deliver(1);
    let known = |status: &Value| status["kernel"]["codes"].as_array().unwrap().len() == 2;
    net.await_status("r", known);
    for _ in 0..2000 {
        if in_kernel(&net.status("r"), "passed_up") >= 20 {
            break;
        }
        deliver(5);
    }
    let status = net.status("r");
    assert!(in_kernel(&status, "passed_up") >= 20, "{status}");
    assert!(no_drops(&status), "{status}");
    assert_eq!(sum(&status, "to_stack"), 0, "{status}");
}

/// Sends numbered capsules so that `window` of them are always on their way, and looks whether they come in order.
struct Stream {
    from: Attachment,
    to: Attachment,
    header: capsule::Header,
    sent: u32,
    arrived: u32,
}

impl Stream {
    fn run(&mut self, net: &Running, count: u32, window: u32) {
        let end = self.sent + count;
        while self.arrived < end {
            while self.sent < end && self.sent - self.arrived < window {
                self.from.send(&self.header, &self.sent.to_be_bytes()).unwrap();
                self.sent += 1;
            }
            let (_, payload) = self.to.receive(PATIENCE).unwrap().expect("nothing is lost");
            let (came, expected) = (u32::from_be_bytes(payload[..].try_into().unwrap()), self.arrived);
            let states = || ["a", "r", "b"].map(|node| net.status(node).to_string()).join("\n");
            assert!(came == expected, "{came} came in the place of {expected}\n{}", states());
            self.arrived += 1;
        }
    }
}

#[test]
fn a_flow_stays_in_order_while_its_code_moves_into_the_kernel() {
    let Some(net) = Running::up_with("xsko", LINE, &sockets(true)) else { return };
    let bundle = guest("forward");
    net.control("a").add_code(&bundle).unwrap();
    let header = header(bundle.name(), B, 9);
    let mut stream = Stream { from: net.attach("a", 0), to: net.attach("b", 9), header, sent: 0, arrived: 0 };
    // The code is fetched, made ready and linked under the stream. As long as it is absent few capsules may wait.
    stream.run(&net, 2000, 8);
    net.await_status("r", runs);
    for _ in 0..200 {
        if in_kernel(&net.status("r"), "forwarded") >= 1000 {
            break;
        }
        stream.run(&net, 500, 48);
    }
    // Out and in again: back to the user half, and into the kernel once more.
    for _ in 0..5 {
        net.control("r").remove_code(&bundle.name()).unwrap();
        stream.run(&net, 3000, 8);
        net.await_status("r", runs);
    }
    stream.run(&net, 300, 8);
    let status = net.status("r");
    assert!(in_kernel(&status, "forwarded") > 0, "{status}");
    assert!(status["codes"][0]["usage"]["packets"].as_u64().unwrap() > 0, "{status}");
    assert_eq!(sum(&status, "to_stack"), 0, "{status}");
    assert!(no_drops(&status), "{status}");
}

#[test]
fn nothing_overtakes_its_own_flow_between_the_halves() {
    // With turns of domains the user half itself lets one domain's packets pass another's.
    let in_order = |node: &str, config: &mut toml::Table| {
        sockets(true)(node, config);
        config.insert("cpu".into(), toml::Value::Table("scheduler = \"fifo\"".parse().unwrap()));
    };
    let Some(net) = Running::up_with("xskt", LINE, &in_order) else { return };
    let (quick, slow) = (guest("forward"), guest("loads"));
    for bundle in [&quick, &slow] {
        net.control("a").add_code(bundle).unwrap();
    }
    let (from, mut to) = (net.attach("a", 0), net.attach("b", 9));
    let send = |bundle: &Bundle, number: u8| from.send(&header(bundle.name(), B, 9), &[number]).unwrap();
    let mut next = || to.receive(PATIENCE).unwrap().expect("nothing is lost").1[0];
    for bundle in [&slow, &quick] {
        send(bundle, 0);
        assert_eq!(next(), 0);
    }
    let state = |status: &Value, title: &str| {
        let codes = status["codes"].as_array().unwrap().iter();
        codes.filter(|code| code["title"] == title).find_map(|code| code["kernel"].as_str().map(str::to_owned))
    };
    net.await_status("r", |status| state(status, "forward").as_deref() == Some("running"));
    let refused = net.await_status("r", |status| state(status, "loads").is_some());
    assert!(state(&refused, "loads").unwrap().contains("an_load"), "{refused}");
    while in_kernel(&net.status("r"), "forwarded") == 0 {
        send(&quick, 0);
        assert_eq!(next(), 0);
    }
    let pid = net.daemon("r").pid();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
    let sent_by = |status: &Value| status["ports"][0]["sent"].as_u64().unwrap();
    for _ in 0..20 {
        let (before, start) = (net.status("r"), sent_by(&net.status("a")));
        signal("-STOP");
        // The first waits in the user half, which stands still; the kernel half has what it needs for the others.
        send(&slow, 1);
        (2..8).for_each(|number| send(&quick, number));
        net.await_status("a", |status| sent_by(status) >= start + 7);
        signal("-CONT");
        let came: Vec<u8> = (1..8).map(|_| next()).collect();
        let after = net.status("r");
        let new = |counter: &str| sum(&after, counter) - sum(&before, counter);
        // On a machine so busy that this took a second, the kernel half has let the flow go.
        if new("overtaking") == 0 {
            assert_eq!(came, [1, 2, 3, 4, 5, 6, 7], "{after}");
            assert!(new("held") >= 1, "{after}");
            return;
        }
    }
    panic!("{}", net.status("r"));
}

#[test]
fn what_a_socket_has_no_room_for_is_counted() {
    let Some(net) = Running::up_with("xskf", PAIR, &sockets_with(false, "frames_per_queue = 64")) else { return };
    let sender = net.lab.enter("a", || UdpSocket::bind("10.0.1.1:0").unwrap()).unwrap();
    let send =
        |count: u64| (0..count).for_each(|_| assert_eq!(sender.send_to(&[0xff; 40], "10.0.1.2:3322").unwrap(), 40));
    send(1);
    net.await_status("r", |status| status["drops"]["malformed"] == 1);
    let pid = net.daemon("r").pid();
    let signal = |name: &str| assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
    signal("-STOP");
    send(500);
    signal("-CONT");
    let port = |status: &Value| {
        let count = |value: &Value| value.as_u64().unwrap();
        (count(&status["drops"]["malformed"]), count(&status["ports"][0]["missed"]), sum(status, "to_socket"))
    };
    let all = |status: &Value| port(status).0 + port(status).1 == 501;
    let status = net.await_status("r", all);
    assert!(port(&status).1 >= 400, "the ring has room for 64: {status}");
    assert_eq!(port(&status).2, 501, "{status}");
    // There is room again.
    send(10);
    net.await_status("r", |status| port(status).0 + port(status).1 == 511 && port(status).0 >= 11);
}

/// Sends datagrams that are no capsules from many ports, so that all queues get some.
fn scatter(net: &Running, count: u32) {
    let send = || {
        for _ in 0..count {
            let socket = UdpSocket::bind("10.0.1.1:0").unwrap();
            socket.send_to(&[0xff; 40], "10.0.1.2:3322").unwrap();
        }
    };
    net.lab.enter("a", send).unwrap();
}

#[test]
fn each_queue_has_a_socket_and_what_has_none_comes_up_the_stack() {
    let Some(mut net) = Running::build("xskq", PAIR) else { return };
    // Where there is only one CPU the system makes only one queue, and more cannot be had.
    for (node, interface, what) in [("r", "to-a", "rx"), ("a", "to-r", "tx")] {
        let current = "tail -n 5 | grep -qi";
        net.shell(node, &format!("ethtool -L {interface} {what} 2; ethtool -l {interface} | {current} '{what}:.*2'"));
    }
    net.start(&sockets(false));
    scatter(&net, 200);
    let status = net.await_status("r", |status| status["drops"]["malformed"] == 200);
    assert_eq!(status["xdp"][0]["queues"], 2, "{status}");
    assert_eq!((sum(&status, "to_socket"), sum(&status, "to_stack")), (200, 0), "{status}");
    let of_queue = |status: &Value, queue: usize| status["xdp"][0]["per_queue"][queue].as_u64().unwrap();
    assert!(of_queue(&status, 0) > 0 && of_queue(&status, 1) > 0, "{status}");
    net.daemons.iter_mut().for_each(|daemon| daemon.kill().unwrap());
    net.daemons.clear();
    net.start(&sockets_with(false, "queues_max = 1"));
    scatter(&net, 200);
    let status = net.await_status("r", |status| status["drops"]["malformed"] == 200);
    assert_eq!((&status["xdp"][0]["queues"], &status["xdp"][0]["sockets"]), (&json!(2), &json!(1)), "{status}");
    assert!(sum(&status, "to_socket") > 0 && sum(&status, "to_stack") > 0, "{status}");
    assert_eq!(sum(&status, "to_socket") + sum(&status, "to_stack"), 200, "{status}");
}

#[test]
fn a_node_that_is_killed_comes_back_to_free_queues() {
    for kernel in [false, true] {
        let Some(mut net) = Running::up_with("xskd", LINE, &sockets(kernel)) else { return };
        assert_eq!(net.ping("a", B, 3)["summary"]["received"], 3);
        assert!(net.shell("r", "ip -d link show to-a").contains("xdp"));
        net.kill("r");
        for interface in ["to-a", "to-b"] {
            let link = net.shell("r", &format!("ip -d link show {interface}"));
            assert_eq!(link.contains("xdp"), kernel, "the kernel half stays, and nothing else: {link}");
        }
        let pinged = net.ping("a", B, 3);
        assert_eq!(pinged["summary"]["received"], 3, "without its node r is a router still: {pinged}");
        net.daemons.retain(|daemon| daemon.node != "r");
        net.start(&sockets(kernel));
        let pinged = net.ping("a", B, 3);
        assert_eq!(pinged["replies"][2]["hops_there"], 2, "{pinged}");
        let status = net.status("r");
        assert_eq!(status["xdp"][0]["mode"], "copy", "its queues were free again: {status}");
    }
}

#[test]
fn frames_that_pretend_to_come_up_are_dropped_where_sockets_stand_alone() {
    let Some(net) = Running::up_with("xskf", LINE, &sockets(false)) else { return };
    let link = |node: &str, name: &str| -> Value {
        serde_json::from_str::<Value>(&net.shell(node, &format!("ip -j link show {name}"))).unwrap()[0].clone()
    };
    let (near, far) = (link("a", "to-r"), link("r", "to-a"));
    let mac = |link: &Value| -> Vec<u8> {
        link["address"].as_str().unwrap().split(':').map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect()
    };
    let mut frame = [mac(&far), mac(&near), vec![0x88, 0xb5, 0x45]].concat();
    frame.extend([0; 100]);
    let send = || {
        let filter = Filters::create().unwrap().filter(Which::All).unwrap();
        let socket = PacketSocket::open(near["ifindex"].as_u64().unwrap() as u32, 1514, &filter).unwrap();
        Batch::default().send(socket.as_fd(), std::iter::once((&frame[..], RawAddr::NONE))).unwrap()
    };
    assert_eq!(net.lab.enter("a", send).unwrap(), 1);
    let status = net.await_status("r", |status| sum(status, "forged") == 1);
    assert!(no_drops(&status), "the node has not seen it: {status}");
}

#[test]
fn where_the_driver_has_no_zero_copy_the_log_says_which_way_is_used() {
    let Some(net) = Running::up_with("xskz", LINE, &sockets_with(false, "mode = \"zero-copy\"")) else { return };
    assert_eq!(net.ping("a", B, 5)["summary"]["received"], 5);
    let status = net.status("r");
    let port = &status["xdp"][0];
    assert_eq!((&port["mode"], &port["sockets"]), (&json!("none"), &json!(0)), "{status}");
    assert!(port["why"].as_str().unwrap().contains("the driver does not do that"), "{status}");
    let lines = net.log("r");
    let said = lines.lines().filter(|line| line.contains("no AF_XDP here: frames come through AF_PACKET"));
    assert_eq!(said.count(), 2, "one line for each port: {lines}");
}

#[test]
fn a_port_with_too_large_an_mtu_is_alone_without_sockets() {
    let jumbo = LINE.replacen("[[links]]", "[[links]]\nmtu = 9000", 1);
    let Some(net) = Running::up_with("xskm", &jumbo, &sockets(false)) else { return };
    assert_eq!(net.ping("a", B, 5)["summary"]["received"], 5);
    let status = net.status("r");
    assert_eq!((&status["xdp"][0]["mode"], &status["xdp"][1]["mode"]), (&json!("none"), &json!("copy")), "{status}");
    assert!(status["xdp"][0]["why"].as_str().unwrap().contains("MTU of 9000 bytes is too large"), "{status}");
}

#[test]
fn drivers_are_polled_when_that_is_asked_for() {
    let Some(net) = Running::up_with("xskb", LINE, &sockets_with(true, "busy_poll_us = 200")) else { return };
    let status = use_applications(&net);
    assert_eq!(status["xdp"][0]["busy_poll_us"], 200, "{status}");
    assert!(no_drops(&status) && sum(&status, "to_stack") == 0, "{status}");
}

#[test]
fn another_program_at_the_interface_is_left_there() {
    let Some(mut net) = Running::build("xskx", LINE) else { return };
    // It passes everything: r0 = 2, end.
    let code = [0xb7, 0, 0, 0, 2, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0];
    let theirs = net.lab.enter("r", || {
        let all = anode::sys::netlink::interfaces().unwrap();
        let index = all.iter().find(|found| found.name == "to-a").unwrap().index;
        Program::load(Hook::Xdp, "theirs", &code, &[], None).unwrap().attach_xdp(index, XdpMode::Native).unwrap()
    });
    net.start(&sockets(false));
    let status = net.status("r");
    let why = status["xdp"][0]["why"].as_str().unwrap_or_default();
    assert!(why.contains("XDP program") && why.contains("stands there"), "{status}");
    assert_eq!(net.ping("a", B, 5)["summary"]["received"], 5, "frames come through AF_PACKET");
    let (at, _) = theirs.unwrap().target().unwrap();
    assert_ne!(at, 0, "it stands there still");
}
