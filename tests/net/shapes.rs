//! More shapes of channels' rules than the kernel has masks: each channel has its packets, and Linux all others.

use crate::channels::node::{Listener, Node, PORTS};
use crate::running::PATIENCE;
use anode::nodeos::interface::{ChanSpec, DomainId};
use anode::trust::Role;
use anode::trust::grants::Grants;
use model::status::Merged;
use std::net::UdpSocket;
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
    let grants = Grants { channels: 64, bandwidth: 1 << 30, ..Grants::default() };
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
