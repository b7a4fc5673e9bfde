//! A router that is a graph: between two hosts, on a machine whose Linux forwards nothing and answers no ARP.
//!
//! It does what Click's published router does, written anew: it answers ARP and asks, forwards, takes a hop off, cuts what is too long, and
//! says so by ICMP where it cannot. Who judges are the stacks of the hosts: what they accept was right.

use crate::running::{HOSTS, PATIENCE, Running};
use anode::wire::checksum;
use rustix::net::{AddressFamily, SocketType, ipproto, socket};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

/// Addresses of the router and of the hosts, and one that nobody has a route to.
const LAN: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);
const WAN: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);
const A: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const NOWHERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// What fits on the way to b.
const MTU: usize = 1000;

/// Bytes of a transfer.
const STREAM: usize = 1 << 20;

const TEXT: &str = include_str!("fake_router.click");

fn graph(macs: [&str; 2]) -> String {
    let text = TEXT.replace("$LAN_MAC", macs[0]).replace("$WAN_MAC", macs[1]);
    let take = r#"["to-a/arp", "to-b/arp", "to-a/ip 0.0.0.0/0", "to-b/ip 0.0.0.0/0"]"#;
    format!(
        "[[role]]\nname = \"graphs\"\ngrants = {{ channels = 4, bandwidth = 1_000_000_000, memory_bytes = 16_777_216 }}\n\
         [[graph]]\nname = \"router\"\nrole = \"graphs\"\ntake = {take}\ntext = '''\n{text}\n'''\n"
    )
}

/// A raw socket of ICMP at a host.
struct Icmp(UdpSocket);

impl Icmp {
    fn at(net: &Running, host: &str) -> Icmp {
        let open = || socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)).unwrap();
        let socket = UdpSocket::from(net.lab.enter(host, open).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Icmp(socket)
    }

    fn ask(&self, to: Ipv4Addr, number: u8, hops: u32) {
        let mut message = [8, 0, 0, 0, 0x77, 0x77, 0, number, 1, 2, 3, 4];
        let sum = checksum::checksum(&message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        self.0.set_ttl(hops).unwrap();
        self.0.send_to(&message, (to, 0)).unwrap();
    }

    /// The first message of a type and code from this sender; what is behind its header.
    fn hear(&self, from: Ipv4Addr, kind: [u8; 2]) -> Vec<u8> {
        let mut buffer = [0; 2048];
        loop {
            let (length, sender) =
                self.0.recv_from(&mut buffer).unwrap_or_else(|why| panic!("{kind:?} of {from}: {why}"));
            let message = &buffer[usize::from(buffer[0] & 15) * 4..length];
            if sender.ip() == from && message[..2] == kind {
                assert_eq!(checksum::checksum(message), 0);
                return message[8..].to_vec();
            }
        }
    }
}

fn host(net: &Running, node: &str, script: &str) -> String {
    net.shell(node, script)
}

/// The link address of a port of the router.
fn mac(net: &Running, port: &str) -> String {
    let said = host(net, "r", &format!("ip -o link show dev {port}"));
    said.split_ascii_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap().to_owned()
}

#[test]
fn a_graph_is_the_router_of_two_hosts() {
    let Some(mut net) = Running::build("fake", HOSTS) else { return };
    // Linux neither forwards nor answers there, and hosts send packets as they are on a wire.
    host(&net, "r", "cd /proc/sys/net/ipv4 && echo 0 > ip_forward && echo 8 > conf/all/arp_ignore");
    ["a", "b"].iter().for_each(|node| drop(host(&net, node, "ethtool -K to-r tx off tso off gso off gro off")));
    host(&net, "a", "ip route add 10.77.0.0/16 via 10.0.1.2");
    let lines = graph([&mac(&net, "to-a"), &mac(&net, "to-b")]);
    net.start(&|_: &str, config: &mut toml::Table| config.extend(lines.parse::<toml::Table>().unwrap()));
    // The first packet behind the start is the graph's: nobody else forwards, and it is not sent again.
    let a = Icmp::at(&net, "a");
    a.ask(B, 1, 64);
    assert_eq!(a.hear(B, [0, 0]), [1, 2, 3, 4], "an answer from behind the router");
    a.ask(LAN, 2, 64);
    a.hear(LAN, [0, 0]);
    a.ask(WAN, 3, 64);
    a.hear(WAN, [0, 0]);
    // ARP: who the router is has been asked by the hosts, and who they are by the router.
    for (node, of, port) in [("a", LAN, "to-a"), ("b", WAN, "to-b")] {
        let known = host(&net, node, &format!("ip neigh show {of}"));
        assert!(known.contains(&mac(&net, port)), "{known}");
    }
    a.ask(B, 4, 1);
    let quoted = a.hear(LAN, [11, 0]);
    assert_eq!(
        (&quoted[12..16], &quoted[16..20], quoted[20]),
        (&A.octets()[..], &B.octets()[..], 8),
        "what it is about"
    );
    a.ask(NOWHERE, 5, 64);
    a.hear(LAN, [3, 0]);
    closed_port(&net);
    too_long(&net, &a);
    stream(&net);
    let read = |handler: &str| {
        let mut command = Command::new(crate::running::ANODE);
        let output = command.args(["graph", "read"]).arg(net.dir("r")).args(["router", handler]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert!(read("arp1.table").starts_with(&format!("{B} ")), "{}", read("arp1.table"));
    assert_eq!(read("bad.count"), "0", "packets with wrong headers");
    assert_eq!(host(&net, "r", "cat /proc/sys/net/ipv4/ip_forward").trim(), "0", "all this without Linux");
    net.status("r");
}

/// What b says of a port that nobody has comes back to the socket that asked.
fn closed_port(net: &Running) {
    let socket = net.lab.enter("a", || UdpSocket::bind("10.0.1.1:0").unwrap()).unwrap();
    socket.connect((B, 9)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send(b"nobody").unwrap();
    assert_eq!(socket.recv(&mut [0; 9]).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// A datagram that may be cut arrives whole, and of one that may not the sender hears.
fn too_long(net: &Running, a: &Icmp) {
    let to = net.lab.enter("b", || UdpSocket::bind((B, 7000)).unwrap()).unwrap();
    to.set_read_timeout(Some(PATIENCE)).unwrap();
    let long: Vec<u8> = (0..1400u16).map(|at| at as u8).collect();
    let send = |cut: &str| {
        host(net, "a", &format!("echo {cut} > /proc/sys/net/ipv4/ip_no_pmtu_disc"));
        let socket = net.lab.enter("a", || UdpSocket::bind((A, 0)).unwrap()).unwrap();
        socket.send_to(&long, (B, 7000)).unwrap();
        // Who has asked is still there when he is told.
        socket
    };
    let _first = send("1");
    let mut buffer = [0; 2048];
    let length = to.recv(&mut buffer).unwrap();
    assert_eq!(buffer[..length], long, "in pieces, which the host has joined");
    let _second = send("0");
    let quoted = a.hear(LAN, [3, 4]);
    assert_eq!(quoted[16..20], B.octets());
    // The host takes one message after the other: it has done with that one when it has this.
    a.ask(B, 6, 64);
    a.hear(B, [0, 0]);
    let way = host(net, "a", "ip route get 10.0.2.2");
    assert!(way.contains(&format!("mtu {MTU}")), "{way}");
}

/// A transfer by TCP, of whose segments the router has told that they are too long.
fn stream(net: &Running) {
    host(net, "a", "ip route flush cache");
    let listener = net.lab.enter("b", || TcpListener::bind((B, 7001)).unwrap()).unwrap();
    let bytes: Vec<u8> = (0..STREAM).map(|at| (at % 251) as u8).collect();
    let came = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut came = Vec::new();
            stream.read_to_end(&mut came).unwrap();
            came
        });
        let mut stream = net.lab.enter("a", || TcpStream::connect((B, 7001)).unwrap()).unwrap();
        stream.write_all(&bytes).unwrap();
        drop(stream);
        receiver.join().unwrap()
    });
    assert!(came == bytes, "{} bytes of {STREAM}", came.len());
}
