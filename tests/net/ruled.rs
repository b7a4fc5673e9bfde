//! Channels of rules over taught protocols on real interfaces: their packets reach an environment, and what is nobody's, or
//! what the kernel cannot tell from that, stays with Linux.

use crate::channels::node::{Node, PORTS};
use crate::flood::module;
use crate::nodeos_processes::{Line, ROLE};
use crate::running::PATIENCE;
use anode::classify::taught::classifier::MatchMode;
use anode::classify::taught::protocols::Protocols;
use anode::graph::taught::Classifying;
use anode::node::policy::Amendment;
use anode::nodeos::interface::ChanSpec;
use model::Ask;
use model::extensions::{Called, Changed};
use model::wish::Wish;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Arc;

const APP: &str = "(protocol app (follows udp 2001) (hdr_len words * 4 min 4) (require version = 1) \
                   (field version offset 0 bit 0 bits 4) (field words offset 0 bit 4 bits 4) \
                   (field kind offset 1 length 1) (field stream offset 2 length 2))";

fn of_stream(stream: u8, number: u8) -> [u8; 5] {
    [0x11, 0, 0, stream, number]
}

fn spec(rule: &str) -> ChanSpec {
    ChanSpec { protocol: "if0/ip/udp/rule".into(), address: rule.into(), ..ChanSpec::default() }
}

/// What has come to a socket of Linux, up to a message that was sent last.
fn up_to(socket: &UdpSocket, last: &[u8]) -> Vec<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), [0; 64]);
    loop {
        let length = socket.recv(&mut buffer).unwrap();
        all.push(buffer[..length].to_vec());
        if buffer[..length] == *last {
            return all;
        }
    }
}

#[test]
fn packets_of_a_rule_come_to_its_channels_and_no_packet_is_lost_to_linux() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start(&format!("rule{name}"), ports) else { return };
        come_to_their_channels(&node);
    }
}

fn come_to_their_channels(node: &Node) {
    let mut protocols = Protocols::standard();
    protocols.teach(APP).unwrap();
    let classifying =
        Some(Classifying { mode: MatchMode::All, protocols: Arc::new(protocols), ..Classifying::default() });
    let amendment = Amendment { classifying, ..Amendment::default() };
    node.handle.with_node(move |node, turn| node.amend(turn, amendment)).unwrap();
    let ((domain, tells), (other, others)) = (node.listener(), node.listener());
    let a = node.socket("a", "10.0.1.1:4000");
    let [linux, taken] = ["10.0.1.2:2001", "10.0.1.2:2002"].map(|at| node.socket("r", at));
    let channel = node.listen(domain, spec("[ip | udp | app (stream = 7) | *]")).unwrap();
    node.listen(other, spec("[app (stream = 7..8) | *]")).unwrap();
    // What the kernel can tell is the channel's alone.
    node.listen(other, spec("[ip | udp (dport = 2002) | *]")).unwrap();
    a.send_to(b"anybody?", taken.local_addr().unwrap()).unwrap();
    let sent: Vec<_> = (0..60).map(|number| of_stream(5 + number % 5, number)).collect();
    for message in &sent {
        a.send_to(message, linux.local_addr().unwrap()).unwrap();
    }
    let of = |streams: &[u8]| -> Vec<Vec<u8>> {
        sent.iter().filter(|message| streams.contains(&message[3])).map(|message| message.to_vec()).collect()
    };
    let come = |tells: &std::sync::mpsc::Receiver<(Vec<u8>, String)>, count: usize| -> Vec<Vec<u8>> {
        (0..count).map(|_| tells.recv_timeout(PATIENCE).unwrap().0).collect()
    };
    assert_eq!(come(&tells, 12), of(&[7]));
    assert_eq!(come(&others, 25), [&[b"anybody?".to_vec()][..], &of(&[7, 8])].concat());
    let all: Vec<Vec<u8>> = sent.iter().map(|message| message.to_vec()).collect();
    assert_eq!(up_to(&linux, &sent[59]), all, "the kernel does not know whose each is");
    taken.set_nonblocking(true).unwrap();
    assert_eq!(taken.recv(&mut [0; 16]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // A rule goes while packets pass: no other channel and not Linux loses one.
    let again: Vec<Vec<u8>> = (0..60).map(|number| of_stream(7, number).to_vec()).collect();
    for (number, message) in again.iter().enumerate() {
        if number == 30 {
            // What is on its way to a channel ends with it.
            assert_eq!(come(&tells, 30), again[..30]);
            node.with(move |os| os.inchan_destroy(channel), domain).unwrap();
        }
        a.send_to(message, linux.local_addr().unwrap()).unwrap();
    }
    assert_eq!(up_to(&linux, &again[59]), again);
    assert_eq!(come(&others, 60), again);
    assert!(tells.try_recv().is_err(), "the channel is no more");
    // Nothing is taken any more when the last is gone, which the ports know when the call has returned.
    node.with(move |os| os.domain_terminate(other), other).unwrap();
    a.send_to(b"and now?", taken.local_addr().unwrap()).unwrap();
    taken.set_nonblocking(false).unwrap();
    assert_eq!(up_to(&taken, b"and now?").len(), 1);
    let unaccounted = node.handle.with_node(|node, _| node.unaccounted(&[])).unwrap();
    assert_eq!((unaccounted.node, unaccounted.domains), (0, 0));
}

#[test]
fn a_process_gets_the_packets_of_a_taught_protocol_and_the_operator_sees_why() {
    let config = format!("{ROLE}[classify]\nprotocols = '''\n{APP}\n'''\n");
    let Some(line) = Line::start_with("ruled", &config) else { return };
    let stream = "[ip | udp | app (stream = 7) | *]";
    let arguments = ["ee", "if0/ip/udp/rule", stream, "if1/ip/udp", "*:6000 -> 10.0.2.2:7000"];
    let _forwarder = line.run("forwarder", crate::build::Linked::Shared, &arguments);
    let (a, b) = (line.socket("a", "10.0.1.1:4000"), line.socket("b", "10.0.2.2:7000"));
    for number in 0..40 {
        for stream in [6, 7] {
            a.send_to(&of_stream(stream, number), "10.0.1.2:2001").unwrap();
        }
        let mut buffer = [0; 64];
        let (length, from) = b.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.to_string()), (&of_stream(7, number)[..], "10.0.2.1:6000".into()));
    }
    let channels = line.net.control("r").ask(&model::Ask::Channels).unwrap();
    let is_rule = |channel: &serde_json::Value| channel["address"] == stream && channel["packets"] == 40;
    assert!(channels.as_array().unwrap().iter().any(is_rule), "{channels}");
    let frame = concat!(
        "0200000000010200000000020800", // Ethernet
        "45000021000000004011",
        "66ca",
        "0a0000010a000002", // IPv4
        "000907d1000d0000",
        "1100000701", // UDP, and the protocol
    );
    let explained = line.net.anode("r", &["classify", "explain", frame]);
    assert_eq!(explained["whose"], "of channels", "{explained}");
    assert_eq!(explained["channels"].as_array().unwrap().len(), 1, "{explained}");
    assert_eq!(explained["rules"][0]["text"], stream, "{explained}");
}

#[test]
fn an_extension_teaches_a_protocol_whose_packets_a_process_gets_and_stays_while_it_is_named() {
    let Some(line) = Line::start_with("taught", ROLE) else { return };
    let mut control = line.net.control("r");
    let mut configure = |what: Wish| control.asked::<Changed>(&Ask::Configure { what });
    let modules = ["names", "tunnels"].map(module).to_vec();
    configure(Wish::Load { modules: modules.clone() }).unwrap();
    let rule = "[ip | udp | vxlan (vni = 7) | *]";
    let arguments = ["ee", "if0/ip/udp/rule", rule, "if1/ip/udp", "*:6000 -> 10.0.2.2:7000"];
    let _forwarder = line.run("forwarder", crate::build::Linked::Shared, &arguments);
    let (a, b) = (line.socket("a", "10.0.1.1:4000"), line.socket("b", "10.0.2.2:7000"));
    let of_network = |vni: u8, number: u8| [8, 0, 0, 0, 0, 0, vni, 0, number];
    let come = |numbers: std::ops::Range<u8>| {
        for number in numbers {
            for vni in [6, 7] {
                a.send_to(&of_network(vni, number), "10.0.1.2:4789").unwrap();
            }
            let mut buffer = [0; 64];
            let (length, _) = b.recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[..length], of_network(7, number));
        }
    };
    come(0..20);
    let refused = configure(Wish::Unload { name: "tunnels".into(), cascade: false }).unwrap_err().to_string();
    assert!(refused.contains("end these channels first: channel") && refused.contains(rule), "{refused}");
    come(20..40);
    let holding = || {
        let frame = concat!(
            "0200000000010200000000020800",
            "4500002500000000401166c60a0000010a000002",
            "000912b5001100000800000000000700",
            "00",
        );
        line.net.anode("r", &["classify", "explain", frame])["whose"].clone()
    };
    assert_eq!(holding(), "of channels");
    // The rule holds for nothing until its protocol is taught again.
    assert_eq!(configure(Wish::Unload { name: "names".into(), cascade: true }).unwrap().names, ["tunnels", "names"]);
    assert_ne!(holding(), "of channels");
    configure(Wish::Load { modules }).unwrap();
    come(40..60);
}

#[test]
fn a_rule_follows_what_an_extension_says_of_a_host() {
    let names = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/apps/extensions/names.wat")).unwrap();
    let classify = "[classify]\nresolve = [\"sender\"]\nname_service = \"names.lookup\"\n";
    let config = format!("{ROLE}{classify}[[extension]]\nname = \"names\"\nmodule = \'\'\'\n{names}\'\'\'\n");
    let Some(line) = Line::start_with("named", &config) else { return };
    let rule = "[ip (src = sender) | udp (dport = 2001) | *]";
    let arguments = ["ee", "if0/ip/udp/rule", rule, "if1/ip/udp", "*:6000 -> 10.0.2.2:7000"];
    let _forwarder = line.run("forwarder", crate::build::Linked::Shared, &arguments);
    let (a, b) = (line.socket("a", "10.0.1.1:4000"), line.socket("b", "10.0.2.2:7000"));
    let linux = line.socket("r", "10.0.1.2:2001");
    let at = |host: &str, is_theirs: bool| {
        let mut control = line.net.control("r");
        let call = Ask::Call { call: "names.add".into(), arguments: vec!["sender".into(), host.into()] };
        control.asked::<Called>(&call).unwrap();
        let frame = concat!(
            "0200000000010200000000020800", // Ethernet
            "4500001d000000004011",
            "64ce",
            "0a0001010a000102", // IPv4
            "0fa007d100090000",
            "00", // UDP
        );
        crate::wait::unannounced("a status does not say what rules mean", || {
            let explained = line.net.anode("r", &["classify", "explain", frame]);
            if (explained["whose"] == "of channels") == is_theirs { Ok(()) } else { Err(explained.to_string()) }
        });
    };
    at("10.0.1.1", true);
    let mut buffer = [0; 8];
    for number in 0..20 {
        a.send_to(&[number], "10.0.1.2:2001").unwrap();
        assert_eq!((b.recv(&mut buffer).unwrap(), buffer[0]), (1, number));
    }
    // The host is another one: its packets are Linux's alone, which has had the others too.
    at("10.0.1.9", false);
    a.send_to(&[20], "10.0.1.2:2001").unwrap();
    assert_eq!(up_to(&linux, &[20]).len(), 21);
    at("10.0.1.1", true);
    a.send_to(&[21], "10.0.1.2:2001").unwrap();
    assert_eq!((b.recv(&mut buffer).unwrap(), buffer[0]), (1, 21));
    assert_eq!(line.net.status("r")["unaccounted"], 0);
}
