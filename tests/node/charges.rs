//! What a packet costs is in the account of its domain, whatever the order of packets. The clock is moved by work alone,
//! so that what is charged is known to the nanosecond.

use crate::bed::{Bed, datagram};
use crate::node_bench::{Bench, FAR, HERE, LEFT, header, module, native, packet, request};
use anode::contract::passed_up;
use anode::core::reason::Reason;
use anode::frame::Frame;
use anode::node::entry::WorkClock;
use anode::node::hosts::InProcess;
use anode::nodeos::interface::{DomainId, NodeOs, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::wire::ethernet::ethertype;
use anode::wire::revocation::{LENGTH, Repr, What};
use anode::wire::{Addr, Digest, anep, capsule};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a packet of each domain costs.
const COSTS: [u64; 2] = [700, 11_000];

/// Frames that are taken in at once.
const BATCH: usize = 20;

/// The UDP ports of the two domains, and one of nobody's.
const PORTS: [u16; 2] = [5000, 5001];
const NOBODYS: u16 = 9;

/// A clock that others move.
pub struct WorkOnly(pub Arc<AtomicU64>);

impl WorkClock for WorkOnly {
    fn read(&mut self) -> u64 {
        self.0.load(Relaxed)
    }

    fn at(&mut self, _: u64) -> u64 {
        self.read()
    }

    fn rested(&mut self, _: u64) {}

    fn lost(&self) -> u64 {
        0
    }
}

/// An environment whose packets take so long.
struct Busy(Arc<AtomicU64>, u64);

impl InProcess for Busy {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            self.0.fetch_add(self.1, Relaxed);
            os.packet_free(domain, frame);
        }
    }
}

/// A node with the two domains.
fn node(policy: Policy) -> (Bed, [DomainId; 2]) {
    let clock = Arc::new(AtomicU64::new(1000));
    let mut bed = Bed::new(policy);
    bed.driver.node.set_clock(Box::new(WorkOnly(clock.clone())));
    let grants = Grants { channels: 1, ..Grants::default() };
    let role = Role { grants, ..Role::anyone(Default::default()) };
    let domains = [0, 1].map(|at| {
        let domain = bed.domain(&role, Box::new(Busy(clock.clone(), COSTS[at])));
        bed.channel(domain, PORTS[at]);
        domain
    });
    (bed, domains)
}

/// Packets come to these ports, all at once.
fn feed(bed: &mut Bed, ports: &[u16]) {
    let mut frames: Vec<Frame> = ports.iter().copied().map(datagram).collect();
    let began = bed.driver.node.worked(bed.now);
    bed.turn(|node, turn| node.receive_all(turn, &mut frames));
    let spent = bed.driver.node.worked(bed.now) - began;
    bed.driver.node.received(ports.len(), spent);
}

/// The packets of the next turn run; whose they were.
fn run(bed: &mut Bed) -> Option<DomainId> {
    let before = bed.driver.node.worked(bed.now);
    let ran = bed.turn(|node, turn| node.run_turn(turn))?;
    let (domain, cost) = (ran.domain(), bed.driver.node.worked(bed.now) - before);
    bed.driver.node.ran(ran, cost, bed.now);
    Some(domain)
}

fn cpu_ns(bed: &Bed, domains: [DomainId; 2]) -> [u64; 2] {
    domains.map(|domain| bed.usage(domain).unwrap().cpu_ns)
}

/// What the domains are charged for packets to these ports.
fn charged(policy: Policy, ports: &[u16]) -> [u64; 2] {
    let (mut bed, domains) = node(policy);
    for batch in ports.chunks(BATCH) {
        feed(&mut bed, batch);
        while run(&mut bed).is_some() {}
    }
    cpu_ns(&bed, domains)
}

#[test]
fn the_only_packet_in_the_node_does_not_wait_and_its_domain_pays_as_if_it_had() {
    for policy in Policy::ALL.into_iter().filter(|policy| policy.waits()) {
        let (mut bed, domains) = node(policy);
        feed(&mut bed, &[PORTS[1]]);
        assert!(!bed.driver.node.has_work(), "{policy:?}");
        assert_eq!(cpu_ns(&bed, domains), [0, COSTS[1]], "{policy:?}");
        // It has had its turn: the other domain is next, and then it has its second.
        feed(&mut bed, &[PORTS[1], PORTS[0]]);
        assert!(bed.driver.node.has_work());
        feed(&mut bed, &[PORTS[0]]);
        assert_eq!(cpu_ns(&bed, domains), [0, COSTS[1]], "{policy:?}: one that comes alone waits behind others");
        let order: Vec<_> = std::iter::from_fn(|| run(&mut bed)).collect();
        if policy == Policy::Wfq {
            assert_eq!(order, [domains[0], domains[0], domains[1]]);
        }
        assert_eq!(order.len(), 3);
        assert_eq!(cpu_ns(&bed, domains), [2 * COSTS[0], 2 * COSTS[1]], "{policy:?}");
        feed(&mut bed, &[PORTS[0]]);
        assert_eq!(cpu_ns(&bed, domains)[0], 3 * COSTS[0], "{policy:?}: again, when nobody waits any more");
    }
}

#[test]
fn a_domain_is_charged_the_same_whether_its_packets_wait_or_not() {
    let [one, other] = PORTS;
    let ways: [(&str, Vec<u16>); 5] = [
        ("one after the other of one domain", vec![one; 50]),
        ("of two in turns", [one, other].repeat(25)),
        ("of one, then of the other", [[one; 30], [other; 30]].concat()),
        ("nobody's among them", [one, NOBODYS, other, other, NOBODYS].repeat(13)),
        ("one", vec![other]),
    ];
    for (name, ports) in ways {
        let count = |port| ports.iter().filter(|known| **known == port).count() as u64;
        let expected = [count(one) * COSTS[0], count(other) * COSTS[1]];
        for policy in [Policy::Fifo, Policy::Wfq] {
            assert_eq!(charged(policy, &ports), expected, "{name}, {policy:?}");
        }
    }
}

#[test]
fn a_capsule_is_charged_to_its_code_whether_it_came_or_began_here_or_has_waited_for_the_code() {
    for policy in [Policy::Fifo, Policy::Wfq] {
        let mut bench = Bench::new();
        bench.driver.node.set_scheduler(policy, 0);
        let code = bench.add(0, &module("", "", "i32.const 0"));
        let run_all = |bench: &mut Bench| {
            let now = bench.now;
            while let Some(ran) = bench.driver.turn(now, |node, turn| node.run_next(turn)) {
                bench.driver.node.ran(ran, ran.steps, now);
            }
        };
        // The first waits for its code; the others begin here, or come when it is there.
        for expected in 1..=4 {
            if expected % 2 == 0 {
                let mut bytes = vec![0; capsule::HEADER];
                let here = capsule::Header { source: Addr::UNSPECIFIED, ..header(code) };
                here.emit(&mut bytes).unwrap();
                let own = Frame::from_bytes(&bytes);
                let now = bench.now;
                bench.driver.turn(now, |node, turn| node.inject(turn, own)).unwrap();
            } else {
                bench.receive(0, &packet(&header(code), b"x"));
            }
            run_all(&mut bench);
            let domains = bench.driver.node.domain_tree();
            let of_code = domains.into_iter().find(|domain| domain.code == Some(code.to_string())).unwrap();
            assert_eq!(of_code.usage.packets, expected, "{policy:?}");
            assert!(of_code.usage.steps > 0);
            assert_eq!(of_code.usage.cpu_ns, of_code.usage.steps, "{policy:?}, after {expected}");
        }
    }
}

/// A clock that shows a nanosecond more each time it is read.
struct Ticking(u64);

impl WorkClock for Ticking {
    fn read(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    fn at(&mut self, _: u64) -> u64 {
        self.read()
    }

    fn rested(&mut self, _: u64) {}

    fn lost(&self) -> u64 {
        0
    }
}

#[test]
fn messages_about_code_and_revocations_are_the_nodes_own_work() {
    let revocation = Repr { what: What::Code, unix_s: 1, subject: [1; 32], signer: [2; 32], signature: [3; 64] };
    let mut told = vec![0; anep::HEADER + LENGTH];
    anep::emit_basic(&mut told, anep::type_id::REVOCATION, LENGTH).unwrap();
    revocation.emit(&mut told[anep::HEADER..]).unwrap();
    for policy in [Policy::Fifo, Policy::Wfq] {
        for message in [request(Digest([9; 32]), LEFT), told.clone(), request(Digest([9; 32]), LEFT)[..20].to_vec()] {
            let mut bench = Bench::new();
            bench.driver.node.set_scheduler(policy, 0);
            bench.driver.node.set_clock(Box::new(Ticking(0)));
            bench.take(0, anode::frame::PeerId(0), &message);
            bench.driver.node.received(1, 0);
            let accounts: Vec<_> = bench.driver.node.domain_tree();
            let of = |own: bool| -> u64 {
                let all = accounts.iter().filter(|domain| (domain.title == "management") == own);
                all.map(|domain| domain.usage.cpu_ns).sum()
            };
            let is_message = message.len() > 20;
            assert_eq!((of(true) > 0, of(false)), (is_message, 0), "{policy:?}, {} bytes", message.len());
        }
    }
}

/// What the kernel half sends up of a capsule whose code has run there and says to forward it.
fn punt(code: Digest, frame: &[u8]) -> Vec<u8> {
    let mut told = [0; passed_up::SIZE];
    told[..2].copy_from_slice(&frame[12..14]);
    told[passed_up::VERDICT.range()].copy_from_slice(&1i32.to_ne_bytes());
    told[passed_up::BOUND.range()].copy_from_slice(&7u32.to_ne_bytes());
    told[passed_up::CODE.range()].copy_from_slice(&code.0);
    told[passed_up::SOURCE.range()].copy_from_slice(&LEFT.0);
    told[passed_up::HERE.range()].copy_from_slice(&HERE.0);
    [&frame[..12], &ethertype::PASSED_UP.to_be_bytes(), &told, &frame[14..]].concat()
}

#[test]
fn a_capsule_from_the_kernel_half_has_its_codes_turn_and_its_code_pays() {
    for policy in [Policy::Fifo, Policy::Wfq] {
        let mut bench = Bench::on_link_beside(true);
        bench.driver.node.set_scheduler(policy, 0);
        let code = bench.add(0, &module("", "", "i32.const 1"));
        let ends = [LEFT, FAR].map(|addr| addr.bytes_v4().unwrap());
        let frame = native(ends, &packet(&header(code), b"x"));
        bench.receive(0, &frame);
        while let Some(ran) = bench.driver.turn(bench.now, |node, turn| node.run_turn(turn)) {
            bench.driver.node.ran(ran, 0, bench.now);
        }
        assert_eq!(bench.outcome(), (1, 0, vec![]), "its code is here");
        bench.driver.out.frames.clear();
        let of_code = |bench: &Bench| {
            let all = bench.driver.node.domain_tree();
            all.into_iter().find(|domain| domain.code == Some(code.to_string())).unwrap().usage.cpu_ns
        };
        let (up, before) = (punt(code, &frame), of_code(&bench));
        bench.driver.node.set_clock(Box::new(Ticking(0)));
        (0..3).for_each(|_| bench.take(0, anode::frame::PeerId::NONE, &up));
        if policy == Policy::Fifo {
            bench.driver.node.received(3, 0);
            assert_eq!(bench.outcome(), (3, 0, vec![]));
            assert!(of_code(&bench) > before);
            continue;
        }
        assert_eq!((bench.outcome(), of_code(&bench)), ((0, 0, vec![]), before), "they wait");
        let ran = bench.driver.turn(bench.now, |node, turn| node.run_turn(turn)).unwrap();
        assert_eq!(ran.packets(), 3, "nobody else waits");
        bench.driver.node.ran(ran, 5_000, bench.now);
        assert_eq!((bench.outcome(), of_code(&bench)), ((3, 0, vec![]), before + 5_000));
        bench.take(0, anode::frame::PeerId::NONE, &up);
        bench.driver.turn(bench.now, |node, turn| node.remove_code(turn, &code));
        bench.take(0, anode::frame::PeerId::NONE, &up);
        bench.take(0, anode::frame::PeerId::NONE, &up[..40]);
        let dropped = vec![(Reason::MalformedPunt, 1), (Reason::DomainEnded, 1), (Reason::CodeGone, 1)];
        let (frames, _, mut drops) = bench.outcome();
        drops.sort_by_key(|(reason, _)| dropped.iter().position(|(known, _)| known == reason));
        assert_eq!((frames, drops, bench.driver.node.has_work()), (3, dropped, false));
    }
}
