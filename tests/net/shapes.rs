//! More shapes of channels' rules than the kernel has masks: each channel has its packets, and Linux all others.

use crate::channels::node::{Listener, Node, PORTS};
use crate::running::PATIENCE;
use anode::nodeos::interface::{ChanSpec, DomainId};
use anode::trust::Role;
use anode::trust::grants::Grants;
use model::status::Merged;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::{Receiver, channel};

/// Rules of as many shapes, each to a port of its own.
const SHAPES: u16 = 44;

fn spec(number: u16) -> ChanSpec {
    let from = if number.is_multiple_of(2) { "4000" } else { "*" };
    let address = format!("10.0.1.1/{}:{from} -> *:{}", 9 + number / 2, port(number));
    ChanSpec { protocol: "if0/ip/udp".into(), address, ..ChanSpec::default() }
}

fn port(number: u16) -> u16 {
    6000 + number
}

fn listener(node: &Node) -> (DomainId, Receiver<(Vec<u8>, String)>) {
    let (told, tells) = channel();
    let grants = Grants { channels: 256, bandwidth: 1 << 30, ..Grants::default() };
    let role = Role { grants, ..Role::anyone(Default::default()) };
    let attach = move |node: &mut anode::node::Node, _: &mut anode::node::Turn<'_>| {
        node.attach("listener", &role, Box::new(Listener { told })).unwrap().1
    };
    (node.handle.with_node(attach).unwrap(), tells)
}

fn send(from: &UdpSocket, number: u16) {
    from.send_to(&number.to_be_bytes(), ("10.0.1.2", port(number))).unwrap();
}

fn reaches_linux(from: &UdpSocket, to: &UdpSocket, number: u16) {
    from.send_to(&number.to_be_bytes(), to.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(to.recv(&mut buffer).unwrap(), 2);
    assert_eq!(buffer[..2], number.to_be_bytes());
}

#[test]
fn channels_of_more_shapes_than_masks_have_their_packets_and_linux_has_the_rest() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start(&format!("shapes{name}"), ports) else { return };
        let (domain, tells) = listener(&node);
        let [a, b] = ["10.0.1.1:4000", "10.0.1.1:4001"].map(|at| node.socket("a", at));
        let other = node.socket("r", "10.0.1.2:7000");
        // Linux listens where channels do, and must not hear.
        let deaf = node.socket("r", &format!("10.0.1.2:{}", port(30)));
        let mut made = Vec::new();
        for number in 0..SHAPES {
            made.push(node.listen(domain, spec(number)).unwrap());
            // As rules come and masks change, those that are there miss nothing.
            send(&a, number / 2);
            assert_eq!(tells.recv_timeout(PATIENCE).unwrap().0, (number / 2).to_be_bytes(), "{name}, {number}");
            reaches_linux(&a, &other, number);
        }
        let merged = |node: &Node| node.handle.status().unwrap().ports[0].merged;
        assert_eq!(merged(&node), Some(Merged { shapes: SHAPES.into(), masks: 20 }), "{name}");
        for number in 0..SHAPES {
            send(&a, number);
            let (payload, ends) = tells.recv_timeout(PATIENCE).unwrap();
            assert_eq!(payload, number.to_be_bytes(), "{name}");
            assert_eq!(ends, format!("10.0.1.1:4000 -> 10.0.1.2:{}", port(number)), "{name}");
        }
        // Of the same port, but another sender's: what a mask leaves out decides.
        send(&b, 30);
        let mut buffer = [0; 8];
        assert_eq!(deaf.recv(&mut buffer).unwrap(), 2, "{name}");
        deaf.set_nonblocking(true).unwrap();
        assert!(deaf.recv(&mut buffer).is_err(), "{name}: Linux has a channel's packet");
        // Fewer again: each has a mask of its own.
        for channel in made.drain(10..) {
            node.with(move |os| os.inchan_destroy(channel), domain).unwrap();
        }
        assert_eq!(merged(&node), None, "{name}");
        send(&a, 30);
        deaf.set_nonblocking(false).unwrap();
        assert_eq!(deaf.recv(&mut buffer).unwrap(), 2, "{name}");
        (0..10).for_each(|number| send(&a, number));
        for number in 0..10u16 {
            assert_eq!(tells.recv_timeout(PATIENCE).unwrap().0, number.to_be_bytes(), "{name}");
        }
        assert!(tells.try_recv().is_err(), "{name}");
        let unaccounted = node.handle.with_node(|node, _| node.unaccounted(&[])).unwrap();
        assert_eq!((unaccounted.node, unaccounted.domains), (0, 0), "{name}");
    }
}

/// Rules near the packets of 10.0.1.1, of which none holds for them: blocks that differ in their last bit from its address, towards
/// blocks that hold 10.0.1.2.
fn beside() -> impl Iterator<Item = ChanSpec> {
    let block = |length: u32| Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 1, 1).to_bits() ^ (0x8000_0000 >> (length - 1)));
    let rule = move |(source, to): (u32, u32)| ChanSpec {
        protocol: "if0/ip/udp".into(),
        address: format!("{}/{source}:* -> 10.0.1.2/{to}:*", block(source)),
        ..ChanSpec::default()
    };
    (1..=32).flat_map(|source| [20, 24, 28, 32].map(|to| (source, to))).map(rule)
}

#[test]
fn what_the_kernel_is_in_doubt_about_is_linux_alone_once_it_is_nobodys() {
    for (name, ports) in PORTS {
        let Some(node) = Node::start(&format!("doubt{name}"), ports) else { return };
        let (domain, tells) = listener(&node);
        for rule in beside() {
            node.listen(domain, rule).unwrap();
        }
        let [a, b] = ["10.0.1.1:4000", "10.0.1.1:4001"].map(|at| node.socket("a", at));
        let other = node.socket("r", "10.0.1.2:7000");
        let foreign = || node.handle.status().unwrap().ports[0].foreign.unwrap_or_default();
        reaches_linux(&a, &other, 0);
        node.until(|| (foreign().flows == 1).then_some(()));
        (1..50).for_each(|number| reaches_linux(&a, &other, number));
        assert_eq!((foreign().learned, foreign().spared), (1, 49), "{name}: it came up once");
        // A rule for it comes, from its first packet on; Linux has what is another's.
        let own = ChanSpec {
            protocol: "if0/ip/udp".into(),
            address: "10.0.1.1:4000 -> *:7000".into(),
            ..ChanSpec::default()
        };
        node.listen(domain, own).unwrap();
        for number in 50..60u16 {
            a.send_to(&number.to_be_bytes(), other.local_addr().unwrap()).unwrap();
            assert_eq!(tells.recv_timeout(PATIENCE).unwrap().0, number.to_be_bytes(), "{name}");
            // Had Linux the other one too, it would come first.
            reaches_linux(&b, &other, number + 100);
        }
        assert!(tells.try_recv().is_err(), "{name}");
        let unaccounted = node.handle.with_node(|node, _| node.unaccounted(&[])).unwrap();
        assert_eq!((unaccounted.node, unaccounted.domains), (0, 0), "{name}");
    }
}
