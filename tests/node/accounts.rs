//! Every port and every domain accounts for its packets by itself, at every step of whatever comes together; and packets
//! that wait while what they wait for moves: to another domain, another environment, another channel.

use crate::bed::{Bed, datagram_with};
use crate::node_bench::{Bench, header, module, packet};
use anode::core::ledger::Unaccounted;
use anode::core::reason::Reason;
use anode::frame::{Frame, PortId};
use anode::node::hosts::InProcess;
use anode::node::survey::{Survey, Surveyed};
use anode::nodeos::interface::{ChanSpec, CutChanId, DomainId, InChanId, NetSpec, NodeOs, OutChanId, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::wire::ethernet::Mac;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of a run.
const STEPS: usize = 3000;

/// Incoming channels of a domain, each with where its packets go on without the domain, if they do. `fragment` takes what it
/// cannot read for pieces, and keeps them.
const WAYS: [([&str; 2], Option<[&str; 2]>); 6] = [
    (["if0/ip/udp", "*:5000"], None),
    (["if0/ip/udp/fragment(64)", "*:5001"], None),
    (["if0/ip/udp/xor(2)/compress", "*:5002"], None),
    (["if0/ip/udp", "*:5003"], Some(["if1/ip/udp", "*:6003 -> 10.0.1.2:7003"])),
    (["if0/ip/udp", "*:5004"], Some(["if1/ip/udp/fragment(64)", "*:6004 -> 10.0.1.2:7004"])),
    (["if0/ip/udp/fragment(64)", "*:5005"], Some(["if1/ip/udp/xor(2)", "*:6005 -> 10.9.9.9:7005"])),
];

/// Where an environment sends: into engines, to somebody without a way, and to a neighbour that is resolved once.
const OUTS: [[&str; 2]; 3] = [
    ["if1/ip/udp/fragment(64)", "*:6100 -> 10.0.1.2:7100"],
    ["if1/ip/udp", "*:6101 -> 10.9.9.9:7101"],
    ["if1/ip/udp", "*:6102 -> 10.0.1.2:7102"],
];

fn spec([protocol, address]: [&str; 2]) -> ChanSpec {
    let net = NetSpec { buffers: 20, ..NetSpec::default() };
    ChanSpec { protocol: protocol.into(), address: address.into(), net, ..ChanSpec::default() }
}

fn role() -> Role {
    let grants = Grants { channels: 64, bandwidth: 200_000, memory_bytes: 1 << 20, ..Grants::default() };
    Role { grants, ..Role::anyone(Default::default()) }
}

/// Sends, keeps, gives back or loses what comes, each in its turn, and panics at last.
struct Guest {
    outs: Vec<OutChanId>,
    kept: Vec<Frame>,
    left: usize,
    came: Arc<AtomicU64>,
}

impl InProcess for Guest {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        let Upcall::Packet { frame, .. } = upcall else { return };
        self.came.fetch_add(1, Ordering::Relaxed);
        self.left = self.left.checked_sub(1).expect("as wanted");
        match self.left % 7 {
            0 => os.packet_free(domain, frame),
            1 => self.kept.push(frame),
            2 => drop(frame),
            // At most: a packet, and one that was kept.
            at => {
                let out = self.outs.get(at % OUTS.len()).copied().unwrap_or(OutChanId(9999));
                for frame in [Some(frame), self.kept.pop()].into_iter().flatten() {
                    if let Err((frame, _)) = os.outchan_send(out, None, frame) {
                        os.packet_free(domain, frame);
                    }
                }
            }
        }
    }
}

/// A node, and the domains that there are.
struct Run {
    bed: Bed,
    dice: Xoshiro256PlusPlus,
    domains: Vec<DomainId>,
    ins: Vec<(DomainId, InChanId)>,
    cuts: Vec<(DomainId, CutChanId)>,
    came: Arc<AtomicU64>,
}

impl Run {
    fn below(&mut self, limit: usize) -> usize {
        (self.dice.next_u64() % limit as u64) as usize
    }

    /// A domain with channels that nobody else has, each in one of the ways, or with none.
    fn enter(&mut self) {
        let left = 1 + self.below(400);
        let guest = |outs| Guest { outs, kept: Vec::new(), left, came: self.came.clone() };
        let domain = self.bed.domain(&role(), Box::new(guest(Vec::new())));
        let made = |os: &mut dyn NodeOs, to| os.outchan_create(domain, &spec(to)).unwrap();
        let outs = self.bed.os(domain, |os| OUTS.map(|to| made(os, to)));
        assert!(self.bed.driver.node.replace_environment(domain, Box::new(guest(outs.to_vec()))));
        for (from, to) in WAYS {
            // Somebody else's, perhaps.
            let Ok(channel) = self.bed.os(domain, |os| os.inchan_create(domain, &spec(from))) else { continue };
            self.ins.push((domain, channel));
            if let Some(to) = to {
                let join = |os: &mut dyn NodeOs| {
                    os.outchan_create(domain, &spec(to)).and_then(|to| os.cutchan_create(channel, to))
                };
                self.cuts.push((domain, self.bed.os(domain, join).unwrap()));
            }
        }
        self.domains.push(domain);
    }

    fn feed(&mut self) {
        // A whole piece with its heading, or anything.
        let length = if self.below(2) == 0 { 68 } else { self.below(200) };
        let port = 5000 + self.below(7) as u16;
        let mut payload = vec![0; length];
        self.dice.fill_bytes(&mut payload);
        // The heading of a piece: a number, which one it is, and of how many.
        for (byte, most) in payload.iter_mut().zip([1, 4, 3, 4]) {
            *byte %= most;
        }
        let mut frame = datagram_with(port, &payload);
        match self.dice.next_u64() % 20 {
            0 => frame.truncate(20 + length % 20),
            1 => frame.port = PortId(7),
            _ => {}
        }
        self.bed.turn(|node, turn| node.receive(turn, frame));
    }

    fn step(&mut self) {
        match self.below(100) {
            0..60 => self.feed(),
            60..90 => {
                if let Some(ran) = self.bed.turn(|node, turn| node.run_next(turn)) {
                    self.bed.driver.node.ran(ran, 1000, self.bed.now);
                }
            }
            90..93 => {
                self.bed.now += 1_000_000 * self.below(400) as u64;
                self.bed.turn(|node, turn| node.timer(turn));
            }
            93 => self.bed.say(1, [10, 0, 1, 2], Mac([2, 0, 0, 0, 1, 50])),
            94 => {
                let at = self.below(self.domains.len());
                let domain = self.domains.swap_remove(at);
                self.bed.turn(|node, turn| node.end_domain(turn, domain, true));
                self.enter();
            }
            95 if !self.ins.is_empty() => {
                let at = self.below(self.ins.len());
                let (domain, channel) = self.ins.swap_remove(at);
                // It may have ended with its domain.
                let _ = self.bed.os(domain, |os| os.inchan_destroy(channel));
            }
            96 => {
                if let Some((domain, cut)) = self.cuts.pop() {
                    let _ = self.bed.os(domain, |os| os.cutchan_destroy(cut));
                }
            }
            97 => self.bed.driver.out.frames.clear(),
            98 => {
                // A port gives a frame back that it has no room for.
                if let Some(frame) = self.bed.driver.out.frames.pop() {
                    self.bed.turn(|node, turn| node.refused_by_port(turn, frame, Reason::QueueFull));
                }
            }
            _ => {
                let at = self.below(self.domains.len());
                let (domain, came) = (self.domains[at], self.came.clone());
                let guest = Guest { outs: Vec::new(), kept: Vec::new(), left: 50, came };
                self.bed.driver.node.replace_environment(domain, Box::new(guest));
            }
        }
    }
}

#[test]
fn every_port_and_every_domain_accounts_for_its_packets_at_every_step() {
    let first = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut seen = std::collections::BTreeSet::new();
    for (seed, policy) in (first..).zip([Policy::Wfq, Policy::Fifo, Policy::Edf, Policy::Wfq]) {
        let dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (bed, came) = (Bed::new(policy), Arc::new(AtomicU64::new(0)));
        let mut run = Run { bed, dice, domains: Vec::new(), ins: Vec::new(), cuts: Vec::new(), came };
        (0..3).for_each(|_| run.enter());
        let (mut survey, mut surveys) = (Survey::of(Surveyed::Counters), 0);
        for step in 0..STEPS {
            run.step();
            // A survey of which each step copies one row: each is right by itself.
            if run.bed.driver.node.survey(&mut survey, &run.bed.driver.out.frames, || true) {
                let (status, domains, _) =
                    std::mem::replace(&mut survey, Survey::of(Surveyed::Counters)).counters().unwrap();
                let wrong: Vec<_> = domains.iter().filter(|domain| domain.unaccounted != 0).collect();
                assert!(wrong.is_empty() && status.unaccounted_by == Unaccounted::default(), "{wrong:?} {status:?}");
                surveys += 1;
            }
            let node = &run.bed.driver.node;
            let lost = node.unaccounted(&run.bed.driver.out.frames);
            let wrong = || node.domain_tree().into_iter().filter(|domain| domain.unaccounted != 0).collect::<Vec<_>>();
            assert_eq!(lost, Unaccounted::default(), "SEED={seed}, step {step}: {:?} {:?}", node.balance(), wrong());
        }
        assert!(surveys > 10, "{surveys}");
        let counts = run.bed.driver.node.channel_counts();
        assert!(run.came.load(Ordering::Relaxed) > 100 && counts.received > 0, "{counts:?}");
        seen.extend(run.bed.driver.node.drops().happened().map(|(reason, _)| reason.name()));
    }
    for reason in ["domain-ended", "channel-gone", "malformed-module", "reassembly-timeout", "queue-full", "no-route"] {
        assert!(seen.contains(reason), "{reason} has not happened: {seen:?}");
    }
}

/// Takes what comes, and counts it.
struct Counts(Arc<AtomicU64>);

impl InProcess for Counts {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            self.0.fetch_add(1, Ordering::Relaxed);
            os.packet_free(domain, frame);
        }
    }
}

fn run_all(bed: &mut Bed) {
    while let Some(ran) = bed.turn(|node, turn| node.run_next(turn)) {
        bed.driver.node.ran(ran, 1000, bed.now);
    }
}

#[test]
fn packets_that_wait_while_another_environment_takes_the_place_of_theirs_come_to_that_one() {
    let mut bed = Bed::new(Policy::Wfq);
    let [before, behind] = [0, 0].map(|zero| Arc::new(AtomicU64::new(zero)));
    let domain = bed.domain(&role(), Box::new(Counts(before.clone())));
    bed.channel(domain, 5000);
    (0..5).for_each(|_| bed.feed(5000));
    assert!(bed.driver.node.replace_environment(domain, Box::new(Counts(behind.clone()))));
    assert_eq!(Arc::strong_count(&before), 1, "the one before is gone");
    run_all(&mut bed);
    assert_eq!([before, behind].map(|count| count.load(Ordering::Relaxed)), [0, 5]);
    let usage = bed.usage(domain).unwrap();
    assert_eq!((usage.packets, usage.delivered, bed.driver.node.drops().total()), (5, 5, 0));
}

#[test]
fn packets_that_wait_while_their_channel_moves_to_another_domain_are_the_one_befores() {
    let mut bed = Bed::new(Policy::Wfq);
    let came = [0, 0].map(|zero| Arc::new(AtomicU64::new(zero)));
    let domains = came.each_ref().map(|came| bed.domain(&role(), Box::new(Counts(came.clone()))));
    let channel = bed.channel(domains[0], 5000);
    (0..5).for_each(|_| bed.feed(5000));
    bed.os(domains[0], |os| os.inchan_destroy(channel)).unwrap();
    bed.channel(domains[1], 5000);
    (0..3).for_each(|_| bed.feed(5000));
    run_all(&mut bed);
    assert_eq!(came.map(|count| count.load(Ordering::Relaxed)), [0, 3]);
    let [before, behind] = domains.map(|domain| bed.usage(domain).unwrap());
    assert_eq!((before.packets, before.drops.of(Reason::ChannelGone), before.delivered), (5, 5, 0));
    assert_eq!((behind.packets, behind.drops.total(), behind.delivered), (3, 0, 3));
}

#[test]
fn capsules_that_wait_while_their_code_moves_to_another_domain_end_with_the_one_before() {
    let mut bench = Bench::new();
    bench.driver.node.set_scheduler(Policy::Wfq, 0);
    let code = bench.add(0, &module("", "", "i32.const 1"));
    let capsule = packet(&header(code), b"x");
    let domain = |bench: &Bench| bench.status().codes.first().and_then(|code| code.domain);
    bench.receive(0, &capsule);
    (0..5).for_each(|_| bench.receive(0, &capsule));
    let (before, waiting) = (domain(&bench).unwrap(), bench.driver.node.resources().waiting);
    // Somebody gives it other credentials: it is found anew, in the role that they give.
    let now = bench.now;
    bench.driver.turn(now, |node, turn| node.look_again(turn, &code, b"others"));
    assert_eq!(bench.drops().of(Reason::DomainEnded), waiting as u64);
    assert_eq!((waiting, domain(&bench), bench.driver.node.resources().waiting), (6, None, 0));
    (0..3).for_each(|_| bench.receive(0, &capsule));
    let behind = domain(&bench).unwrap();
    assert_ne!(before, behind);
    while let Some(ran) = bench.driver.turn(now, |node, turn| node.run_next(turn)) {
        assert_eq!(ran.domain(), DomainId(behind));
        bench.driver.node.ran(ran, 1000, now);
    }
    let usage = bench.driver.node.usage(DomainId(behind)).unwrap();
    assert_eq!((usage.packets, usage.drops.total() + usage.forwarded + usage.delivered), (3, 3));
}
