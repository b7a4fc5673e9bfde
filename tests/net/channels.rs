//! Channels of domains on real interfaces, in a node in the test's process. Packets of the Linux stack's neighbours
//! reach an environment and go on from it; all other packets stay with Linux.

pub mod node;

use crate::pace::Pace;
use crate::running::{self, PATIENCE, Running};
use crate::wait::Patience;
use anode::core::reason::Reason;
use anode::manage::client::Control;
use anode::nodeos::interface::{ChanSpec, DomainId, Error, KeyTuple};
use node::{LINE, Node, PORTS};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

fn udp(address: &str, key: Vec<KeyTuple>) -> ChanSpec {
    ChanSpec { protocol: "if0/ip/udp".into(), address: address.into(), key, ..ChanSpec::default() }
}

/// Whether the Linux stack of r answers that nobody listens where `socket` is connected to.
fn is_refused(socket: &UdpSocket, message: &[u8]) -> bool {
    socket.send(message).unwrap();
    socket.recv(&mut [0; 16]).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[test]
fn packets_of_a_channel_come_to_its_environment_and_go_on_and_others_stay_with_linux() {
    for (name, ports) in PORTS {
        go_to_their_environment(name, ports);
    }
}

fn go_to_their_environment(name: &str, ports: &str) {
    let Some(node) = Node::start(&format!("chan{name}"), ports) else { return };
    use_channel(&node);
}

#[test]
fn behind_the_kernel_half_every_frame_is_looked_at_only_while_there_are_channels() {
    let Some(node) = Node::start("chanlook", "kernel = true") else { return };
    // Sockets by their Ethernet type (packet(7)): 3 is all of them.
    let types = |node: &Node| {
        let text = node.net.shell("r", "cat /proc/net/packet");
        let mut types: Vec<String> =
            text.lines().skip(1).map(|line| line.split_whitespace().nth(3).unwrap().into()).collect();
        types.sort_unstable();
        types
    };
    let narrow = ["0806", "0806", "88b5", "88b5"];
    assert_eq!(types(&node), narrow);
    use_channel(&node);
    assert_eq!(types(&node), narrow, "the channel has ended");
    let (domain, _tells) = node.capitals();
    let channel = node.listen(domain, udp("10.0.1.2:5000", vec![])).unwrap();
    assert_eq!(types(&node), ["0003", "0806", "0806", "88b5", "88b5"], "at the port of the channel alone");
    let more = node.listen(domain, udp("10.0.1.2:5001", vec![])).unwrap();
    node.with(move |os| os.inchan_destroy(channel), domain).unwrap();
    assert_eq!(types(&node), ["0003", "0806", "0806", "88b5", "88b5"], "one is left");
    node.with(move |os| os.inchan_destroy(more), domain).unwrap();
    assert_eq!(types(&node), narrow);
    use_channel(&node);
}

/// Uses a channel that was not there, and is not there afterwards.
fn use_channel(node: &Node) {
    let (domain, tells) = node.capitals();
    let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
    a.connect("10.0.1.2:5000").unwrap();
    assert!(is_refused(&a, b"before"), "there is no channel yet");
    let key = vec![KeyTuple { offset: 1, length: 2, value: 0x6561, mask: 0xffff }];
    let channel = node.listen(domain, udp("10.0.1.2:5000", key.clone())).unwrap();
    assert_eq!(node.listen(domain, udp("10.0.1.2:5000", key)), Err(Error::Exists));
    for word in ["heard", "read", "bear"] {
        a.send(word.as_bytes()).unwrap();
        let mut buffer = [0; 16];
        let (length, from) = b.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.to_string()), (word.to_uppercase().as_bytes(), "10.0.2.1:6000".into()));
        assert_eq!(tells.recv_timeout(PATIENCE).unwrap(), "10.0.1.2:5000 Ok(()) from 10.0.1.1");
    }
    assert!(is_refused(&a, b"other"), "the key does not hold");
    a.connect("10.0.1.2:5001").unwrap();
    assert!(is_refused(&a, b"heard"), "another port");
    node.with(move |os| os.inchan_destroy(channel), domain).unwrap();
    a.connect("10.0.1.2:5000").unwrap();
    assert!(is_refused(&a, b"heard"), "the channel is no more");
    assert_eq!(node.with(move |os| os.inchan_destroy(channel), domain), Err(Error::Stale));
}

#[test]
fn what_a_domain_had_ends_with_it() {
    for (name, ports) in PORTS {
        end_with_it(name, ports);
    }
}

fn end_with_it(name: &str, ports: &str) {
    let Some(node) = Node::start(&format!("term{name}"), ports) else { return };
    let (domain, _tells) = node.capitals();
    let (other, _others) = node.capitals();
    node.listen(domain, udp("*:5000", vec![])).unwrap();
    node.listen(other, udp("*:5001", vec![])).unwrap();
    assert_eq!(node.with(move |os| os.domain_terminate(other), domain), Err(Error::Denied), "not below it");
    let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
    a.connect("10.0.1.2:5000").unwrap();
    a.send(b"x").unwrap();
    b.recv(&mut [0; 4]).unwrap();
    node.with(move |os| os.domain_terminate(domain), domain).unwrap();
    assert!(is_refused(&a, b"x"), "nothing comes to a domain that has ended");
    assert_eq!(node.listen(domain, udp("*:5002", vec![])), Err(Error::Stale));
    a.connect("10.0.1.2:5001").unwrap();
    a.send(b"x").unwrap();
    b.recv(&mut [0; 4]).expect("the other goes on");
}

/// Cuts of IP between all of a and all of b, both ways.
fn cut_both_ways(node: &Node, domain: DomainId) {
    for (from, to, net) in [
        ("if0/ip", "if1/ip", "10.0.2.0/24"),
        ("if1/ip", "if0/ip", "10.0.1.0/24"),
        ("if0/ip", "*/ip", "fd00:0:2::/64"),
        ("if1/ip", "*/ip", "fd00:0:1::/64"),
    ] {
        node.cut(domain, [from, net], [to, "* proto 17"], 0);
    }
}

#[test]
fn a_cut_through_channel_forwards_without_anybodys_code() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start(&format!("cut{name}"), ports) else { return };
        let (domain, _tells) = node.capitals();
        cut_both_ways(&node, domain);
        for (there, back) in [("10.0.2.2:7000", "10.0.1.1:4000"), ("[fd00:0:2::2]:7000", "[fd00:0:1::1]:4000")] {
            let (a, b) = (node.socket("a", back), node.socket("b", there));
            a.connect(there).unwrap();
            let (patience, before, mut trips) = (Patience::new(), node.cut_through(), 0);
            // Packets pass in the kernel as soon as it knows their link addresses.
            let enough = |node: &Node| !ports.contains("kernel") || node.cut_through().1 >= before.1 + 50;
            while trips < 50 || !enough(&node) {
                let mark = [trips as u8; 8];
                a.send(&mark).unwrap();
                let mut buffer = [0; 16];
                let (length, from) = b.recv_from(&mut buffer).unwrap();
                assert_eq!((&buffer[..length], from.to_string()), (&mark[..], back.into()));
                b.send_to(b"back", from).unwrap();
                assert_eq!(a.recv(&mut buffer).unwrap(), 4);
                trips += 1;
                patience.left(|| format!("{:?} after {trips}", node.cut_through()));
            }
            let (all, in_kernel) = node.cut_through();
            assert_eq!(all, before.0 + 2 * trips, "each way went through the cut, {ports}");
            assert_eq!(in_kernel > 0, ports.contains("kernel"));
        }
        let counts = node.handle.with_node(|node, _| node.channel_counts()).unwrap();
        // A stream of the stacks' own goes through as well; AF_PACKET sees of it what the receive offload has joined.
        if ports.is_empty() {
            continue;
        }
        let listener = node.net.lab.enter("b", || TcpListener::bind("10.0.2.2:8000").unwrap()).unwrap();
        let stream = node.net.lab.enter("a", || TcpStream::connect("10.0.2.2:8000").unwrap()).unwrap();
        let (mut far, mut near) = (listener.accept().unwrap().0, stream);
        let sent: Vec<u8> = (0..1_000_000u32).map(|at| (at / 7) as u8).collect();
        let copy = sent.clone();
        let writer = std::thread::spawn(move || near.write_all(&copy).unwrap());
        let mut came = vec![0; sent.len()];
        far.read_exact(&mut came).unwrap();
        writer.join().unwrap();
        assert!(came == sent, "byte by byte");
        let after = node.handle.with_node(|node, _| node.channel_counts()).unwrap();
        assert!(after.cut > counts.cut + 500, "{after:?}");
    }
}

#[test]
fn udp_cut_through_has_headers_of_the_channels_and_ends_before_the_call_returns() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start(&format!("udp{name}"), ports) else { return };
        let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
        a.connect("10.0.2.2:7000").unwrap();
        let pace = Arc::new(Pace::apart(Duration::ZERO));
        let sends = pace.clone();
        let sender =
            std::thread::spawn(move || sends.run(|number| assert_eq!(a.send(&number.to_be_bytes()).unwrap(), 4)));
        // Who sent the next datagram, and its number. Those cut through come from the channel's port, others by Linux from a's own.
        let next = || {
            let mut buffer = [0; 16];
            let (_, from) = b.recv_from(&mut buffer).unwrap();
            (from.port(), u32::from_be_bytes(buffer[..4].try_into().unwrap()))
        };
        let await_port = |port: u16| while next().0 != port {};
        for terminates in [false, true, false, true] {
            await_port(4000);
            let (domain, _tells) = node.listener();
            let cut = node.cut(domain, ["if0/ip/udp", "*:7000"], ["if1/ip/udp", "10.0.2.1:6000 -> *:*"], 0);
            await_port(6000);
            if !terminates {
                node.with(move |os| os.cutchan_destroy(cut).unwrap(), domain);
            } else {
                node.with(move |os| os.domain_terminate(domain).unwrap(), domain);
            }
            // What is sent from now on comes to the domain, if it still has its incoming channel, or goes by Linux.
            let last = pace.sent();
            if !terminates {
                pace.await_more(100);
                node.with(move |os| os.domain_terminate(domain).unwrap(), domain);
            }
            let mut by_linux = 0;
            while by_linux < 50 {
                let (port, number) = next();
                assert!(port != 6000 || number <= last, "{number} was cut through after {last}, {ports}");
                by_linux += u32::from(port == 4000 && number > last);
            }
        }
        pace.stop();
        sender.join().unwrap();
    }
}

#[test]
fn what_does_not_fit_or_lives_too_short_is_dropped_under_its_reason() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start_on(&format!("odd{name}"), ports, "ip link set to-b mtu 1300") else { return };
        let (domain, _tells) = node.capitals();
        cut_both_ways(&node, domain);
        let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
        a.connect("10.0.2.2:7000").unwrap();
        let passes = |mark: &[u8]| {
            a.send(mark).unwrap();
            let mut buffer = [0; 1500];
            let length = b.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], mark, "the next that comes");
        };
        for round in 1..=3 {
            passes(b"whole");
            a.send(&[7; 1400]).unwrap();
            passes(&[8; 1200]);
            node.await_drops(Reason::TooBig, round);
            a.set_ttl(1).unwrap();
            a.send(b"short").unwrap();
            a.set_ttl(64).unwrap();
            passes(b"again");
            node.await_drops(Reason::TimeToLive, round);
        }
        let domains = node
            .handle
            .with_node(|node, _| {
                node.settle_cuts();
                node.domain_tree()
            })
            .unwrap();
        let usage = &domains.iter().find(|found| found.id == domain.0).unwrap().usage;
        assert_eq!((usage.packets, usage.drops.of(Reason::TooBig), usage.drops.of(Reason::TimeToLive)), (15, 3, 3));
    }
}

#[test]
fn a_channel_has_no_more_than_its_bandwidth() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start(&format!("bw{name}"), ports) else { return };
        let (domain, _tells) = node.capitals();
        // A packet at once is always allowed, as 65,536 bytes; far more is sent than comes back meanwhile.
        node.cut(domain, ["if0/ip/udp", "*:7000"], ["if1/ip/udp", "*:6000 -> *:*"], 1000);
        let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
        a.connect("10.0.2.2:7000").unwrap();
        a.send(&[1; 500]).unwrap();
        b.recv(&mut [0; 600]).unwrap();
        (0..500).for_each(|_| assert_eq!(a.send(&[1; 500]).unwrap(), 500));
        let (sent, dropped) = node.until(|| {
            let out = node.traffic("out");
            let (sent, dropped, _) = *out.iter().max().unwrap();
            // As many as there are places wait for the CPU; of a burst some find none.
            (sent + dropped + node.drops(Reason::ChannelQueueFull) == 501).then_some((sent, dropped))
        });
        // A frame has 542 bytes. In the kernel another CPU may hold a share of 16,384 bytes, and each leaves a rest.
        let held = 32 * (std::thread::available_parallelism().unwrap().get() as u64 - 1);
        assert!(sent + held >= 65_536 / 542 && dropped > 0, "{sent} of 501, {ports}");
        assert_eq!(node.drops(Reason::Bandwidth), dropped);
    }
}

#[test]
fn segments_of_the_stacks_own_streams_come_to_a_channel() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start(&format!("tcp{name}"), ports) else { return };
        let listener = node.net.lab.enter("b", || TcpListener::bind("10.0.2.2:8000").unwrap()).unwrap();
        let mut near = node.net.lab.enter("a", || TcpStream::connect("10.0.2.2:8000").unwrap()).unwrap();
        let mut far = listener.accept().unwrap().0;
        let own = near.local_addr().unwrap();
        let (domain, tells) = node.listener();
        let spec =
            |address: &str| ChanSpec { protocol: "if0/ip/tcp".into(), address: address.into(), ..ChanSpec::default() };
        let channel = node.listen(domain, spec("10.0.1.0/24:* -> 10.0.2.2:8000")).unwrap();
        near.write_all(b"to the channel").unwrap();
        let (payload, ends) = loop {
            let came = tells.recv_timeout(PATIENCE).unwrap();
            if !came.0.is_empty() {
                break came;
            }
        };
        assert_eq!((&payload[..], ends), (&b"to the channel"[..], format!("{own} -> 10.0.2.2:8000")));
        node.with(move |os| os.inchan_destroy(channel), domain).unwrap();
        // What nobody acknowledged is sent again, and Linux forwards it.
        let mut came = [0; 14];
        far.read_exact(&mut came).unwrap();
        assert_eq!(&came, b"to the channel");
    }
}

#[test]
fn packets_of_a_channel_come_in_order_by_the_socket() {
    for (name, ports) in PORTS.into_iter().filter(|(_, ports)| ports.contains("xdp")) {
        let Some(node) = Node::start(&format!("ord{name}"), ports) else { return };
        let (domain, _tells) = node.capitals();
        node.listen(domain, udp("*:5000", vec![])).unwrap();
        let (a, b) = (node.socket("a", "10.0.1.1:4000"), node.socket("b", "10.0.2.2:7000"));
        a.connect("10.0.1.2:5000").unwrap();
        // Until link addresses are known only few packets may wait for them.
        a.send(b"warm").unwrap();
        b.recv(&mut [0; 16]).unwrap();
        let (mut sent, mut came) = (0u32, 0u32);
        let by_socket = || {
            let status = Control::connect(node.dir.path()).unwrap().status().unwrap();
            status["xdp"][0]["to_socket"].as_u64().unwrap()
        };
        // The first ones come by the stack, until the kernel looks for them.
        let patience = Patience::new();
        while came % 500 != 0 || by_socket() < 1000 {
            patience.left(|| format!("{} of {came} by the socket, {ports}", by_socket()));
            while sent < came + 32 {
                a.send(format!("{sent:08}").as_bytes()).unwrap();
                sent += 1;
            }
            let mut buffer = [0; 16];
            let length = b.recv(&mut buffer).unwrap();
            assert_eq!(std::str::from_utf8(&buffer[..length]).unwrap(), format!("{came:08}"));
            came += 1;
        }
        assert_eq!(node.drops(Reason::ProcessFull), 0);
    }
}

#[test]
fn cut_through_ends_with_the_process_and_begins_with_an_order() {
    let adjust = |node: &str, config: &mut toml::Table| {
        running::in_kernel(node, config);
        let role =
            "name = \"cut\"\ngrants = { channels = 4, bandwidth = 1_000_000_000 }".parse::<toml::Table>().unwrap();
        config.insert("role".into(), toml::Value::Array(vec![toml::Value::Table(role)]));
    };
    let line = LINE.replace("nodes.r = {}", "nodes.r.active = true");
    let Some(mut net) = Running::up_with("died", &line, &adjust) else { return };
    let bind = |node: &str, at: &str| {
        let socket = net.lab.enter(node, || UdpSocket::bind(at).unwrap()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let (a, b) = (bind("a", "10.0.1.1:4000"), bind("b", "10.0.2.2:7000"));
    a.connect("10.0.2.2:7000").unwrap();
    let from = || {
        a.send(b"x").unwrap();
        b.recv_from(&mut [0; 4]).unwrap().1.port()
    };
    let order = |net: &Running| {
        let mut command = Command::new(running::ANODE);
        command.args(["channel", "cut"]).arg(net.dir("r")).args([
            "if0/ip/udp *:7000",
            "if1/ip/udp *:6000 -> *:*",
            "--role",
            "cut",
        ]);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let in_kernel = |net: &Running| {
        let list = net.control("r").ask(&serde_json::json!({"do": "channels"})).unwrap();
        list.as_array().unwrap().iter().filter_map(|channel| channel["in_kernel"].as_u64()).sum::<u64>()
    };
    for _ in 0..2 {
        assert_eq!(from(), 4000, "Linux forwards");
        order(&net);
        let patience = Patience::new();
        while in_kernel(&net) < 20 {
            assert_eq!(from(), 6000);
            patience.left(|| net.log("r"));
        }
        net.kill("r");
        assert!(net.shell("r", "ip -d link show to-a").contains("xdp"), "the kernel half stays");
        // The kernel empties the map a moment after its last holder has gone.
        while from() == 6000 {
            patience.left(|| "it is still cut through".into());
        }
        assert!((0..100).all(|_| from() == 4000));
        net.daemons.retain(|daemon| daemon.node != "r");
        net.start(&adjust);
    }
}
