//! `kernel = "auto"`: link and traffic choose whether the kernel half stands before a port, and every change is said.

use crate::apply::apply;
use crate::outlive::down;
use crate::pace::Pace;
use crate::running::{self, ANODE, HOSTS, Running};
use crate::sender::{Sender, WARM, next_mark, receiver};
use crate::wait;
use anode::sys::bpf;
use anode::wire::Digest;
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// Sets of maps in a run directory, at most.
const SETS_MAX: usize = 8;

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

/// Both ports are left without a program, for this reason.
fn is_left_without(net: &Running, word: &str) {
    let status = net.await_status("r", |status| !chosen(status, "to-b").is_null());
    for interface in ["to-a", "to-b"] {
        let chosen = chosen(&status, interface);
        assert!(chosen["kernel"] == false && why(chosen).contains(word), "{status}");
        assert!(!has_program(net, interface));
    }
    is_said(net, false, word);
    is_expected(net, ", no kernel half by choice", word);
}

#[test]
fn a_veth_is_left_without_a_program_whether_it_has_segmentation_or_not_and_it_is_said_why() {
    let Some(net) = between("long", true) else { return };
    is_left_without(&net, "tcp-segmentation-offload");
    drop(net);
    let net = between("short", false).unwrap();
    is_left_without(&net, "a veth, which copies all that TCP sends");
}

/// A stream from a to b through r, as fast as it goes, until the other side has gone.
fn stream(net: &Running, listener: &TcpListener, done: impl FnOnce()) {
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

/// At ports without the kernel half traffic that is mostly others' brings none, capsules alone do, and others' traffic takes it away.
fn weighs(name: &str, long: bool) {
    let Some(net) = between(name, long) else { return };
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code: Digest = net.control("r").add_code(&ping).unwrap();
    let (mut sender, far) = (Sender::new(&net, code, "10.0.2.2"), receiver(&net, "b", "10.0.2.2"));
    net.await_status("r", |status| {
        sender.send(WARM);
        status["codes"][0]["total"]["packets"].as_u64().unwrap_or(0) >= 20
    });
    let (pace, is) =
        (Pace::by_the_clock(GAP), |status: &Value, kernel: bool| chosen(status, "to-a")["kernel"] == kernel);
    let listener = net.lab.enter("b", || TcpListener::bind("10.0.2.2:7777").unwrap()).unwrap();
    std::thread::scope(|scope| {
        let _stops = pace.stops_with_this();
        stream(&net, &listener, || {
            let others = |status: &Value| why(chosen(status, "to-a")).contains("others' bytes would fill");
            // Before that a look may find capsules alone, and two such looks bring the kernel half.
            net.await_status("r", others);
            scope.spawn(|| pace.run(|mark| sender.send(mark)));
            let mut looks = HashSet::new();
            net.await_status("r", |status| {
                let chosen = chosen(status, "to-a");
                assert!(chosen["kernel"] == false, "{status}");
                looks.insert(why(chosen).to_owned());
                looks.len() >= 4
            });
        });
        let status = net.await_status("r", |status| is(status, true) && has_program(&net, "to-a"));
        assert!(why(chosen(&status, "to-a")).contains("were the node's"), "{status}");
        // Capsules go on, in the kernel half now, which sends on only between ports that have it.
        let runs = |status: &Value| status["kernel"]["codes"][0]["usage"]["forwarded"].as_u64() > Some(100);
        let status = net.await_status("r", runs);
        assert!(chosen(&status, "to-b")["kernel"] == true && has_program(&net, "to-b"), "{status}");
    });
    drop(far);
    running::accounted(net.status("r"));
    stream(&net, &listener, || {
        let status = net.await_status("r", |status| is(status, false) && !has_program(&net, "to-a"));
        assert_eq!(chosen(&status, "to-a")["changes"], 2, "{status}");
    });
    is_said(&net, false, "others' bytes would fill");
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
fn traffic_brings_the_kernel_half_and_takes_it_away_and_every_change_is_said() {
    weighs("weighed", true);
}

#[test]
fn traffic_weighs_the_same_at_veths_without_segmentation() {
    weighs("weighs", false);
}

/// Capsules from a until this is so at r.
fn send_until(net: &Running, sender: &mut Sender, there: impl FnMut(&Value) -> bool) -> Value {
    let pace = Pace::by_the_clock(GAP);
    std::thread::scope(|scope| {
        scope.spawn(|| pace.run(|mark| sender.send(mark)));
        let _stops = pace.stops_with_this();
        net.await_status("r", there)
    })
}

fn end(net: &Running, mut node: Child) {
    down(net, &[]);
    wait::ended(&mut node);
}

#[test]
fn what_was_chosen_stays_over_a_restart_if_the_kernel_half_does_and_is_chosen_anew_if_not() {
    let store = tempfile::tempdir().unwrap();
    let Some(mut net) = Running::build("anew", HOSTS) else { return };
    net.start(&|name, config| {
        auto(name, config);
        config.insert("store".into(), store.path().join(name).display().to_string().into());
    });
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let mut sender = Sender::new(&net, net.control("r").add_code(&ping).unwrap(), "10.0.2.2");
    let stands = |status: &Value| {
        ["to-a", "to-b"].iter().all(|at| chosen(status, at)["kernel"] == true && has_program(&net, at))
    };
    send_until(&net, &mut sender, stands);
    down(&net, &["--keep-kernel"]);
    assert!(has_program(&net, "to-a"), "it outlives the process");
    let node = net.start_again("r");
    let status = net.await_status("r", |status| !chosen(status, "to-b").is_null());
    assert!(stands(&status), "{status}");
    assert!(why(chosen(&status, "to-b")).contains("a process before this one has left it there"), "{status}");
    // It runs there, and what comes is weighed from now on.
    let weighed = |status: &Value| {
        status["kernel"]["codes"][0]["usage"]["forwarded"].as_u64() > Some(100)
            && why(chosen(status, "to-a")).contains("were the node's")
    };
    assert!(stands(&send_until(&net, &mut sender, weighed)));
    end(&net, node);
    let node = net.start_again("r");
    let status = net.await_status("r", |status| !chosen(status, "to-b").is_null());
    assert!(!stands(&status) && why(chosen(&status, "to-b")).contains("few packets have come so far"), "{status}");
    send_until(&net, &mut sender, stands);
    end(&net, node);
}

#[test]
fn beside_a_port_that_demands_proofs_another_one_is_chosen_by_its_traffic() {
    let Some(mut net) = Running::build("demands", HOSTS) else { return };
    net.start(&|name, config| {
        auto(name, config);
        let ports = config["port"].as_array_mut().unwrap();
        let far = ports.iter_mut().find(|port| port["packet"].as_str() == Some("to-b")).unwrap();
        far.as_table_mut().unwrap().insert("demand".into(), vec!["signed-code"].into());
    });
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code = net.control("r").add_code(&ping).unwrap();
    let (mut sender, far) = (Sender::new(&net, code, "10.0.2.2"), receiver(&net, "b", "10.0.2.2"));
    let there = |status: &Value| chosen(status, "to-a")["kernel"] == true && has_program(&net, "to-a");
    let status = send_until(&net, &mut sender, there);
    let at_b = chosen(&status, "to-b");
    assert!(at_b["kernel"] == false && why(at_b).contains("the port has demand or keys"), "{status}");
    assert!(!has_program(&net, "to-b"));
    is_expected(&net, ", no kernel half by choice", "the port has demand or keys");
    // What comes by the one leaves by the other.
    sender.send(7);
    while next_mark(&far).expect("it comes") != 7 {}
}

#[test]
fn a_port_that_demands_proofs_from_now_on_has_no_kernel_half_when_that_is_applied() {
    let Some(net) = Running::up_with("demanded", HOSTS, &auto) else { return };
    let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
    let code = net.control("r").add_code(&ping).unwrap();
    let (mut sender, _far) = (Sender::new(&net, code, "10.0.2.2"), receiver(&net, "b", "10.0.2.2"));
    let at_a = |status: &Value| chosen(status, "to-a")["kernel"] == true;
    send_until(&net, &mut sender, |status| at_a(status) && status["codes"][0]["kernel"] == "running");
    let file = net.dir("r").join("node.toml");
    let mut config: toml::Table = fs::read_to_string(&file).unwrap().parse().unwrap();
    let ports = config["port"].as_array_mut().unwrap();
    let near = ports.iter_mut().find(|port| port["packet"].as_str() == Some("to-a")).unwrap();
    near.as_table_mut().unwrap().insert("demand".into(), vec!["signed-code"].into());
    let other = net.dir("r").join("other.toml");
    fs::write(&other, config.to_string()).unwrap();
    let (done, said) = apply(&net, "r", &other, &[]);
    assert!(done, "{said}");
    let forwarded = |status: &Value| status["codes"][0]["total"]["forwarded"].as_u64().unwrap();
    // From the moment that it is applied: nobody has signed the code.
    let before = net.status("r");
    sender.send(WARM);
    assert!(!has_program(&net, "to-a") && !at_a(&before), "{before}");
    let after = net.await_status("r", |status| status["drops"]["unsigned"].as_u64() > Some(0));
    assert_eq!(forwarded(&after), forwarded(&before));
}

#[test]
fn a_node_whose_kernel_half_cannot_be_loaded_goes_without_and_says_why() {
    let Some(mut net) = Running::build("unloaded", HOSTS) else { return };
    net.start(&|name, config| {
        auto(name, config);
        // There may be no more than what so many processes before seem to have left.
        let pins = Path::new(config["run_dir"].as_str().unwrap()).join("bpf");
        fs::create_dir_all(&pins).unwrap();
        bpf::mount(&pins).unwrap();
        (1..=SETS_MAX).for_each(|number| fs::create_dir(pins.join(format!("set-{number}"))).unwrap());
        // A program stands there anyway, so the kernel half would.
        config["port"].as_array_mut().unwrap()[0].as_table_mut().unwrap().insert("xdp".into(), true.into());
    });
    let status = net.await_status("r", |status| !chosen(status, "to-b").is_null());
    assert!(status["kernel"].is_null(), "{status}");
    for interface in ["to-a", "to-b"] {
        let chosen = chosen(&status, interface);
        assert!(chosen["kernel"] == false && why(chosen).contains("could not load it"), "{status}");
    }
    is_said(&net, false, "could not load it");
    let log = net.log("r");
    assert!(log.contains("no kernel half: it cannot be loaded") && log.contains("sets of maps, and at most"), "{log}");
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
