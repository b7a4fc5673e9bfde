//! No packet disappears behind a redirect. If an interface would lose redirected frames, the user half sends; frames
//! lost before that was known are counted.

use crate::running::{ANODE, HOSTS, Running, in_kernel};
use crate::wait::Patience;
use anode::sys::watch::Process;
use anode::wire::{Addr, Digest, anep, capsule};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

const A: &str = "10.0.1.1";
const B: &str = "10.0.2.2";

/// A node between two hosts, and what its kernel half has on each side.
struct Bed {
    net: Running,
    from: UdpSocket,
    far: UdpSocket,
    bytes: Vec<u8>,
    sent: u64,
    received: u64,
}

impl Bed {
    fn new(name: &str) -> Option<Bed> {
        let net = Running::up_with(name, HOSTS, &in_kernel)?;
        let ping = anode::apps::APPS.iter().find(|app| app.title == "ping").unwrap().bundle().unwrap();
        let bytes = capsule_from_a(net.control("r").add_code(&ping).unwrap());
        let open = |node: &str, addr: &str| net.lab.enter(node, || UdpSocket::bind((addr, 3322)).unwrap()).unwrap();
        let (from, far) = (open("a", A), open("b", B));
        rustix::net::sockopt::set_socket_recv_buffer_size_force(&far, 64 << 20).unwrap();
        far.set_nonblocking(true).unwrap();
        Some(Bed { net, from, far, bytes, sent: 0, received: 0 })
    }

    fn send(&mut self, count: u64) {
        for _ in 0..count {
            self.from.send_to(&self.bytes, (B, 3322)).unwrap();
        }
        self.sent += count;
        self.drain();
    }

    fn drain(&mut self) {
        while self.far.recv(&mut [0; 256]).is_ok() {
            self.received += 1;
        }
    }

    /// Capsules that the node has dropped and said so.
    fn counted(&self) -> u64 {
        dropped(&self.net.status("r"))
    }

    fn forwarded(&self) -> u64 {
        let status = self.net.status("r");
        status["kernel"]["codes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|code| code["usage"]["forwarded"].as_u64().unwrap())
            .sum()
    }

    /// Sends until the kernel half forwards all of some, or none of them.
    fn await_kernel(&mut self, all: bool) {
        let patience = Patience::new();
        loop {
            let before = self.forwarded();
            self.send(16);
            self.settle();
            if self.forwarded() - before == if all { 16 } else { 0 } {
                return;
            }
            patience.left(|| format!("{}\n{}", self.net.status("r"), self.net.log("r")));
        }
    }

    /// Waits until what was sent has come or is counted.
    fn settle(&mut self) {
        let (sent, mut received) = (self.sent, self.received);
        let all = |status: &Value| {
            while self.far.recv(&mut [0; 256]).is_ok() {
                received += 1;
            }
            received + dropped(status) >= sent
        };
        self.net.await_status("r", all);
        self.received = received;
    }

    fn port(&self) -> Value {
        let status = self.net.status("r");
        let ports = status["kernel"]["ports"].as_array().unwrap();
        ports.iter().find(|port| port["port"] == 1).unwrap().clone()
    }
}

fn dropped(status: &Value) -> u64 {
    status["drops"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
}

/// A capsule for this code, from a to b, as the payload of a datagram.
fn capsule_from_a(code: Digest) -> Vec<u8> {
    let [source, destination] = [A, B].map(|addr| addr.parse::<Addr>().unwrap());
    let header = capsule::Header { app_port: 5, bound: 8, code, previous: source, source, destination };
    let mut bytes = vec![0; anep::HEADER + capsule::HEADER + 16];
    let inner = bytes.len() - anep::HEADER;
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, inner).unwrap();
    header.emit(&mut bytes[anep::HEADER..]).unwrap();
    bytes
}

#[test]
fn the_user_half_sends_where_redirected_frames_would_not_arrive() {
    let Some(mut bed) = Bed::new("redirects") else { return };
    bed.await_kernel(true);
    assert_eq!(bed.port()["redirected"], 1500);
    for _ in 0..2 {
        bed.net.shell("b", "ethtool -K to-r gro off");
        bed.net.await_status("r", |status| status["kernel"]["ports"][1]["redirected"] == 0);
        // The user half may have to ask for the link address first.
        bed.await_kernel(false);
        let (received, counted) = (bed.received, bed.counted());
        for _ in 0..70 {
            bed.send(10);
        }
        bed.settle();
        assert_eq!((bed.received - received, bed.counted() - counted), (700, 0), "all arrive: {}", bed.net.status("r"));
        bed.net.shell("b", "ethtool -K to-r gro on");
        bed.await_kernel(true);
    }
    let log = bed.net.log("r");
    assert!(log.contains("would not arrive") && log.contains("ethtool -K PEER gro on"), "{log}");
    bed.net.shell("b", "ethtool -K to-r gro off");
    bed.net.await_status("r", |status| status["kernel"]["ports"][1]["redirected"] == 0);
    let text = Command::new(ANODE).args(["node", "status"]).arg(bed.net.dir("r")).output().unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("redirects to it would not arrive") && text.contains("ethtool -K PEER gro on"), "{text}");
}

#[test]
fn check_says_of_the_kernel_half_what_it_lacks_here() {
    let Some(bed) = Bed::new("lacking") else { return };
    let check = || bed.net.shell("r", &format!("{ANODE} node check {}", bed.net.dir("r").join("node.toml").display()));
    bed.net.shell("b", "ethtool -K to-r gro on");
    bed.net.await_status("r", |status| status["kernel"]["ports"][1]["redirected"] != 0);
    let good = check();
    assert!(good.contains(", kernel half, mtu 1500") && !good.contains("note: port"), "{good}");
    bed.net.shell("b", "ethtool -K to-r gro off");
    bed.net.shell("r", "echo 0 > /proc/sys/net/ipv4/ip_forward");
    bed.net.await_status("r", |status| status["kernel"]["ports"][1]["redirected"] == 0);
    let said = check();
    for part in ["ipv4 forwarding is off", "sysctl net.ipv4.ip_forward=1", "its other end has neither XDP nor GRO"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn what_a_redirect_did_not_deliver_is_counted() {
    let Some(mut bed) = Bed::new("undelivered") else { return };
    bed.await_kernel(true);
    let mut lost = 0;
    for round in 0..100 {
        // Nobody waits until the node knows.
        let setting = if round % 2 == 0 { "off" } else { "on" };
        let mut change = bed.net.lab.command("b", "ethtool").unwrap();
        let mut change = change.args(["-K", "to-r", "gro", setting]).spawn().unwrap();
        let process = Process::open(change.id()).unwrap().unwrap();
        while !process.ends_within(Duration::ZERO).unwrap() {
            bed.send(8);
        }
        change.wait().unwrap();
        bed.send(8);
        bed.settle();
        lost = bed.net.status("r")["drops"]["undelivered"].as_u64().unwrap_or(0);
        if lost > 0 && round > 8 {
            break;
        }
    }
    assert!(lost > 0, "some were redirected in the moment in which nobody knew");
    assert_eq!(bed.received + bed.counted(), bed.sent, "{}", bed.net.status("r"));
}
