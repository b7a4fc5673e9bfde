//! Whatever is done for the packets of a channel is done in its domain's turn: handing them over, engines, cut-through.

use crate::bed::{Bed, INTAKE, Source};
use anode::frame::Frame;
use anode::node::hosts::InProcess;
use anode::nodeos::interface::{ChanSpec, CutChanId, DomainId, InChanId, NodeOs, OutChanId, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::wire::ethernet::Mac;
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Says how long the payloads are that come.
struct Tells(Sender<usize>);

impl InProcess for Tells {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            let _ = self.0.send(frame.len());
            os.packet_free(domain, frame);
        }
    }
}

/// A node with a domain that has an incoming channel and perhaps an outgoing one.
struct Ends {
    bed: Bed,
    domain: DomainId,
    from: InChanId,
    to: Option<OutChanId>,
    told: Receiver<usize>,
}

fn role(weight: u32) -> Role {
    let grants = Grants { weight, channels: 4, bandwidth: u64::MAX, ..Grants::default() };
    Role { grants, ..Role::anyone(Default::default()) }
}

fn spec([protocol, address]: [&str; 2]) -> ChanSpec {
    ChanSpec { protocol: protocol.into(), address: address.into(), ..ChanSpec::default() }
}

impl Ends {
    fn new(policy: Policy, from: [&str; 2], to: Option<[&str; 2]>) -> Ends {
        let mut bed = Bed::new(policy);
        let (sender, told) = channel();
        let domain = bed.domain(&role(100), Box::new(Tells(sender)));
        let from = bed.os(domain, |os| os.inchan_create(domain, &spec(from)).unwrap());
        let to = to.map(|to| bed.os(domain, |os| os.outchan_create(domain, &spec(to)).unwrap()));
        if let Some(to) = to {
            // The first packet asks for the link address of its next hop.
            bed.os(domain, |os| {
                let mut frame = os.packet_alloc(domain).unwrap();
                frame.append(4).unwrap();
                os.outchan_send(to, None, frame).unwrap();
            });
            bed.say(1, [10, 0, 1, 2], Mac([2, 0, 0, 0, 1, 50]));
        }
        Ends { bed, domain, from, to, told }
    }

    fn join(&mut self) -> CutChanId {
        let (from, to) = (self.from, self.to.unwrap());
        self.bed.os(self.domain, |os| os.cutchan_create(from, to).unwrap())
    }

    /// IP packets that have left, each with its UDP port.
    fn left(&mut self) -> Vec<u16> {
        let frames = self.bed.driver.out.frames.drain(..);
        let is_ip = |frame: &Frame| frame.bytes()[12..14] == [8, 0];
        let port = |frame: Frame| u16::from_be_bytes([frame.bytes()[36], frame.bytes()[37]]);
        frames.filter(is_ip).map(port).collect()
    }

    /// One packet that waits has its turn, for so many nanoseconds.
    fn run(&mut self, cost: u64) {
        let ran = self.bed.turn(|node, turn| node.run_next(turn)).unwrap();
        assert_eq!(ran.domain(), self.domain);
        self.bed.driver.node.ran(ran, cost, self.bed.now);
    }
}

/// Where the payload of a datagram to port 5000 goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goes {
    Told(usize),
    Left(u16),
    Nowhere,
}

type Case = ([&'static str; 2], Option<[&'static str; 2]>, Goes);

const CASES: [Case; 7] = [
    (["if0/ip/udp", "*:5000"], None, Goes::Told(4)),
    (["if0/ip/udp/compress", "*:5000"], None, Goes::Told(3)),
    (["if0/ip/udp/checksum", "*:5000"], None, Goes::Told(0)),
    (["if0/ip/udp/fragment(64)", "*:5000"], None, Goes::Nowhere),
    (["if0/ip", "10.0.0.1 proto 17"], Some(["if1/ip", "10.0.1.2 proto 17"]), Goes::Left(5000)),
    (["if0/ip/udp", "*:5000"], Some(["if1/ip/udp", "*:6000 -> 10.0.1.2:7000"]), Goes::Left(7000)),
    (["if0/ip/udp/compress", "*:5000"], Some(["if1/ip/udp/checksum", "*:6000 -> 10.0.1.2:7001"]), Goes::Left(7001)),
];

#[test]
fn every_form_waits_for_its_domains_turn_and_is_paid_for_by_it() {
    for (from, to, goes) in CASES {
        let mut ends = Ends::new(Policy::Wfq, from, to);
        to.map(|_| ends.join());
        ends.left();
        let before = ends.bed.usage(ends.domain).unwrap().cpu_ns;
        ends.bed.feed(5000);
        assert!(ends.bed.driver.node.has_work() && ends.left().is_empty() && ends.told.try_recv().is_err(), "{from:?}");
        ends.run(7000);
        let came = match (ends.told.try_recv(), &ends.left()[..]) {
            (Ok(length), []) => Goes::Told(length),
            (Err(_), [port]) => Goes::Left(*port),
            _ => Goes::Nowhere,
        };
        assert_eq!(came, goes, "{from:?} {to:?}");
        assert_eq!(ends.bed.usage(ends.domain).unwrap().cpu_ns - before, 7000, "{from:?} {to:?}");
    }
}

#[test]
fn with_fifo_every_form_is_run_at_once() {
    for (from, to, goes) in CASES {
        let mut ends = Ends::new(Policy::Fifo, from, to);
        to.map(|_| ends.join());
        ends.left();
        ends.bed.feed(5000);
        let is = match goes {
            Goes::Told(length) => ends.told.try_recv() == Ok(length),
            Goes::Left(port) => ends.left() == [port],
            Goes::Nowhere => ends.left().is_empty() && ends.told.try_recv().is_err(),
        };
        assert!(is && !ends.bed.driver.node.has_work(), "{from:?} {to:?}");
    }
}

#[test]
fn what_waits_when_channels_are_joined_or_parted_goes_where_they_lead_then() {
    let ip = (["if0/ip", "10.0.0.1 proto 17"], ["if1/ip", "10.0.1.2 proto 17"], 12);
    let udp = (["if0/ip/udp", "*:5000"], ["if1/ip/udp", "*:6000 -> 10.0.1.2:5000"], 4);
    for (from, to, payload) in [ip, udp] {
        let mut ends = Ends::new(Policy::Wfq, from, Some(to));
        ends.left();
        ends.bed.feed(5000);
        let cut = ends.join();
        ends.run(1000);
        assert_eq!((ends.left(), ends.told.try_recv().ok()), (vec![5000], None), "{from:?}");
        ends.bed.feed(5000);
        ends.bed.os(ends.domain, |os| os.cutchan_destroy(cut).unwrap());
        ends.run(1000);
        assert_eq!((ends.left(), ends.told.try_recv().ok()), (vec![], Some(payload)), "{from:?}");
    }
}

#[test]
fn cut_through_has_its_domains_share_of_the_cpu_and_no_more() {
    let to = ["if1/ip/udp", "*:6000 -> 10.0.1.2:7000"];
    let mut ends = Ends::new(Policy::Wfq, ["if0/ip/udp", "*:5000"], Some(to));
    ends.join();
    let (sender, _told) = channel();
    let other = ends.bed.domain(&role(300), Box::new(Tells(sender)));
    ends.bed.channel(other, 5001);
    // Each by itself wants more than all of the CPU.
    let mut sources = [5000, 5001].map(|port| Source { port, gap: 400, next: 0 });
    let costs = HashMap::from([(ends.domain, 1500), (other, 600)]);
    ends.bed.work(&mut sources, &costs, 200_000_000);
    let [cut, told] = [ends.domain, other].map(|domain| ends.bed.usage(domain).unwrap().cpu_ns as f64);
    let share = cut / (cut + told);
    assert!((share - 0.25).abs() < 0.02, "{share}; each packet costs {INTAKE} to take in");
}
