//! Nodes as real processes on real interfaces: capsules travel natively in IP, beside the Linux stack.

use crate::running::{self, ANODE, LINE, PATIENCE, Running};
use anode::kernel::{Filters, Which};
use anode::sys::mmsg::{Batch, RawAddr};
use anode::sys::netlink;
use anode::sys::packet::PacketSocket;
use anode::wire::ethernet::{self, Mac, ethertype};
use anode::wire::{Addr, ipv4, ipv6, udp};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

#[test]
fn capsules_pass_once_though_the_kernel_forwards_too() {
    let Some(net) = Running::up("once", LINE) else { return };
    for to in ["10.0.2.2", "fd00:0:2::2"] {
        let pinged = net.ping_warm("a", to, 50);
        assert_eq!(pinged["summary"]["received"], 50, "{pinged}");
        assert_eq!(pinged["summary"]["duplicates"], 0, "{pinged}");
        assert_eq!(pinged["replies"][0]["hops_there"], 2, "the node in the middle ran the code: {pinged}");
    }
    let status = net.status("b");
    assert_eq!(status["codes"][0]["usage"]["packets"], 102, "each capsule came to b once: {status}");
    assert!(status["drops"].as_object().is_some_and(|drops| drops.is_empty()), "{status}");
}

#[test]
fn other_traffic_is_undisturbed() {
    let Some(net) = Running::up("other", LINE) else { return };
    let listener = net.lab.enter("b", || TcpListener::bind("10.0.2.2:5000").unwrap()).unwrap();
    let data: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    let sent = data.clone();
    let writer = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut got = Vec::new();
            listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
            got
        });
        net.lab
            .enter("a", || {
                let mut stream = TcpStream::connect("10.0.2.2:5000").unwrap();
                stream.write_all(&sent).unwrap();
            })
            .unwrap();
        reader.join().unwrap()
    });
    assert_eq!(writer, data);

    let (a, b) = (
        net.lab.enter("a", || UdpSocket::bind("10.0.1.1:0").unwrap()).unwrap(),
        net.lab.enter("b", || UdpSocket::bind("10.0.2.2:5001").unwrap()).unwrap(),
    );
    b.set_read_timeout(Some(PATIENCE)).unwrap();
    a.send_to(b"hello", "10.0.2.2:5001").unwrap();
    let mut buffer = [0; 16];
    assert_eq!(b.recv(&mut buffer).unwrap(), 5);
    let status = net.status("r");
    assert_eq!(status["drops"], Value::Object(Default::default()), "{status}");

    // Noise to our own port is counted where it comes in and goes nowhere.
    a.send_to(&[0xff; 40], "10.0.2.2:3322").unwrap();
    let ours = |status: &Value| status["drops"]["malformed"] == 1;
    net.await_status("r", ours);
    assert!(!ours(&net.status("b")));
}

#[test]
fn a_router_that_is_not_active_forwards_capsules_like_any_packet() {
    let passive = r#"
name = "t"
nodes.r = {}
[nodes.a]
active = true
anode.port = [{ packet = "to-r", neighbours = [{ address = "10.0.2.2" }, { address = "fd00:0:2::2" }] }]
[nodes.b]
active = true
anode.port = [{ packet = "to-r", neighbours = [{ address = "10.0.1.1" }, { address = "fd00:0:1::1" }] }]
[[links]]
ends = ["a", "r"]
prefixes = ["10.0.1.0/24", "fd00:0:1::/64"]
[[links]]
ends = ["r", "b"]
prefixes = ["10.0.2.0/24", "fd00:0:2::/64"]
"#;
    let Some(net) = Running::up("pass", passive) else { return };
    for to in ["10.0.2.2", "fd00:0:2::2"] {
        let pinged = net.ping("a", to, 5);
        assert_eq!(pinged["summary"]["received"], 5, "{pinged}");
        assert_eq!(pinged["replies"][0]["hops_there"], 1, "nobody between ran the code: {pinged}");
    }
}

#[test]
fn a_node_that_is_killed_leaves_forwarding_to_linux_and_comes_back() {
    let Some(mut net) = Running::up("kill", LINE) else { return };
    assert_eq!(net.ping("a", "10.0.2.2", 3)["summary"]["received"], 3);
    let r = net.daemons.iter_mut().find(|daemon| daemon.node == "r").unwrap();
    r.kill().unwrap();
    let pinged = net.ping("a", "10.0.2.2", 3);
    assert_eq!(pinged["summary"]["received"], 3, "without its node r is a plain router: {pinged}");
    assert_eq!(pinged["replies"][0]["hops_there"], 1, "{pinged}");
    net.daemons.retain(|daemon| daemon.node != "r");
    let back = net.lab.start_nodes(Path::new(ANODE), &|_, _| {}).unwrap();
    assert_eq!(back.len(), 1, "only r was to be started");
    net.daemons.extend(back);
    let pinged = net.ping("a", "10.0.2.2", 3);
    assert_eq!(pinged["replies"][2]["hops_there"], 2, "{pinged}");
}

#[test]
fn routes_of_the_kernel_are_followed() {
    let Some(net) = Running::up("route", LINE) else { return };
    assert_eq!(net.ping("a", "10.0.2.2", 1)["summary"]["received"], 1);
    let before = net.status("a")["routes"].as_u64().unwrap();
    let ip = |arguments: &[&str]| {
        let status = net.lab.command("a", "ip").unwrap().args(arguments).status().unwrap();
        assert!(status.success());
    };
    ip(&["route", "add", "192.0.2.0/24", "via", "10.0.1.2"]);
    // One over several next hops is followed by the first of them.
    ip(&["route", "add", "198.51.100.0/24", "nexthop", "via", "10.0.1.2", "nexthop", "via", "10.0.1.3"]);
    net.await_status("a", |status| status["routes"].as_u64() == Some(before + 2));
}

#[test]
fn frames_for_another_host_are_left_alone_while_somebody_captures() {
    let topology = "name = \"t\"\nnodes.a = {}\nnodes.r.active = true\n[[links]]\nends = [\"a\", \"r\"]\nprefixes = [\"10.0.1.0/24\"]\n";
    let Some(net) = Running::up("promisc", topology) else { return };
    let shell = |node: &str, script: &str| {
        let done = net.lab.enter(node, || Command::new("sh").args(["-c", script]).output().unwrap()).unwrap();
        assert!(done.status.success(), "{script}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    shell("r", "for i in $(ls /proc/sys/net/ipv4/neigh | grep -v default); do ip link set $i promisc on; done");
    shell("a", "ping -c 1 -W 5 10.0.1.2");
    let known = shell("a", "ip neigh show 10.0.1.2");
    let words: Vec<&str> = known.split(' ').collect();
    let behind = |word: &str| words[words.iter().position(|found| *found == word).unwrap() + 1];
    let send = |mac: &str, bytes: &[u8]| {
        shell("a", &format!("ip neigh replace 10.0.1.2 lladdr {mac} dev {}", behind("dev")));
        let socket = net.lab.enter("a", || UdpSocket::bind("10.0.1.1:0").unwrap()).unwrap();
        socket.send_to(bytes, "10.0.1.2:3322").unwrap();
    };
    send("02:00:00:00:99:99", b"for another");
    send(behind("lladdr"), b"for us");
    let status = net.await_status("r", |status| !status["drops"]["malformed"].is_null());
    assert_eq!(status["drops"]["malformed"], 1, "the first one was for somebody else");
}

/// An Ethernet frame with a datagram of 5000 bytes to our port that no node can read.
fn long_frame(macs: (Mac, Mac), from: Addr, to: Addr) -> Vec<u8> {
    let payload_len = 5000;
    let inner = udp::HEADER + payload_len;
    let v4 = from.bytes_v4().zip(to.bytes_v4());
    let ethertype = if v4.is_some() { ethertype::IPV4 } else { ethertype::IPV6 };
    let link = ethernet::Repr { destination: macs.1, source: macs.0, tag: None, ethertype };
    let mut bytes = vec![0xff; link.header_len() + ipv6::HEADER + inner];
    let ip = link.emit(&mut bytes).unwrap();
    let datagram = ip
        + match v4 {
            Some((from, to)) => ipv4::Repr::new(from, to, udp::IP_PROTOCOL, 64, inner).emit(&mut bytes[ip..]).unwrap(),
            None => ipv6::Repr::new(from, to, udp::IP_PROTOCOL, 64, inner).emit(&mut bytes[ip..]).unwrap(),
        };
    bytes.truncate(datagram + inner);
    udp::Repr { source_port: 9, destination_port: 3322, payload_len }.emit(&mut bytes[datagram..]).unwrap();
    udp::PacketMut::new_checked(&mut bytes[datagram..]).unwrap().fill_checksum(from, to);
    bytes
}

#[test]
fn capsules_whose_headers_are_in_other_pages_are_kept_from_linux_too() {
    let jumbo = LINE
        .replace("nodes.b.active = true", "nodes.b = {}")
        .replace("nodes.a.active = true", "nodes.a = {}")
        .replace("[[links]]", "[[links]]\nmtu = 9000");
    let Some(net) = Running::up("pages", &jumbo) else { return };
    let addr = |text: &str| text.parse::<Addr>().unwrap();
    for (at, (from, to)) in [("10.0.1.1", "10.0.2.2"), ("fd00:0:1::1", "fd00:0:2::2")].into_iter().enumerate() {
        let bind = |port: u16| net.lab.enter("b", || UdpSocket::bind((to, port)).unwrap()).unwrap();
        let (ours, marked) = (bind(3322), bind(5001));
        let on = |node: &str, name: &str| {
            let all = net.lab.enter(node, || netlink::interfaces().unwrap()).unwrap();
            all.into_iter().find(|interface| interface.name == name).unwrap()
        };
        let (a, r) = (on("a", "to-r"), on("r", "to-a"));
        let frame = long_frame((a.mac.unwrap(), r.mac.unwrap()), addr(from), addr(to));
        // Of a frame longer than a page, such a socket puts only the Ethernet header into the first part.
        let socket = net
            .lab
            .enter("a", || {
                let filter = Filters::create().unwrap().filter(Which::All).unwrap();
                PacketSocket::open(a.index, 1500, &filter).unwrap()
            })
            .unwrap();
        let sent = Batch::default().send(socket.as_fd(), std::iter::once((&frame[..], RawAddr::NONE)));
        assert_eq!(sent.unwrap(), 1);
        net.await_status("r", |status| status["drops"]["malformed"] == at + 1);
        // What comes later has passed the same router.
        let marker = net.lab.enter("a", || UdpSocket::bind((from, 0)).unwrap()).unwrap();
        marker.send_to(b"later", (to, 5001)).unwrap();
        marked.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(marked.recv(&mut [0; 16]).unwrap(), 5);
        ours.set_nonblocking(true).unwrap();
        assert!(ours.recv(&mut [0; 16]).is_err(), "Linux has forwarded a capsule to {to}");
    }
}

#[test]
fn capsules_run_in_the_kernel_when_their_code_is_there() {
    let Some(net) = Running::up_with("kern", LINE, &running::in_kernel) else { return };
    let pinged = net.ping("a", "10.0.2.2", 5);
    assert_eq!(pinged["summary"]["received"], 5, "{pinged}");
    let running = |status: &Value| status["codes"][0]["kernel"] == "running";
    let before = net.await_status("r", running);
    // Neighbours and link addresses become known to the kernel half within a moment.
    let mut total = 5;
    let forwarded = |status: &Value| status["kernel"]["codes"][0]["usage"]["forwarded"].as_u64().unwrap_or(0);
    while forwarded(&net.status("r")) < 100 {
        let pinged = net.ping("a", "10.0.2.2", 20);
        assert_eq!(pinged["summary"]["received"], 20, "{pinged}");
        assert_eq!(pinged["summary"]["duplicates"], 0, "{pinged}");
        assert_eq!(pinged["replies"][0]["hops_there"], 2, "r runs the code in either half: {pinged}");
        total += 20;
        assert!(total < 2000, "{}", net.status("r"));
    }
    let after = net.status("r");
    let in_user = after["codes"][0]["usage"]["packets"].as_u64().unwrap();
    let in_kernel = after["kernel"]["codes"][0]["usage"]["packets"].as_u64().unwrap();
    assert_eq!(in_user + in_kernel, 2 * total, "each capsule ran once at r, there and back: {before} {after}");
    assert!(after["drops"].as_object().is_some_and(|drops| drops.is_empty()), "{after}");
}
