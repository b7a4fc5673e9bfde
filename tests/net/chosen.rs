//! `kernel = "auto"`: link and traffic choose whether the kernel half stands before a port, and every change is said.

use crate::pace::Pace;
use crate::running::{self, ANODE, HOSTS, Running};
use crate::sender::{Sender, WARM, receiver};
use anode::wire::Digest;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

/// Time between two capsules, by the clock.
const GAP: Duration = Duration::from_millis(1);

fn auto(_: &str, config: &mut toml::Table) {
    for port in config["port"].as_array_mut().unwrap() {
        port.as_table_mut().unwrap().insert("kernel".into(), "auto".into());
    }
}

/// Node r between two hosts; its veths have the segmentation that they are made with, or none.
fn between(name: &str, long: bool) -> Option<Running> {
    let mut net = Running::build(name, HOSTS)?;
    if long {
        for (node, interface) in [("a", "to-r"), ("r", "to-a"), ("r", "to-b"), ("b", "to-r")] {
            net.shell(node, &format!("ethtool -K {interface} tx on tso on gso on"));
        }
    }
    net.start(&auto);
    Some(net)
}

/// What is chosen of the port at an interface.
fn chosen<'a>(status: &'a Value, interface: &str) -> &'a Value {
    let links = status["links"].as_array().unwrap();
    &links.iter().find(|link| link["interface"] == interface).unwrap()["chosen"]
}

/// Whether a program stands before an interface of r.
fn has_program(net: &Running, interface: &str) -> bool {
    net.shell("r", &format!("ip link show {interface}")).contains("xdp")
}

fn why(chosen: &Value) -> &str {
    chosen["why"].as_str().unwrap()
}

/// The check of its configuration says it too.
fn is_expected(net: &Running, half: &str, word: &str) {
    let file = net.dir("r").join("node.toml");
    let checked = net.lab.command("r", ANODE).unwrap().args(["node", "check"]).arg(&file).output().unwrap();
    let checked = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert!(checked.contains(half) && checked.contains(word), "{checked}");
}

/// Log, status and events say it, with this word of the reason.
fn is_said(net: &Running, kernel: bool, word: &str) {
    let text = |words: &[&str]| {
        let mut command = Command::new(ANODE);
        let output = command.args(words).arg(net.dir("r")).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let (status, events) = (text(&["node", "status"]), text(&["node", "events"]));
    let (at_port, stands) = if kernel {
        ("  the kernel half at port", "the kernel half stands there by choice")
    } else {
        ("  no kernel half at port", "no kernel half there by choice")
    };
    assert!(status.contains(at_port) && status.contains(word), "{status}");
    assert!(events.contains(stands) && events.contains(word), "{events}");
    let log = net.log("r");
    assert!(log.contains(stands) && log.contains(word), "{log}");
}

#[test]
fn a_veth_with_long_segments_is_left_without_a_program_and_it_is_said_why() {
    let Some(net) = between("long", true) else { return };
    let status = net.await_status("r", |status| !chosen(status, "to-b").is_null());
    for interface in ["to-a", "to-b"] {
        let chosen = chosen(&status, interface);
        assert!(chosen["kernel"] == false && why(chosen).contains("tcp-segmentation-offload"), "{status}");
        assert!(!has_program(&net, interface));
    }
    is_said(&net, false, "tcp-segmentation-offload");
    is_expected(&net, ", no kernel half by choice", "tcp-segmentation-offload");
}

#[test]
fn a_veth_without_them_has_the_kernel_half_and_it_is_said_why() {
    let Some(net) = between("short", false) else { return };
    let status = net.await_status("r", |status| !chosen(status, "to-b").is_null());
    for interface in ["to-a", "to-b"] {
        assert!(chosen(&status, interface)["kernel"] == true && has_program(&net, interface), "{status}");
    }
    is_said(&net, true, "without tcp-segmentation-offload");
    is_expected(&net, ", kernel half by choice", "without tcp-segmentation-offload");
    // Another setting leaves what stands to traffic.
    net.shell("r", "ethtool -K to-a tx on tso on");
    let left = |status: &Value| why(chosen(status, "to-a")).contains("ends take long segments");
    let status = net.await_status("r", left);
    assert!(chosen(&status, "to-a")["kernel"] == true && has_program(&net, "to-a"), "{status}");
}

/// A stream from a to b through r, as fast as it goes, until the other side has gone.
fn stream(net: &Running, listener: TcpListener, done: impl FnOnce()) {
    let mut from = net.lab.enter("a", || TcpStream::connect("10.0.2.2:7777").unwrap()).unwrap();
    let (mut to, _) = listener.accept().unwrap();
    std::thread::scope(|scope| {
        // Whoever has enough closes it.
        scope.spawn(move || while from.write_all(&[0; 1 << 16]).is_ok() {});
        let stop = to.try_clone().unwrap();
        scope.spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while to.read(&mut buffer).is_ok_and(|read| read > 0) {}
        });
        done();
        stop.shutdown(std::net::Shutdown::Both).unwrap();
    });
}

#[test]
fn traffic_brings_the_kernel_half_and_takes_it_away_and_every_change_is_said() {
    let Some(net) = between("weighed", true) else { return };
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code: Digest = net.control("r").add_code(&ping).unwrap();
    let (mut sender, far) = (Sender::new(&net, code, "10.0.2.2"), receiver(&net, "b", "10.0.2.2"));
    net.await_status("r", |status| {
        sender.send(WARM);
        status["codes"][0]["total"]["packets"].as_u64().unwrap_or(0) >= 20
    });
    let (pace, is) =
        (Pace::by_the_clock(GAP), |status: &Value, kernel: bool| chosen(status, "to-a")["kernel"] == kernel);
    std::thread::scope(|scope| {
        scope.spawn(|| pace.run(|mark| sender.send(mark)));
        let status = net.await_status("r", |status| is(status, true) && has_program(&net, "to-a"));
        assert!(why(chosen(&status, "to-a")).contains("were the node's"), "{status}");
        // Capsules go on, in the kernel half now, which sends on only between ports that have it.
        let runs = |status: &Value| status["kernel"]["codes"][0]["usage"]["forwarded"].as_u64() > Some(100);
        let status = net.await_status("r", runs);
        assert!(chosen(&status, "to-b")["kernel"] == true && has_program(&net, "to-b"), "{status}");
        pace.stop();
    });
    drop(far);
    running::accounted(net.status("r"));
    let listener = net.lab.enter("b", || TcpListener::bind("10.0.2.2:7777").unwrap()).unwrap();
    stream(&net, listener, || {
        let status = net.await_status("r", |status| is(status, false) && !has_program(&net, "to-a"));
        assert_eq!(chosen(&status, "to-a")["changes"], 2, "{status}");
    });
    is_said(&net, false, "the others long ones");
    let log = net.log("r");
    assert!(log.contains("the kernel half stands there by choice"), "{log}");
    // The port works on in the user half.
    net.await_status("r", |status| {
        let before = status["codes"][0]["total"]["packets"].as_u64().unwrap();
        sender.send(WARM);
        running::accounted(net.status("r"))["codes"][0]["total"]["packets"].as_u64().unwrap() > before
    });
}

#[test]
fn a_node_with_routes_of_its_own_goes_without_and_says_so() {
    let Some(mut net) = Running::build("ownway", HOSTS) else { return };
    net.start(&|name, config| {
        auto(name, config);
        config.insert("routes".into(), "static".into());
    });
    let status = net.await_status("r", |status| !chosen(status, "to-b").is_null());
    assert!(status["kernel"].is_null() && why(chosen(&status, "to-b")).contains("the kernel's routes"), "{status}");
    assert!(!has_program(&net, "to-b"));
}
