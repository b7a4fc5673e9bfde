//! What a node believes of who says which link address a next hop has, by ARP (RFC 826) and neighbour discovery (RFC 4861).

use crate::node_bench::{Bench, MAC, module};
use anode::core::reason::Reason;
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::Sizes;
use anode::topology::{Ceiling, NextHop, Port, Routes};
use anode::wire::ethernet::{self, Mac, ethertype};
use anode::wire::{Addr, Digest, Prefix, arp, capsule, icmp, ipv6};

const OTHER: Mac = Mac([2, 0, 0, 0, 0, 9]);

/// Link addresses that no other station can have (RFC 1812 §3.3.2), and one that it can.
const CLAIMS: [(&str, Mac, bool); 7] = [
    ("everybody", Mac::BROADCAST, false),
    ("a group of IPv4", Mac([1, 0, 0x5e, 0, 0, 1]), false),
    ("a group of IPv6", Mac([0x33, 0x33, 0, 0, 0, 1]), false),
    ("bridges", Mac([1, 0x80, 0xc2, 0, 0, 0]), false),
    ("nobody", Mac([0; 6]), false),
    ("the node itself", MAC, false),
    ("a station", OTHER, true),
];

/// Own address and next hop of both families.
fn hops() -> [(Addr, Addr); 2] {
    let addr = |text: &str| text.parse::<Addr>().unwrap();
    [(Addr::v4([10, 1, 0, 1]), Addr::v4([10, 1, 0, 9])), (addr("fd01::1"), addr("fd01::9"))]
}

/// A node with a port on a link, where it answers itself.
fn on_link() -> (Bench, Digest) {
    let link = Link::Ethernet { mac: MAC, answers: true };
    let prefixes: [Prefix; 2] = ["10.1.0.0/24".parse().unwrap(), "fd01::/64".parse().unwrap()];
    let addresses = hops().map(|(own, _)| own).into_iter().zip(prefixes).collect();
    let port = Port { name: "eth".into(), link, addresses, mtu: 1500, bits_per_second: 0, ceiling: Ceiling::default() };
    let direct = NextHop { port: PortId(0), via: Addr::UNSPECIFIED };
    let mut bench = Bench::of(port, None, Routes::new(prefixes.map(|prefix| (prefix, direct))), Sizes::default());
    let code = bench.add(0, &module("", "", "i32.const 1"));
    (bench, code)
}

/// An application's capsule to a next hop.
fn send(bench: &mut Bench, code: Digest, to: Addr) {
    let header = capsule::Header {
        app_port: 5,
        bound: 8,
        code,
        previous: Addr::UNSPECIFIED,
        source: Addr::UNSPECIFIED,
        destination: to,
    };
    let mut bytes = vec![0; capsule::HEADER];
    header.emit(&mut bytes).unwrap();
    bench.driver.turn(bench.now, |node, turn| node.inject(turn, Frame::from_bytes(&bytes))).unwrap();
    bench.settle();
}

/// A frame of somebody on the link: ARP, or neighbour discovery, with a question or an answer.
fn said((own, hop): (Addr, Addr), mac: Mac, asks: bool) -> Vec<u8> {
    let (Some(sender_ip), Some(target_ip)) = (hop.bytes_v4(), own.bytes_v4()) else {
        let message = match asks {
            true => icmp::V6::Solicitation { target: own, source_mac: Some(mac) },
            false => icmp::V6::Advertisement {
                target: hop,
                target_mac: Some(mac),
                router: false,
                solicited: true,
                overrides: true,
            },
        };
        let mut bytes = framed(ethertype::IPV6, ipv6::HEADER + message.len());
        let header = ipv6::Repr::new(hop, own, icmp::IP_PROTOCOL_V6, icmp::NEIGHBOUR_HOP_LIMIT, message.len());
        header.emit(&mut bytes[ethernet::HEADER..]).unwrap();
        message.emit(&mut bytes[ethernet::HEADER + ipv6::HEADER..], hop, own).unwrap();
        return bytes;
    };
    let operation = if asks { arp::Operation::Request } else { arp::Operation::Reply };
    let mut bytes = framed(ethertype::ARP, arp::LENGTH);
    let message = arp::Repr { operation, sender_mac: mac, sender_ip, target_mac: MAC, target_ip };
    message.emit(&mut bytes[ethernet::HEADER..]).unwrap();
    bytes
}

fn framed(ethertype: u16, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER + length];
    ethernet::Repr { destination: MAC, source: OTHER, tag: None, ethertype }.emit(&mut bytes).unwrap();
    bytes
}

/// Where the frames that left went, but questions.
fn went(bench: &mut Bench) -> Vec<Mac> {
    let question =
        |frame: &ethernet::FrameView<'_>| frame.destination().is_group() && frame.ethertype() != ethertype::IPV4;
    let frames = bench.driver.out.frames.drain(..);
    let sent = frames.filter_map(|frame| {
        let parsed = ethernet::FrameView::new_checked(frame.bytes()).unwrap();
        (!question(&parsed)).then(|| parsed.destination())
    });
    sent.collect()
}

#[test]
fn a_next_hop_has_no_link_address_of_a_group_of_nobody_or_of_the_node() {
    for (name, mac, good) in CLAIMS {
        for ends in hops() {
            let (mut bench, code) = on_link();
            send(&mut bench, code, ends.1);
            assert_eq!(went(&mut bench), [], "{name}: it asks first");
            bench.take(0, PeerId::NONE, &said(ends, mac, false));
            let expected: &[Mac] = if good { &[mac] } else { &[] };
            assert_eq!(went(&mut bench), expected, "{name}, {}", ends.1);
            let refused = bench.drops().of(Reason::LinkAddress);
            assert_eq!(refused, u64::from(!good), "{name}, {}", ends.1);
            // Nor does one that is known become such a one.
            bench.take(0, PeerId::NONE, &said(ends, OTHER, false));
            bench.take(0, PeerId::NONE, &said(ends, mac, false));
            went(&mut bench);
            send(&mut bench, code, ends.1);
            assert_eq!(went(&mut bench), [OTHER], "{name}, {}", ends.1);
        }
    }
}

#[test]
fn nobody_is_answered_at_such_a_link_address() {
    for (name, mac, good) in CLAIMS {
        for ends in hops() {
            let (mut bench, _) = on_link();
            bench.take(0, PeerId::NONE, &said(ends, mac, true));
            let sent = bench.driver.out.frames.len();
            assert_eq!(sent, usize::from(good), "{name}, {}", ends.1);
            assert_eq!(bench.drops().of(Reason::LinkAddress), u64::from(!good), "{name}, {}", ends.1);
        }
    }
}
