//! From which port frames are taken in: sockets of two ports are full before the worker looks, and the order in which packets come
//! out at a third port is the one in which they were taken in.

use crate::apply::{apply, under_load};
use crate::running::{self, ANODE, Running};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;

/// Hosts a and c send to b.
const FORK: &str = r#"
name = "t"
nodes.a = {}
nodes.c = {}
nodes.r.active = true
nodes.b = {}
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24"]
[[links]]
ends = ["c", "r"]
prefixes = ["10.0.3.0/24"]
"#;

/// Frames of a batch.
const BATCH: f64 = 64.0;

/// Datagrams of each host that wait before the worker looks.
const EACH: usize = 400;

/// Datagrams of each before.
const WARM: usize = 20;

/// Whoever sends how much has it, and channels.
const ROLES: &str = "[entry]\nshare = 1.0\nburst_ms = 1000\n\
                     [[role]]\nname = \"cut\"\ngrants = { channels = 8, bandwidth = 1_000_000_000 }\n";

/// An order of an extension that shares by parts, and one that traps.
const SHARES: &str = "shares/Shares(1, 1, 3)";
const TRAPS: &str = "bad/Trap";
const BAD: &str = r#"(module (memory (export "memory") 1) (global (export "an_buffer") i32 (i32.const 0))
  (func (export "Trap") (param i32) (result i32) unreachable)
  (@custom "anode.extension" "name = 'bad'\n[[engine]]\nname = 'Trap'\nports = '1-/1'\norder = true\n"))"#;

/// One worker, in which a packet runs when it is taken in, whoever sends how much; c has three parts beside one of a.
fn adjusted(config: &mut toml::Table, order: Option<&str>) {
    adjusted_for("workers = 1\naffinity = [0]", config, order);
}

fn adjusted_for(workers: &str, config: &mut toml::Table, order: Option<&str>) {
    let text = format!("[cpu]\nscheduler = \"fifo\"\n{workers}\n{ROLES}");
    config.extend(text.parse::<toml::Table>().unwrap());
    let Some(order) = order else { return };
    config.insert("input".into(), toml::Table::from_iter([("order".to_owned(), order.into())]).into());
    if order.contains('/') {
        // Three parts of c, the third port.
        let file = format!("{}/apps/extensions/shares.wat", env!("CARGO_MANIFEST_DIR"));
        let extensions = [("shares", std::fs::read_to_string(file).unwrap()), ("bad", BAD.to_owned())];
        let table = |(name, module): (&str, String)| {
            toml::Table::from_iter([("name".to_owned(), name.into()), ("module".to_owned(), module.into())]).into()
        };
        config.insert("extension".into(), toml::Value::Array(extensions.map(table).into()));
        return;
    }
    for port in config["port"].as_array_mut().unwrap() {
        let port = port.as_table_mut().unwrap();
        if port["packet"].as_str() == Some("to-c") {
            port.insert("input".into(), "weight = 300\npriority = 1".parse::<toml::Table>().unwrap().into());
        }
    }
}

/// A configuration of r with another order of ports, or none.
fn with_order(net: &Running, plain: &toml::Table, order: Option<&str>) -> PathBuf {
    let mut config = plain.clone();
    adjusted(&mut config, order);
    let path = net.dir("r").join("other.toml");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

fn port<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["ports"].as_array().unwrap().iter().find(|port| port["name"] == name).unwrap()
}

/// Packets that an interface of r has had.
fn had(net: &Running, interface: &str) -> u64 {
    let said = net.shell("r", &format!("ip -s -j link show dev {interface}"));
    serde_json::from_str::<Value>(&said).unwrap()[0]["stats64"]["rx"]["packets"].as_u64().unwrap()
}

/// A node whose threads all stand still as long as this is there.
struct Stopped(Pid);

impl Stopped {
    fn of(pid: u32) -> Stopped {
        let stopped = Stopped(Pid::from_raw(pid as i32).unwrap());
        kill_process(stopped.0, Signal::STOP).unwrap();
        let stands = |thread: std::io::Result<std::fs::DirEntry>| {
            // One that has ended meanwhile does nothing either.
            let said = std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap_or_default();
            said.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        while !std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().all(stands) {}
        stopped
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Datagrams through r.
struct Hosts {
    a: UdpSocket,
    c: UdpSocket,
    b: UdpSocket,
}

impl Hosts {
    fn of(net: &Running) -> Hosts {
        let at = |node: &str, address: &str| net.lab.enter(node, || UdpSocket::bind(address).unwrap()).unwrap();
        let b = at("b", "10.0.2.2:7000");
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&b, 64 << 20).unwrap();
        b.set_read_timeout(Some(running::PATIENCE)).unwrap();
        Hosts { a: at("a", "10.0.1.1:4000"), c: at("c", "10.0.3.1:4000"), b }
    }

    /// Who has sent the next one.
    fn next(&self) -> char {
        let mut buffer = [0; 16];
        let length = self.b.recv(&mut buffer).unwrap();
        assert_eq!(length, 1);
        buffer[0].into()
    }

    fn send(from: &UdpSocket, who: char) {
        from.send_to(&[who as u8], "10.0.2.2:7000").unwrap();
    }

    /// Until the node, and what is beyond it, knows all it needs.
    fn warm(&self) {
        for (from, who) in [(&self.a, 'a'), (&self.c, 'c')] {
            for _ in 0..WARM {
                Hosts::send(from, who);
                assert_eq!(self.next(), who);
            }
        }
    }

    /// Both send while the node stands still; in which order those come that it had then.
    fn order(&self, net: &Running) -> Vec<char> {
        self.warm();
        let before = ["to-a", "to-c"].map(|interface| had(net, interface));
        let stopped = Stopped::of(net.daemon("r").pid());
        for (from, who) in [(&self.a, 'a'), (&self.c, 'c')] {
            (0..EACH).for_each(|_| Hosts::send(from, who));
        }
        for (interface, before) in ["to-a", "to-c"].into_iter().zip(before) {
            while had(net, interface) < before + EACH as u64 {}
        }
        drop(stopped);
        (0..2 * EACH).map(|_| self.next()).collect()
    }
}

/// How many of a and c are among the first so many, for all of them while both have some.
fn shares(order: &[char]) -> impl Iterator<Item = [f64; 2]> {
    let both = ['a', 'c'].map(|who| order.iter().rposition(|it| *it == who).unwrap());
    (0..both[0].min(both[1]))
        .map(|end| ['a', 'c'].map(|who| order[..end].iter().filter(|it| **it == who).count() as f64))
}

#[test]
fn what_waits_at_two_ports_is_taken_in_by_priority_or_by_weight() {
    let Some(net) = Running::up_with("inputs", FORK, &|_, config| adjusted(config, None)) else { return };
    let plain: toml::Table = std::fs::read_to_string(net.dir("r").join("node.toml")).unwrap().parse().unwrap();
    for network in ["10.0.1.0/24", "10.0.3.0/24"] {
        let mut cut = Command::new(ANODE);
        cut.args(["channel", "cut"]).arg(net.dir("r"));
        let (from, to) = (format!("*/ip {network} -> 10.0.2.0/24 proto 17"), "to-b/ip * proto 17");
        let done = cut.args([&from, to, "--role", "cut"]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let hosts = Hosts::of(&net);
    for order in [None, Some("priority"), Some("wfq"), Some("drr"), Some(SHARES), None] {
        let (done, said) = apply(&net, "r", &with_order(&net, &plain, order), &[]);
        assert!(done, "{said}");
        let before = net.status("r");
        let came = hosts.order(&net);
        println!("{order:?}: {}", came.iter().collect::<String>());
        let first = came.iter().rposition(|who| *who == 'c').unwrap();
        match order {
            // Four batches of each in turn: those of the first port are not behind the other's.
            None => assert!(first >= EACH, "{first}"),
            Some("priority") => assert_eq!(first, EACH - 1, "all of c, and then all of a"),
            Some(order) => {
                let turn = if order == "drr" { BATCH } else { 0.0 };
                for [a, c] in shares(&came) {
                    assert!((a - c / 3.0).abs() <= turn + BATCH + BATCH / 3.0, "{order}: {a} and {c}");
                }
            }
        }
        let received = |status: &Value, name: &str| port(status, name)["received"].as_u64().unwrap();
        let each = |status: &Value, name: &str| received(status, name) - received(&before, name);
        // Those that warmed it are among them.
        let status = net.await_status("r", |status| {
            let told =
                |name: &str| order.is_none() || port(status, name)["input"]["frames"].as_u64() >= Some(EACH as u64);
            ["to-a", "to-c"].into_iter().all(|name| each(status, name) >= (EACH + WARM) as u64 && told(name))
        });
        assert!(running::no_drops(&status), "{}", status["drops"]);
        let input = &port(&status, "to-c")["input"];
        match order {
            None => assert!(input.is_null(), "{input}"),
            Some(_) => {
                let parts = if order == Some(SHARES) { [Value::Null, Value::Null] } else { [300.into(), 1.into()] };
                assert_eq!([&input["weight"], &input["priority"]], parts.each_ref());
                assert_eq!(input["failed"], 0, "{input}");
                let (batches, frames) = (input["batches"].as_u64().unwrap(), input["frames"].as_u64().unwrap());
                assert!(batches >= (EACH as u64).div_ceil(BATCH as u64) && batches <= frames, "{input}");
            }
        }
    }
}

#[test]
fn orders_of_ports_come_and_go_under_load_and_no_packet_is_lost() {
    let Some(net) = Running::up_with("inputl", FORK, &|_, config| adjusted(config, None)) else { return };
    let plain: toml::Table = std::fs::read_to_string(net.dir("r").join("node.toml")).unwrap().parse().unwrap();
    let (before, after) = under_load("inputl", &net, false, |pace| {
        for _ in 0..3 {
            for order in ["drr", "priority", SHARES, TRAPS, "wfq"].map(Some).into_iter().chain([None]) {
                let (done, said) = apply(&net, "r", &with_order(&net, &plain, order), &[]);
                assert!(done && said.contains("applied as configuration"), "{order:?}: {said}");
                pace.await_more(50);
                if order == Some(TRAPS) {
                    // Ports have their turns all the same.
                    net.until("r", || {
                        let input = port(&net.status("r"), "to-a")["input"].clone();
                        (input["failed"].as_u64() > Some(0) && input["failed"] == input["batches"]).then_some(())
                    });
                }
            }
            let (done, said) = apply(&net, "r", &with_order(&net, &plain, Some("edf")), &[]);
            assert!(!done && said.contains("[input] order = \"edf\""), "{said}");
        }
    });
    assert_eq!(after["drops"], before["drops"]);
    assert_eq!(after["configuration"]["applied"], 18);
}

#[test]
fn each_of_several_workers_has_an_order_of_its_own() {
    let adjust = |config: &mut toml::Table, order| adjusted_for("workers = 2", config, order);
    let Some(net) = Running::up_with("inputw", FORK, &|_, config| adjust(config, Some(SHARES))) else { return };
    assert_eq!(net.status("r")["workers"].as_array().unwrap().len(), 2);
    let mut config: toml::Table = std::fs::read_to_string(net.dir("r").join("node.toml")).unwrap().parse().unwrap();
    let path = net.dir("r").join("other.toml");
    let (before, after) = under_load("inputw", &net, false, |pace| {
        for _ in 0..3 {
            for order in ["wfq", SHARES, TRAPS, SHARES] {
                config.insert("input".into(), toml::Table::from_iter([("order".to_owned(), order.into())]).into());
                std::fs::write(&path, config.to_string()).unwrap();
                let (done, said) = apply(&net, "r", &path, &[]);
                assert!(done && said.contains("applied as configuration"), "{order:?}: {said}");
                pace.await_more(50);
            }
        }
    });
    assert_eq!(after["drops"], before["drops"]);
    let input = &port(&after, "to-a")["input"];
    assert!(input["frames"].as_u64() > Some(0) && input["failed"] == 0, "{input}");
}
