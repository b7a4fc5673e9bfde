//! A node with two workers, each with a receive queue of its own: real processes on veth interfaces with two queues.

use crate::build::{Linked, build};
use crate::guests::padded_forward;
use crate::pace::again;
use crate::restless::Restless;
use crate::running::{self, HOSTS, PATIENCE, Running, guest, sockets};
use crate::wait;
use anode::wire::{Addr, Digest, anep, capsule};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

/// Capsules that each test sends.
pub const COUNT: u32 = 120;

pub const A: &str = "10.0.1.1";
pub const B: &str = "10.0.2.2";

/// A lab of two hosts around a node whose interfaces have two queues.
pub fn two_queues(name: &str) -> Option<Running> {
    two_queues_of(name, HOSTS)
}

/// The same of other nodes.
fn two_queues_of(name: &str, topology: &str) -> Option<Running> {
    let net = Running::build(name, topology)?;
    for (node, interface, what) in [
        ("r", "to-a", "rx"),
        ("r", "to-b", "rx"),
        ("r", "to-b", "tx"),
        ("r", "to-a", "tx"),
        ("a", "to-r", "tx"),
        ("b", "to-r", "tx"),
    ] {
        let current = "tail -n 5 | grep -qi";
        net.shell(node, &format!("ethtool -L {interface} {what} 2; ethtool -l {interface} | {current} '{what}:.*2'"));
    }
    Some(net)
}

/// A capsule that adds 1 under key 7 at each node.
pub fn capsule(code: Digest, from: &str, to: &str) -> Vec<u8> {
    let from: Addr = from.parse().unwrap();
    let header =
        capsule::Header { app_port: 5, bound: 8, code, previous: from, source: from, destination: to.parse().unwrap() };
    let mut bytes = vec![0; anep::HEADER + capsule::HEADER];
    header.emit(&mut bytes[anep::HEADER..]).unwrap();
    // struct state: ADD, for a minute, under 7, so much.
    bytes.extend([3, 0, 0, 0]);
    bytes.extend(60_000u32.to_be_bytes());
    bytes.extend(7u64.to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(1u64.to_le_bytes());
    bytes.extend([0; 56]);
    let length = bytes.len() - anep::HEADER;
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, length).unwrap();
    bytes
}

/// A socket at the other host, to which capsules come.
fn at_far_end(net: &Running) -> UdpSocket {
    wait::unannounced("a process that begins elsewhere has the socket of before until it is another program", || {
        net.lab.enter("b", || UdpSocket::bind((B, 3322))).unwrap().map_err(|why| why.to_string())
    })
}

/// Sends capsules from many ports, so that both queues get some; gives how many came to the other host.
pub fn cross(net: &Running, code: Digest) -> u32 {
    let there = at_far_end(net);
    there.set_nonblocking(true).unwrap();
    let bytes = capsule(code, A, B);
    // The first one brings the code here, and makes the sender a neighbour.
    let first = || UdpSocket::bind((A, 0)).unwrap().send_to(&bytes, (B, 3322)).unwrap();
    let of_code = |status: &Value| status["codes"][0]["total"]["forwarded"].as_u64().unwrap_or(0);
    let before = of_code(&net.status("r"));
    net.lab.enter("a", first).unwrap();
    net.await_status("r", |status| of_code(status) > before);
    let send = || {
        for _ in 1..COUNT {
            let socket = UdpSocket::bind((A, 0)).unwrap();
            socket.send_to(&bytes, (B, 3322)).unwrap();
        }
    };
    net.lab.enter("a", send).unwrap();
    net.await_status("r", |status| of_code(status) >= before + u64::from(COUNT));
    let (mut room, mut came) = ([0; 2048], 0);
    while came < COUNT {
        crate::wait::readable(&there, || format!("{came} came"));
        while there.recv(&mut room).is_ok() {
            came += 1;
        }
    }
    came
}

/// Time between two packets of a flow.
const GAP: Duration = Duration::from_micros(100);

/// What both workers have counted under the key.
fn counted(net: &Running, code: Digest) -> u64 {
    let mut asked = Command::new(running::ANODE);
    let done = asked.args(["code", "state", "--json"]).arg(net.dir("r")).arg(code.to_string()).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let said: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    let entries = said["entries"].as_array().unwrap_or_else(|| panic!("{text}"));
    entries.iter().map(|entry| entry["number"].as_u64().unwrap_or_else(|| panic!("{text}"))).sum()
}

/// All nodes have so many workers, and say no hello.
pub fn with_workers(workers: i64, adjust: impl Fn(&str, &mut toml::Table)) -> impl Fn(&str, &mut toml::Table) {
    move |node, config| {
        adjust(node, config);
        for port in config["port"].as_array_mut().unwrap() {
            port.as_table_mut().unwrap().insert("hello".into(), toml::Value::Boolean(false));
        }
        let cpu = toml::Table::from_iter([("workers".into(), workers.into())]);
        config.insert("cpu".into(), cpu.into());
    }
}

#[test]
fn each_worker_has_a_queue_of_every_port_and_both_keep_one_state() {
    for (name, xdp) in [("wkp", false), ("wkx", true)] {
        let Some(mut net) = two_queues(name) else { return };
        let adjust = move |node: &str, config: &mut toml::Table| {
            if xdp {
                sockets(false)(node, config);
            }
        };
        net.start(&with_workers(2, adjust));
        let code = net.control("r").add_code(&guest("state")).unwrap();
        assert_eq!(cross(&net, code), COUNT);
        let status = net.status("r");
        let workers = status["workers"].as_array().unwrap_or_else(|| panic!("{status}"));
        assert_eq!(workers.len(), 2);
        let received = |at: usize| workers[at]["balance"]["received"].as_u64().unwrap();
        assert!(received(0) > 20 && received(1) > 20, "{name}: {workers:?}");
        assert_eq!(counted(&net, code), u64::from(COUNT), "{name}: {status}");
        assert!(status["drops"].as_object().unwrap().is_empty(), "{status}");
    }
}

/// Flow and number behind the payload of a capsule.
fn numbered(code: Digest, flow: u8, number: u32) -> Vec<u8> {
    let mut bytes = capsule(code, A, B);
    bytes.push(flow);
    bytes.extend(number.to_be_bytes());
    let length = bytes.len() - anep::HEADER;
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, length).unwrap();
    bytes
}

/// Capsules of flows that come to both workers begin before their code is there: the first ones go by worker 0, which fetches it, the
/// others by whoever they come to. Some of the first find no room to wait in; those that come are in order.
#[test]
fn flows_keep_their_order_while_their_code_comes_to_both_workers() {
    const ROUNDS: u32 = 300;
    let Some(mut net) = two_queues_of("wkf", &HOSTS.replace("nodes.a = {}", "nodes.a.active = true")) else { return };
    net.start(&|node, config| {
        if node == "r" {
            with_workers(2, |_, _| {})(node, config)
        }
    });
    let first = net.control("r").add_code(&guest("state")).unwrap();
    assert_eq!(cross(&net, first), COUNT, "link addresses and neighbours are known");
    let there = at_far_end(&net);
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&there, 64 << 20).unwrap();
    there.set_read_timeout(Some(PATIENCE)).unwrap();
    let from = |_| net.lab.enter("a", || UdpSocket::bind((A, 0)).unwrap()).unwrap();
    let senders: Vec<UdpSocket> = (0..FLOWS).map(from).collect();
    for round in 0..5 {
        let code = net.control("a").add_code(&padded_forward(round, 3000)).unwrap();
        let before = net.status("r")["workers"].clone();
        let mut numbers = 0..ROUNDS;
        let send = || {
            let number = numbers.next().unwrap();
            for (flow, sender) in (0..).zip(&senders) {
                sender.send_to(&numbered(code, flow, number), (B, 3322)).unwrap();
            }
        };
        let _: Option<()> = again(GAP, ROUNDS, send, || None);
        let (mut last, mut came) = ([None; FLOWS as usize], 0);
        let mut room = [0; 2048];
        while last.iter().any(|last| *last != Some(ROUNDS - 1)) {
            let length =
                there.recv(&mut room).unwrap_or_else(|why| panic!("{round}: {why} {last:?} {}", net.status("r")));
            let (flow, number) = (room[length - 5], u32::from_be_bytes(*room[..length].last_chunk().unwrap()));
            let place = &mut last[usize::from(flow)];
            assert!(*place < Some(number), "{round}: flow {flow}: {number} behind {place:?}");
            *place = Some(number);
            came += 1;
        }
        let now = net.status("r");
        println!("{round}: {came} of {} came; {}", ROUNDS * u32::from(FLOWS), now["drops"]);
        let run = |workers: &Value, at: usize| workers[at]["balance"]["received"].as_u64().unwrap();
        assert!((0..2).all(|at| run(&now["workers"], at) > run(&before, at)), "round {round}: {now}");
    }
}

const EE: &str = "[[role]]\nname = \"ee\"\nrepresentations = [\"native\"]\n[role.grants]\nchannels = 16\nbandwidth = 1_000_000_000\n\
                  memory_bytes = 67_108_864\n";

/// Flows whose packets go through an environment: each comes to a queue.
const FLOWS: u16 = 8;

/// Sends packets of all flows, until it is enough, and expects each once and in order.
fn pass(net: &Running, senders: &[UdpSocket], there: &UdpSocket, enough: impl Fn() -> bool) {
    let mut room = [0; 2048];
    let mut last = [0u32; FLOWS as usize];
    for round in (0u32..).take_while(|round| *round < 400 || !enough()) {
        for number in 1..=4 {
            for (flow, sender) in senders.iter().enumerate() {
                let mut bytes = [0; 8];
                bytes[0] = flow as u8;
                bytes[4..].copy_from_slice(&(round * 4 + number).to_be_bytes());
                sender.send(&bytes).or_else(|_| sender.send(&bytes)).unwrap();
            }
        }
        for _ in 0..4 * FLOWS {
            let length = there.recv(&mut room).unwrap_or_else(|why| panic!("round {round}: {why} {}", net.status("r")));
            let (flow, number) = (usize::from(room[0]), u32::from_be_bytes(*room[4..length].first_chunk().unwrap()));
            assert_eq!(number, last[flow] + 1, "flow {flow} in order, none lost, none twice");
            last[flow] = number;
        }
    }
}

/// Moves an environment from a worker to the other one, and then ends it.
fn order_moves(net: &Running, is: u64) {
    // As operators do it, and what they are told.
    let order = |domain: &str, to: &str| {
        let mut anode = Command::new(running::ANODE);
        let done = anode.args(["domain", "move"]).arg(net.dir("r")).args([domain, to]).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
    };
    let other = 1 - is;
    for (domain, to, said) in [
        ("forwarder", other.to_string(), format!("forwarder moved from worker {is} to worker {other}\n")),
        ("forwarder", other.to_string(), format!("forwarder is at worker {other} already\n")),
        ("forwarder", "2".into(), "there is no worker 2: this node has workers 0 to 1".into()),
        ("capsules", "1".into(), "capsules is the node's own, and at every worker".into()),
        ("plan", "1".into(), "plan stays at worker 0".into()),
        ("nobody", "1".into(), "there is no domain nobody".into()),
    ] {
        let told = order(domain, &to);
        assert!(told.contains(&said), "{domain} {to}: {told}");
    }
    // It ends wherever it is, and its rule with it.
    let mut anode = Command::new(running::ANODE);
    assert!(anode.args(["domain", "kill"]).arg(net.dir("r")).arg("forwarder").status().unwrap().success());
    wait::told(net.dir("r"), "channels", |all| {
        all.as_array().unwrap().iter().all(|it| it["kind"] != "in" || it["title"] != "forwarder").then_some(())
    });
}

/// An environment of each kind, at the second worker from its beginning, and then moved while packets pass.
#[test]
fn an_environment_gets_the_packets_of_all_queues_in_order_and_loses_none_while_it_moves() {
    for (name, key, linked) in [("wke", "command", Linked::Static), ("wko", "library", Linked::Here)] {
        let folder = tempfile::tempdir().unwrap();
        let program = build("examples/nodeos/forwarder.c", folder.path(), &["-O2"], linked);
        let words =
            [program.to_str().unwrap(), "ee", "if0/ip/udp", "10.0.1.2:5000", "if1/ip/udp", "*:6000 -> 10.0.2.2:7000"];
        let text = format!("{EE}[[ee]]\nname = \"forwarder\"\nrole = \"ee\"\nworker = 1\n{key} = {words:?}\n");
        let Some(mut net) = two_queues(name) else { return };
        net.start(&with_workers(2, |_: &str, config: &mut toml::Table| {
            config.extend(text.parse::<toml::Table>().unwrap())
        }));
        wait::channel(net.dir("r"), "in");
        let of = |it: &Value| it["title"] == "forwarder";
        let worker = || {
            net.control("r").ask(&serde_json::json!({"do": "domains"})).unwrap()["domains"]
                .as_array()
                .unwrap()
                .iter()
                .find(|it| of(it))
                .unwrap()["worker"]
                .as_u64()
        };
        assert_eq!(worker(), Some(1));
        let from = |flow: u16| {
            let socket = net.lab.enter("a", || UdpSocket::bind((A, 4000 + flow)).unwrap()).unwrap();
            socket.connect("10.0.1.2:5000").unwrap();
            socket
        };
        let senders: Vec<_> = (0..FLOWS).map(from).collect();
        let there = net.lab.enter("b", || UdpSocket::bind((B, 7000)).unwrap()).unwrap();
        let mut room = [0; 2048];
        there.set_read_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        wait::unannounced("a channel does not say from when on Linux leaves it its packets", || {
            let _ = senders[0].send(&[0; 8]);
            there.recv(&mut room).map_err(|error| error.to_string())
        });
        while there.recv(&mut room).is_ok() {}
        there.set_read_timeout(Some(PATIENCE)).unwrap();
        let before = net.status("r");
        let restless = Restless::start(net.dir("r"));
        pass(&net, &senders, &there, || restless.moves() > 10);
        let moves = restless.end();
        assert!(moves > 10, "{moves}");
        let status = net.status("r");
        assert_eq!(status["drops"], before["drops"], "{status}");
        let received = |at: usize| status["workers"][at]["balance"]["received"].as_u64().unwrap();
        assert!(received(0) > 0 && received(1) > 0);
        let is = worker().unwrap();
        order_moves(&net, is);
    }
}
