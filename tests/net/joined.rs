//! Segments joined by the kernel (GRO) are longer than any link carries. They are kept apart while a channel takes
//! packets from a socket, and longer ones are counted. Changed settings of interfaces are restored, also after a death.

use crate::running::{self, ANODE, HOSTS, Running};
use crate::wait;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

const BYTES: usize = 5 << 20;

/// After so much of it a stream is stuck.
const SILENCE: Duration = Duration::from_secs(5);

/// A role for domains with a cut-through channel.
fn with_role(_: &str, config: &mut toml::Table) {
    let role = "name = \"cut\"\ngrants = { channels = 4, bandwidth = 1_000_000_000 }".parse::<toml::Table>().unwrap();
    config.insert("role".into(), toml::Value::Array(vec![toml::Value::Table(role)]));
}

fn in_kernel(node: &str, config: &mut toml::Table) {
    with_role(node, config);
    running::in_kernel(node, config);
}

/// Cuts TCP through from the network of a to that of b; the domain.
fn cut(net: &Running) -> String {
    let mut command = Command::new(ANODE);
    command
        .args(["channel", "cut"])
        .arg(net.dir("r"))
        .args(["if0/ip 10.0.1.0/24 -> 10.0.2.0/24 proto 6", "if1/ip * proto 6"]);
    let done = command.args(["--role", "cut"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().strip_prefix("domain ").unwrap().to_owned()
}

fn joins(net: &Running, interface: &str) -> bool {
    net.shell("r", &format!("ethtool -k {interface}")).contains("generic-receive-offload: on")
}

/// Sends bytes by TCP from a to b; says how many came until none did for a while.
fn transfer(net: &Running) -> usize {
    let listener = net.lab.enter("b", || TcpListener::bind("10.0.2.2:5000").unwrap()).unwrap();
    let mut from = net.lab.enter("a", || TcpStream::connect("10.0.2.2:5000").unwrap()).unwrap();
    let (mut to, _) = listener.accept().unwrap();
    to.set_read_timeout(Some(SILENCE)).unwrap();
    let sender = std::thread::spawn(move || {
        from.set_write_timeout(Some(SILENCE)).unwrap();
        // Whoever gives up on the other side is the one to say so.
        let _ = from.write_all(&vec![7; BYTES]);
    });
    let (mut came, mut buffer) = (0, vec![0; 1 << 16]);
    while came < BYTES {
        match to.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(bytes) => came += bytes,
        }
    }
    drop(to);
    sender.join().unwrap();
    came
}

fn tcp_passes(name: &str, adjust: running::Adjust<'_>) {
    let Some(net) = Running::up_with(name, HOSTS, adjust) else { return };
    net.shell("r", "ethtool -K to-b gro off");
    assert!(joins(&net, "to-a"));
    let domain = cut(&net);
    assert!(!joins(&net, "to-a"), "kept apart from now on");
    assert_eq!(transfer(&net), BYTES, "{}", net.status("r"));
    let channels = net.control("r").ask(&serde_json::json!({"do": "channels"})).unwrap();
    let most = channels.as_array().unwrap().iter().filter_map(|channel| channel["bytes"].as_u64()).max();
    assert!(most.is_some_and(|bytes| bytes > BYTES as u64), "by the channel: {channels}");
    net.control("r").ask(&serde_json::json!({"do": "kill-domain", "domain": domain.parse::<u32>().unwrap()})).unwrap();
    // Given back with the last channel.
    net.until("r", || joins(&net, "to-a").then_some(()));
    assert!(!joins(&net, "to-b"), "what was off stays off");
}

#[test]
fn tcp_passes_a_cut_through_channel_of_a_port_through_af_packet() {
    tcp_passes("joined", &with_role);
}

#[test]
fn tcp_passes_a_cut_through_channel_of_a_port_before_which_the_kernel_half_stands() {
    tcp_passes("joinedk", &in_kernel);
}

#[test]
fn channels_that_come_and_go_do_not_switch_an_interface_off_and_on() {
    let Some(net) = Running::up_with("joinedc", HOSTS, &with_role) else { return };
    let mut monitor = net.lab.command("r", "ip").unwrap();
    let mut told = monitor.args(["-o", "monitor", "link", "dev", "to-a"]).stdout(Stdio::piped()).spawn().unwrap();
    for _ in 0..5 {
        let domain: u32 = cut(&net).parse().unwrap();
        net.control("r").ask(&serde_json::json!({"do": "kill-domain", "domain": domain})).unwrap();
    }
    // Given back with the last channel.
    net.until("r", || joins(&net, "to-a").then_some(()));
    told.kill().unwrap();
    let lines = std::io::read_to_string(told.stdout.take().unwrap()).unwrap();
    told.wait().unwrap();
    assert!(lines.lines().count() <= 6, "off once and on once, with what that changes beside:\n{lines}");
}

#[test]
fn what_was_changed_at_interfaces_is_given_back_after_a_death() {
    let Some(mut net) = Running::up_with("joinedd", HOSTS, &with_role) else { return };
    let dir = net.dir("r").to_owned();
    for again in [true, false] {
        cut(&net);
        assert!(!joins(&net, "to-a") && joins(&net, "to-b"), "where packets of the channel come in");
        net.daemons[0].kill().unwrap();
        net.daemons.clear();
        // The broker outlives its node for as long as that takes.
        wait::path(&dir, || (!dir.join("settings").exists()).then_some(()));
        assert!(joins(&net, "to-a"), "given back before that is forgotten");
        if again {
            net.start(&with_role);
        }
    }
}

#[test]
fn frames_that_are_too_long_are_counted() {
    let Some(net) = Running::up_with("joinedl", HOSTS, &with_role) else { return };
    cut(&net);
    // Somebody else has them joined again.
    net.shell("r", "ethtool -K to-a gro on");
    let listener = net.lab.enter("b", || TcpListener::bind("10.0.2.2:5000").unwrap()).unwrap();
    let mut from = net.lab.enter("a", || TcpStream::connect("10.0.2.2:5000").unwrap()).unwrap();
    let (to, _) = listener.accept().unwrap();
    let ends = [from.try_clone().unwrap(), to];
    let sender = std::thread::spawn(move || from.write_all(&vec![7; BYTES]));
    net.await_status("r", |status| status["drops"]["oversized"].as_u64() > Some(0));
    // Few of the bytes come; whether all were taken says nothing.
    ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
    let _ = sender.join().unwrap();
}

/// Without the port to a.
fn without_a(node: &str, config: &mut toml::Table) {
    with_role(node, config);
    config["port"].as_array_mut().unwrap().retain(|port| port["packet"].as_str() != Some("to-a"));
}

/// Kills the node and its broker, so that nobody gives back anything.
fn kill_both(net: &mut Running) {
    let pid = net.daemons[0].pid();
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let broker = children.split_whitespace().next().unwrap().to_owned();
    assert!(Command::new("kill").args(["-KILL", &broker]).status().unwrap().success());
    net.daemons[0].kill().unwrap();
    net.daemons.clear();
}

#[test]
fn what_was_changed_at_an_interface_that_is_no_port_any_more_is_given_back() {
    let Some(mut net) = Running::up_with("joinedp", HOSTS, &with_role) else { return };
    cut(&net);
    kill_both(&mut net);
    assert!(!joins(&net, "to-a"), "nobody was there to give it back");
    net.start(&without_a);
    assert!(joins(&net, "to-a"), "{}", net.log("r"));
}

#[test]
fn tags_are_taken_off_again_where_no_program_of_the_nodes_stands_any_more() {
    let Some(mut net) = Running::up_with("joinedt", HOSTS, &in_kernel) else { return };
    let takes = |net: &Running| net.shell("r", "ethtool -k to-a").contains("rx-vlan-offload: on");
    assert!(!takes(&net), "the kernel half sees tags");
    net.daemons[0].kill().unwrap();
    net.daemons.clear();
    net.start(&without_a);
    assert!(takes(&net), "{}", net.log("r"));
    net.control("r").ask(&serde_json::json!({"do": "down"})).unwrap();
    net.daemons[0].wait().unwrap();
    assert!(!net.log("r").contains("leaves something behind"), "{}", net.log("r"));
}
