//! Kept headers of an outgoing channel are given up when the way changes.

use crate::bed::Bed;
use anode::frame::{Frame, PortId};
use anode::node::hosts::InProcess;
use anode::nodeos::interface::{ChanSpec, DomainId, NodeOs, OutChanId, Upcall};
use anode::schedule::Policy;
use anode::topology::{NextHop, Routes};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::wire::ethernet::Mac;
use anode::wire::{Addr, Prefix};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;

struct Silent;

impl InProcess for Silent {
    fn upcall(&mut self, _: &mut dyn NodeOs, _: DomainId, _: Upcall) {}
}

/// Sends a payload, and says to which link address and by which port it has left, if it has.
fn send(bed: &mut Bed, (domain, out): (DomainId, OutChanId), payload: &[u8]) -> Option<(u8, u16)> {
    bed.driver.out.frames.clear();
    bed.os(domain, |os| {
        let mut frame = os.packet_alloc(domain).unwrap();
        frame.append(payload.len()).unwrap().copy_from_slice(payload);
        os.outchan_send(out, None, frame).unwrap();
    });
    let is_ip = |frame: &&Frame| frame.bytes()[12..14] == [8, 0];
    let frame = bed.driver.out.frames.iter().find(is_ip)?;
    assert_eq!(&frame.bytes()[42..], payload);
    Some((frame.bytes()[5], frame.port.0))
}

fn open(bed: &mut Bed, port: &str, to: &str) -> (DomainId, OutChanId) {
    let grants = Grants { channels: 4, bandwidth: u64::MAX, ..Grants::default() };
    let domain = bed.domain(&Role { grants, ..Role::anyone(Default::default()) }, Box::new(Silent));
    let (protocol, address) = (format!("{port}/ip/udp"), format!("*:7000 -> {to}"));
    let spec = ChanSpec { protocol, address, ..ChanSpec::default() };
    (domain, bed.os(domain, |os| os.outchan_create(domain, &spec)).unwrap())
}

#[test]
fn a_channels_packets_follow_when_link_addresses_change_and_get_old() {
    let mut bed = Bed::new(Policy::Fifo);
    let channel = open(&mut bed, "if1", "10.0.1.2:7000");
    assert_eq!(send(&mut bed, channel, b"nobody knows the way"), None);
    bed.say(1, [10, 0, 1, 2], Mac([2, 0, 0, 0, 1, 50]));
    for payload in [&b"first"[..], b"second", b"a third of another length"] {
        assert_eq!(send(&mut bed, channel, payload), Some((50, 1)));
    }
    bed.say(1, [10, 0, 1, 2], Mac([2, 0, 0, 0, 1, 51]));
    assert_eq!(send(&mut bed, channel, b"moved"), Some((51, 1)));
    assert_eq!(send(&mut bed, channel, b"still there"), Some((51, 1)));
    bed.now += 21 * SECOND;
    assert_eq!(send(&mut bed, channel, b"old answers are used"), Some((51, 1)));
    assert!(bed.driver.out.frames.iter().any(|frame| frame.bytes()[12..14] == [8, 6]), "and asked for again");
    bed.now += 60 * SECOND;
    assert_eq!(send(&mut bed, channel, b"but not for ever"), None);
}

#[test]
fn a_channels_packets_follow_routes() {
    let mut bed = Bed::new(Policy::Fifo);
    let via = |port: u8, n| NextHop { port: PortId(u16::from(port)), via: Addr::v4([10, 0, port, n]) };
    let far: Prefix = "10.9.0.0/16".parse().unwrap();
    let channel = open(&mut bed, "*", "10.9.1.1:7000");
    for (port, n) in [(1, 2), (0, 3), (1, 4)] {
        bed.driver.node.set_routes(Arc::new(Routes::new([(far, via(port, n))])), None);
        let _ = send(&mut bed, channel, b"asks");
        bed.say(port, [10, 0, port, n], Mac([2, 0, 0, 0, port, 60 + n]));
        for payload in [&b"one"[..], b"another one"] {
            assert_eq!(send(&mut bed, channel, payload), Some((60 + n, u16::from(port))));
        }
    }
    bed.driver.node.set_routes(Arc::new(Routes::default()), None);
    let (domain, out) = channel;
    let refused = bed.os(domain, |os| {
        let frame = os.packet_alloc(domain).unwrap();
        os.outchan_send(out, None, frame).map_err(|(frame, error)| {
            os.packet_free(domain, frame);
            error
        })
    });
    assert_eq!(refused, Err(anode::nodeos::interface::Error::Unknown), "no route, no way");
}
