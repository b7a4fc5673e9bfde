//! Many domains, each with a channel: what one holds while nothing comes for it, and that each gets its own packets.

use super::HELD;
use super::bed::{Bed, datagram};
use anode::frame::{Frame, PeerId, PortId};
use anode::node::hosts::InProcess;
use anode::nodeos::interface::{ChanSpec, DomainId, DomainSpec, Error, NetSpec, NodeOs, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::{DOMAINS_MAX, Grants};
use std::cell::Cell;
use std::sync::{Arc, Mutex};

/// Domains with a channel each.
const MANY: usize = 100_000;

/// Bytes that an idle one holds, with its channel, its rule and its place in the scheduler.
const IDLE_MAX: i64 = 2048;

/// Where a datagram has its source port: each domain's channel has a pair of ports of its own.
const SOURCE_AT: usize = 34;

/// Writes down whose packets came.
struct Whose(Arc<Mutex<Vec<DomainId>>>);

impl InProcess for Whose {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let Upcall::Packet { frame, .. } = upcall else { return };
        self.0.lock().unwrap().push(domain);
        os.packet_free(domain, frame);
    }
}

/// The source and destination port of a domain's channel.
fn ports(number: usize) -> [u16; 2] {
    [1 + (number / 50_000) as u16, 10_000 + (number % 50_000) as u16]
}

#[test]
fn a_hundred_thousand_domains_get_their_packets_and_idle_ones_hold_little() {
    let mut bed = Bed::new(Policy::Wfq);
    let came = Arc::new(Mutex::new(Vec::with_capacity(1 << 16)));
    let grants = Grants { channels: 1, domains: DOMAINS_MAX as u32, memory_bytes: 1 << 30, ..Grants::default() };
    let role = Role { grants, ..Role::anyone(Default::default()) };
    let top = bed.domain(&role, Box::new(Whose(came.clone())));
    let spec = DomainSpec { title: "flow".into(), ..DomainSpec::default() };
    let before = HELD.with(Cell::get);
    let domains: Vec<DomainId> = (0..MANY).map(|_| bed.os(top, |os| os.domain_create(top, &spec)).unwrap()).collect();
    let held = |before: i64| (HELD.with(Cell::get) - before) / MANY as i64;
    let alone = held(before);
    domains.iter().enumerate().for_each(|(number, domain)| {
        let [source, destination] = ports(number);
        let channel = ChanSpec {
            protocol: "if0/ip/udp".into(),
            address: format!("*:{source} -> *:{destination}"),
            net: NetSpec::default(),
            ..ChanSpec::default()
        };
        bed.os(*domain, |os| os.inchan_create(*domain, &channel)).unwrap();
        bed.driver.out.effects.clear();
    });
    let each = held(before);
    println!("an idle domain holds {alone} bytes, with a channel {each}");
    assert!(each <= IDLE_MAX, "{each} bytes");
    let feed = |bed: &mut Bed, number: usize| {
        let [source, destination] = ports(number);
        let mut bytes = datagram(destination).bytes().to_vec();
        bytes[SOURCE_AT..][..2].copy_from_slice(&source.to_be_bytes());
        // It has no checksum.
        bytes[SOURCE_AT + 6..][..2].fill(0);
        let mut frame = Frame::from_bytes(&bytes);
        (frame.port, frame.peer) = (PortId(0), PeerId::NONE);
        bed.now += 1_000;
        bed.turn(|node, turn| node.receive(turn, frame));
        while bed.turn(|node, turn| node.run_next(turn).map(|ran| node.ran(ran, 100, turn.now))).is_some() {}
    };
    // All of them in an order that is nobody's.
    for number in (0..MANY).map(|number| number * 7919 % MANY) {
        feed(&mut bed, number);
        assert_eq!(came.lock().unwrap().drain(..).collect::<Vec<_>>(), [domains[number]], "packet {number}");
    }
}

#[test]
fn so_many_domains_and_no_more() {
    let mut bed = Bed::new(Policy::Wfq);
    let grants = Grants { domains: DOMAINS_MAX as u32, memory_bytes: 1 << 30, ..Grants::default() };
    let role = Role { grants, ..Role::anyone(Default::default()) };
    let top = bed.domain(&role, Box::new(Whose(Arc::default())));
    let spec = DomainSpec { title: "flow".into(), ..DomainSpec::default() };
    let create = |bed: &mut Bed| bed.os(top, |os| os.domain_create(top, &spec));
    let mut domains = Vec::new();
    let refused = loop {
        match create(&mut bed) {
            Ok(domain) => domains.push(domain),
            Err(why) => break why,
        }
    };
    assert_eq!(refused, Error::Full, "{} domains", domains.len());
    assert!((DOMAINS_MAX - 16..DOMAINS_MAX).contains(&domains.len()), "{}", domains.len());
    // One that has gone makes room, and its name is not the next one's.
    let gone = domains[12_345];
    bed.os(top, |os| os.domain_terminate(gone)).unwrap();
    let again = create(&mut bed).unwrap();
    assert!(again != gone && again.index() == gone.index(), "{again:?} {gone:?}");
    assert_eq!(create(&mut bed), Err(Error::Full));
}
