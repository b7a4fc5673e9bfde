//! Bandwidth is that of frames as they leave: headers count, and so does each frame that engines make of a packet.
//! What cannot be sent is its sender's as it was.

use crate::bed::{Bed, datagram_with};
use anode::frame::Frame;
use anode::node::hosts::InProcess;
use anode::nodeos::interface::{ChanSpec, Destination, DomainId, Error, NetSpec, NodeOs, OutChanId, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::wire::Addr;
use anode::wire::ethernet::Mac;

const TO: [u8; 4] = [10, 0, 1, 2];

/// Bytes that every bandwidth has at once, and all that one of a byte a second has.
const AT_ONCE: usize = 65_536;

struct Silent;

impl InProcess for Silent {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            os.packet_free(domain, frame);
        }
    }
}

/// A domain with a way out to a neighbour whose link address is known.
fn open(protocol: &str, address: &str, of_domain: u64, of_channel: u64) -> (Bed, DomainId, OutChanId) {
    let mut bed = Bed::new(Policy::Fifo);
    let grants = Grants { channels: 4, bandwidth: of_domain, ..Grants::default() };
    let domain = bed.domain(&Role { grants, ..Role::anyone(Limits::default()) }, Box::new(Silent));
    let net = NetSpec { bandwidth: of_channel, ..NetSpec::default() };
    let spec = ChanSpec { protocol: protocol.into(), address: address.into(), net, ..ChanSpec::default() };
    let out = bed.os(domain, |os| os.outchan_create(domain, &spec)).unwrap();
    // Another domain asks for the link address.
    let grants = Grants { channels: 1, bandwidth: u64::MAX, ..Grants::default() };
    let other = bed.domain(&Role { grants, ..Role::anyone(Limits::default()) }, Box::new(Silent));
    let (protocol, address) = ("if1/ip/udp".into(), "*:9 -> 10.0.1.2:9".into());
    let asking = ChanSpec { protocol, address, ..ChanSpec::default() };
    let asking = bed.os(other, |os| os.outchan_create(other, &asking)).unwrap();
    let mut asks = (bed, other, asking);
    send(&mut asks, None, b"").unwrap();
    let mut bed = asks.0;
    bed.say(1, TO, Mac([2, 0, 0, 0, 1, 50]));
    bed.driver.out.frames.clear();
    (bed, domain, out)
}

/// Sends a payload; if that fails, why, and what has come back.
fn send(
    (bed, domain, out): &mut (Bed, DomainId, OutChanId),
    to: Destination,
    payload: &[u8],
) -> Result<(), (Vec<u8>, Error)> {
    bed.os(*domain, |os| {
        let mut frame = os.packet_alloc(*domain).unwrap();
        frame.append(payload.len()).unwrap().copy_from_slice(payload);
        os.outchan_send(*out, to, frame).map_err(|(frame, error)| {
            let bytes = frame.bytes().to_vec();
            os.packet_free(*domain, frame);
            (bytes, error)
        })
    })
}

/// Bytes of all frames that have left by the second port, and of the longest.
fn left(bed: &Bed) -> (usize, usize) {
    let lengths = || bed.driver.out.frames.iter().filter(|frame| frame.port.0 == 1).map(Frame::len);
    (lengths().sum(), lengths().max().unwrap_or(0))
}

#[test]
fn headers_and_what_engines_make_of_a_packet_are_paid_from_the_bandwidth() {
    // What is sent, and bytes that one packet can become.
    let cases: &[(&str, &str, usize, usize)] = &[
        ("if1/ip/udp", "*:7000 -> 10.0.1.2:7000", 0, 42),
        ("if1/ip/udp", "*:7000 -> 10.0.1.2:*", 0, 42),
        ("if1/ip", "10.0.1.2 proto 47", 0, 34),
        ("if1/ip/udp", "*:7000 -> 10.0.1.2:7000", 1400, 1442),
        ("if1/anep", "type 77", 0, 50),
        ("if1/ip/udp/fragment(64)", "*:7000 -> 10.0.1.2:7000", 1400, 22 * (64 + 4 + 62)),
        ("if1/ip/udp/xor(2)/xor(2)/xor(2)/xor(2)", "*:7000 -> 10.0.1.2:7000", 1000, 16 * (1000 + 24 + 62)),
        ("if1/ip/udp/compress/fragment(64)", "*:7000 -> 10.0.1.2:7000", 1400, 22 * (64 + 4 + 62)),
    ];
    for &(protocol, address, length, most) in cases {
        for (of_domain, of_channel) in [(1, 0), (u64::MAX, 1)] {
            let mut sender = open(protocol, address, of_domain, of_channel);
            let to = Some((Addr::v4(TO), 7000));
            let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let refused = (0..3000).filter(|_| send(&mut sender, to, &payload).is_err()).count();
            let (bytes, longest) = left(&sender.0);
            assert!(bytes <= AT_ONCE, "{protocol}, {length}: {bytes} bytes have left");
            assert!(longest >= 34 && bytes + most > AT_ONCE, "{protocol}, {length}: no more than {bytes} have left");
            assert!(refused > 1000, "{protocol}, {length}: {refused}");
        }
    }
}

#[test]
fn a_strangers_empty_datagrams_are_paid_where_they_are_cut_through() {
    let mut sender = open("if1/ip/udp", "*:7000 -> 10.0.1.2:7000", 1, 0);
    let (bed, domain, out) = &mut sender;
    let from = bed.channel(*domain, 5000);
    bed.os(*domain, |os| os.cutchan_create(from, *out)).unwrap();
    for _ in 0..3000 {
        let frame = datagram_with(5000, b"");
        bed.turn(|node, turn| node.receive(turn, frame));
    }
    assert_eq!(left(bed), (AT_ONCE / 42 * 42, 42));
}

#[test]
fn what_cannot_be_sent_comes_back_without_headers() {
    let to = Some((Addr::v4(TO), 7000));
    let long: Vec<u8> = (0..1500).map(|at| at as u8).collect();
    for (protocol, address) in [
        ("if1/ip/udp", "*:7000 -> 10.0.1.2:7000"),
        ("if1/ip/udp", "*:7000 -> *:*"),
        ("if1/ip", "10.0.1.2 proto 47"),
        ("if1/anep", "type 77"),
    ] {
        // The first goes the long way, later ones may get the headers of the one before.
        let mut sender = open(protocol, address, u64::MAX, 0);
        for _ in 0..3 {
            assert_eq!(send(&mut sender, to, &long), Err((long.clone(), Error::TooBig)), "{protocol} {address}");
            assert_eq!(send(&mut sender, to, b"short"), Ok(()), "{protocol} {address}");
        }
        let mut poor = open(protocol, address, 1, 0);
        let (came_back, error) = (0..3000).find_map(|_| send(&mut poor, to, &long[..1000]).err()).unwrap();
        assert_eq!((came_back.as_slice(), error), (&long[..1000], Error::Again), "{protocol} {address}");
    }
}
