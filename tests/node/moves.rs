//! Domains at workers of one node, and moves between them: which worker takes what when decides a seed.
//!
//! `SEED` decides, and `ANODE_ROUNDS` says how many steps, 20,000 unless it is set.

use anode::core::ledger::{Balance, Unaccounted};
use anode::core::reason::Reason;
use anode::driver::Driver;
use anode::frame::{Frame, Link, PeerId, PortId, WorkerId};
use anode::node::handing::Handed;
use anode::node::hosts::InProcess;
use anode::node::moving::Moving;
use anode::node::turning::{HELD_EACH, PATIENCE};
use anode::node::workers::Joint;
use anode::node::{Effect, Node, NodeConfig, Sizes, Turn};
use anode::nodeos::interface::{
    ChanSpec, Change, DomainId, DomainSpec, Error, InChanId, MemPoolSpec, NetSpec, NodeOs, Upcall,
};
use anode::schedule::Policy;
use anode::topology::{Ceiling, Port, Routes};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::wire::anep;
use anode::wire::ethernet::{self, Mac};
use anode::wire::{Addr, Prefix};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

const MILLISECOND: u64 = 1_000_000;
/// The Ethernet type of the first channel.
pub const KIND: u16 = 0x9000;
/// Parcels that a ring holds.
const RING: usize = 256;

/// What goes between two workers.
enum Parcel {
    Packet(Handed),
    Domain(Box<Moving>),
}

/// Flow and number of each packet, in their order.
pub type Log = Arc<Mutex<Vec<(u8, u32)>>>;

/// Writes down what it gets.
struct Recorder(Log);

impl InProcess for Recorder {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        match upcall {
            Upcall::Packet { frame, .. } => {
                let bytes = frame.bytes();
                let at = bytes.len() - 8;
                let number = u32::from_be_bytes(*bytes[at + 4..].first_chunk().unwrap());
                self.0.lock().unwrap().push((bytes[at], number));
                os.packet_free(domain, frame);
            }
            Upcall::Event { argument, .. } => self.0.lock().unwrap().push((255, argument as u32)),
            _ => {}
        }
    }
}

/// The workers of a node, and the rings between them.
pub struct Crew {
    pub all: Vec<Driver>,
    joint: Joint,
    policy: Policy,
    rings: HashMap<(WorkerId, WorkerId), VecDeque<Parcel>>,
    pub now: u64,
    pub filters: i64,
}

impl Crew {
    pub fn new(workers: WorkerId, policy: Policy) -> Crew {
        let joint = Joint::new(workers, 1024);
        let driver = |id: WorkerId| Driver::new(Crew::node(id, policy, &joint));
        let all = (0..workers).map(driver).collect();
        Crew { all, joint, policy, rings: HashMap::new(), now: 1, filters: 0 }
    }

    /// A worker's node at rest.
    pub fn node(id: WorkerId, policy: Policy, joint: &Joint) -> Node {
        let port = |number: u8, link| Port {
            name: format!("port{number}"),
            link,
            addresses: vec![(Addr::v4([10, 0, number, 1]), Prefix::new(Addr::v4([10, 0, number, 0]), 120))],
            mtu: 1500,
            bits_per_second: 0,
            ceiling: Ceiling::default(),
        };
        let ethernet = |number| Link::Ethernet { mac: Mac([2, 0, 0, 0, 0, number]), answers: false };
        let mut node = Node::new(NodeConfig {
            name: "crew".into(),
            ports: vec![port(0, ethernet(0)), port(1, ethernet(1)), port(2, Link::Overlay)],
            neighbours: vec![],
            routes: Arc::new(Routes::new([])),
            roles: Arc::default(),
            sizes: Sizes { state_entries: if id == 0 { 1024 } else { 0 }, ..Sizes::default() },
            seed: 1 + u64::from(id),
            kernel: false,
        });
        node.set_scheduler(policy, 0);
        node.set_worker(id, joint.clone());
        node
    }

    /// A further worker panics when a frame has come, which it has not looked at: another node goes on in its place.
    pub fn panic(&mut self, worker: WorkerId) {
        let fresh = Crew::node(worker, self.policy, &self.joint);
        let before = std::mem::replace(&mut self.all[usize::from(worker)].node, fresh);
        self.turn(worker, |node, turn| node.go_on_from(turn, before, 1));
    }

    pub fn turn<R>(&mut self, worker: WorkerId, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> R {
        let (now, driver) = (self.now, &mut self.all[usize::from(worker)]);
        let result = driver.turn(now, work);
        driver.answer_by(now, |_, effect| {
            if let Effect::Channel { exists, .. } = effect {
                self.filters += if exists { 1 } else { -1 };
            }
        });
        for handed in std::mem::take(&mut driver.out.handed) {
            let ring = self.rings.entry((worker, handed.to)).or_default();
            assert_ne!(handed.to, worker);
            if ring.len() < RING {
                ring.push_back(Parcel::Packet(handed));
            } else {
                driver.turn(now, |node, turn| node.not_handed(turn, handed));
            }
        }
        result
    }

    pub fn os<R>(&mut self, worker: WorkerId, domain: DomainId, call: impl FnOnce(&mut dyn NodeOs) -> R) -> R {
        self.turn(worker, |node, turn| node.with_os(turn, domain, |os| call(os)))
    }

    pub fn environment(&mut self, worker: WorkerId, role: &Role) -> (DomainId, Log) {
        let log = Log::default();
        let environment = Box::new(Recorder(log.clone()));
        (self.turn(worker, |node, _| node.attach("moves", role, environment)).unwrap().1, log)
    }

    pub fn channel(&mut self, worker: WorkerId, domain: DomainId, kind: u16) -> Result<InChanId, Error> {
        self.os(worker, domain, |os| os.inchan_create(domain, &link("if0", kind)))
    }

    pub fn receive(&mut self, worker: WorkerId, frame: Frame) {
        self.turn(worker, |node, turn| node.receive_all(turn, &mut vec![frame]));
    }

    /// Takes one parcel out of a ring.
    pub fn take(&mut self, from: WorkerId, to: WorkerId) -> bool {
        match self.rings.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
            Some(Parcel::Packet(handed)) => self.turn(to, |node, turn| node.take_handed(turn, handed)),
            Some(Parcel::Domain(moving)) => self.turn(to, |node, turn| node.take_in_domain(turn, moving)),
            None => return false,
        }
        true
    }

    /// One packet that waits has its turn.
    pub fn run(&mut self, worker: WorkerId) -> bool {
        self.turn(worker, |node, turn| {
            let ran = node.run_next(turn);
            ran.map(|ran| node.ran(ran, 100, turn.now)).is_some()
        })
    }

    pub fn send_off(&mut self, from: WorkerId, domain: DomainId, to: WorkerId) -> Result<(), String> {
        let moving = self.turn(from, |node, turn| node.send_off(turn, domain, to))?;
        self.rings.entry((from, to)).or_default().push_back(Parcel::Domain(moving));
        Ok(())
    }

    /// All that is under way has come to its end.
    pub fn settle(&mut self) {
        loop {
            let pairs: Vec<_> = self.rings.keys().copied().collect();
            let taken = pairs.into_iter().filter(|(from, to)| self.take(*from, *to)).count();
            let count = self.all.len() as WorkerId;
            let ran = (0..count).filter(|worker| self.run(*worker)).count();
            let turning = (0..count).filter(|worker| self.turn(*worker, |node, turn| node.is_turning(turn))).count();
            if taken + ran + turning == 0 {
                return;
            }
        }
    }

    pub fn move_to(&mut self, from: WorkerId, domain: DomainId, to: WorkerId) {
        self.send_off(from, domain, to).unwrap();
        self.settle();
    }

    /// What of all workers together.
    pub fn balance(&self) -> Balance {
        let each = self.all.iter().map(|driver| driver.node.balance_within(&driver.out.frames));
        each.reduce(|sum, more| sum.with(&more)).unwrap()
    }

    pub fn check(&self) {
        for driver in &self.all {
            assert_eq!(driver.node.unaccounted(&driver.out.frames), Unaccounted::default());
        }
    }

    pub fn drops(&self, reason: Reason) -> u64 {
        self.all.iter().map(|driver| driver.node.drops().of(reason)).sum()
    }

    pub fn timer(&mut self, later: u64) {
        self.now += later;
        (0..self.all.len() as WorkerId).for_each(|worker| self.turn(worker, |node, turn| node.timer(turn)));
    }
}

pub fn role() -> Role {
    let grants = Grants {
        channels: 64,
        bandwidth: u64::MAX,
        events: 64,
        domains: 64,
        memory_bytes: 1 << 20,
        ..Grants::default()
    };
    let limits =
        Limits { packets_per_second: u64::MAX, steps_per_second: u64::MAX, state_entries: 9, ..Limits::default() };
    Role { grants, ..Role::anyone(limits) }
}

pub fn link(port: &str, kind: u16) -> ChanSpec {
    let net = NetSpec { buffers: 4096, ..NetSpec::default() };
    ChanSpec { protocol: port.into(), address: format!("type {kind}"), net, ..ChanSpec::default() }
}

/// A packet of a flow.
pub fn frame(kind: u16, flow: u8, number: u32) -> Frame {
    let mut bytes = vec![0; 60];
    let header = ethernet::Repr { destination: Mac([2; 6]), source: Mac([4; 6]), tag: None, ethertype: kind };
    header.emit(&mut bytes).unwrap();
    bytes.extend([flow, 0, 0, 0]);
    bytes.extend(number.to_be_bytes());
    let mut frame = Frame::from_bytes(&bytes);
    (frame.port, frame.peer) = (PortId(0), PeerId::NONE);
    frame
}

/// The packets of each flow came in their order, and none twice.
pub fn in_order(log: &Log) -> HashMap<u8, u32> {
    let mut last: HashMap<u8, u32> = HashMap::new();
    for (flow, number) in log.lock().unwrap().iter() {
        let before = last.insert(*flow, *number);
        assert!(before.is_none_or(|before| before < *number), "flow {flow}: {number} behind {before:?}");
    }
    last
}

#[test]
fn packets_reach_the_worker_of_their_domain_from_any_worker() {
    for policy in [Policy::Fifo, Policy::Wfq] {
        let mut crew = Crew::new(3, policy);
        let (domain, log) = crew.environment(2, &role());
        crew.channel(2, domain, KIND).unwrap();
        for number in 0..30 {
            crew.receive((number % 3) as WorkerId, frame(KIND, (number % 3) as u8, number));
        }
        crew.settle();
        assert_eq!(in_order(&log).len(), 3);
        assert_eq!(log.lock().unwrap().len(), 30);
        let received = |at: usize| crew.all[at].node.balance().received;
        assert_eq!([0, 1, 2].map(received), [0, 0, 30], "counted where they are taken in");
        crew.check();
        assert_eq!(crew.balance().handed, 0);
    }
}

#[test]
fn names_and_all_that_is_owned_survive_a_move() {
    let mut crew = Crew::new(2, Policy::Wfq);
    let (top, log) = crew.environment(0, &role());
    let (other, _) = crew.environment(1, &role());
    let spec = DomainSpec { title: "below".into(), ..DomainSpec::default() };
    let (pool, below, event, late) = crew.os(0, top, |os| {
        let pool = os.mempool_create(&MemPoolSpec { parent: None, limit_bytes: 5000, deadline_ms: 1000 }).unwrap();
        let below = os.domain_create(top, &DomainSpec { pool: Some(pool), ..spec.clone() }).unwrap();
        os.mempool_charge(pool, 777).unwrap();
        let event = os.event_schedule(below, 20, 1).unwrap();
        os.state_change(below, 5, Change::Add(7), 60_000).unwrap();
        (pool, below, event, os.event_schedule(top, 30, 2).unwrap())
    });
    let (incoming, outgoing) = crew.os(0, top, |os| {
        let ends = (
            os.inchan_create(below, &link("if0", KIND)).unwrap(),
            os.outchan_create(below, &link("if1", KIND)).unwrap(),
        );
        os.cutchan_create(ends.0, ends.1).map(|_| ends).unwrap()
    });
    crew.receive(0, frame(KIND, 1, 1));
    crew.settle();
    let shown = |crew: &mut Crew, worker| {
        let tree = crew.turn(worker, |node, _| node.domain_tree());
        let of = |id: DomainId| tree.iter().find(|domain| domain.id == id.0).cloned();
        [top, below].map(|id| of(id).map(|it| (it.title, it.memory_bytes, it.memory, it.channels, it.usage.packets)))
    };
    let before = shown(&mut crew, 0);
    assert!(before.iter().all(Option::is_some));
    crew.move_to(0, top, 1);
    assert_eq!((shown(&mut crew, 1), shown(&mut crew, 0)), (before, [None, None]));
    // Every name means what it meant, and nothing at the worker before.
    let use_all = |os: &mut dyn NodeOs| {
        (os.state_get(below, 5).map(|value| value[0]), os.event_cancel(event), os.mempool_charge(pool, -777))
    };
    assert_eq!(crew.os(0, top, use_all), (Err(Error::Stale), Err(Error::Stale), Err(Error::Stale)));
    assert_eq!(crew.os(1, top, use_all), (Ok(7), Ok(()), Ok(())));
    assert_eq!(crew.os(1, top, |os| os.state_change(below, 5, Change::Add(1), 60_000)), Ok(8));
    assert_eq!(crew.os(1, top, |os| os.event_cancel(event)), Err(Error::Stale));
    crew.receive(0, frame(KIND, 1, 2));
    crew.settle();
    assert_eq!((crew.all[0].out.frames.len(), crew.all[1].out.frames.len()), (1, 1), "cut through where it was and is");
    crew.timer(31 * MILLISECOND);
    assert_eq!(log.lock().unwrap().last(), Some(&(255, 2)), "{late:?} comes");
    // What is made now has names that nobody had.
    let (third, _) = crew.environment(0, &role());
    let mut names = vec![top, below, other, third];
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4);
    assert!(crew.channel(1, top, KIND + 1).unwrap() != incoming);
    assert_eq!(crew.channel(0, third, KIND).err(), Some(Error::Exists), "another worker has it");
    // And home again, where it ends.
    crew.move_to(1, top, 0);
    assert_eq!(crew.os(0, top, |os| os.outchan_destroy(outgoing)), Ok(()));
    crew.turn(0, |node, turn| node.end_domain(turn, top, true));
    crew.channel(0, third, KIND).unwrap();
    crew.receive(1, frame(KIND + 1, 1, 9));
    crew.settle();
    assert_eq!(crew.filters, 1, "that of the third");
    crew.check();
}

/// An environment at a further worker ends with a panic there: what waited for it is counted, and others have its packets then.
#[test]
fn an_environment_of_a_worker_that_panics_ends_there_and_others_have_its_packets() {
    for policy in [Policy::Fifo, Policy::Wfq] {
        let mut crew = Crew::new(3, policy);
        let (domain, log) = crew.environment(1, &role());
        crew.channel(1, domain, KIND).unwrap();
        let (other, other_log) = crew.environment(2, &role());
        crew.channel(2, other, KIND + 1).unwrap();
        for number in 0..9 {
            crew.receive((number % 3) as WorkerId, frame(KIND, (number % 3) as u8, number));
        }
        assert!(crew.take(0, 1) && crew.take(2, 1), "two of six are with it, four in rings");
        let ran = log.lock().unwrap().len();
        crew.panic(1);
        crew.settle();
        crew.check();
        assert_eq!(log.lock().unwrap().len(), ran, "it is gone");
        let lost = crew.drops(Reason::WorkerPanic);
        assert_eq!(lost, if policy == Policy::Fifo { 1 } else { 6 }, "{policy:?}: those it had, and the one in hand");
        assert_eq!(crew.filters, 1, "that of the other");
        assert_eq!(crew.balance().handed, 0);
        // Its rule is nobody's: the next one who asks has it, at whichever worker.
        let (next, next_log) = crew.environment(0, &role());
        crew.channel(0, next, KIND).unwrap();
        for number in 0..6 {
            crew.receive((number % 3) as WorkerId, frame(KIND, 1, number));
            crew.receive((number % 3) as WorkerId, frame(KIND + 1, 1, number));
        }
        crew.settle();
        assert_eq!((next_log.lock().unwrap().len(), other_log.lock().unwrap().len()), (6, 6), "{policy:?}");
        crew.check();
    }
}

/// A domain moves to a worker that panics before it has looked at anything of it: it ends there, and its rules with it.
#[test]
fn a_domain_that_came_to_a_worker_just_before_a_panic_leaves_no_rule() {
    let mut crew = Crew::new(3, Policy::Wfq);
    let (domain, _) = crew.environment(0, &role());
    crew.channel(0, domain, KIND).unwrap();
    crew.send_off(0, domain, 1).unwrap();
    crew.receive(2, frame(KIND, 1, 1));
    assert!(crew.take(0, 1), "the domain");
    crew.panic(1);
    crew.settle();
    crew.receive(2, frame(KIND, 1, 2));
    crew.settle();
    let (next, log) = crew.environment(2, &role());
    crew.channel(2, next, KIND).unwrap();
    crew.receive(0, frame(KIND, 1, 3));
    crew.settle();
    assert_eq!(log.lock().unwrap().as_slice(), [(1, 3)]);
    crew.check();
    assert_eq!(crew.balance().handed, 0);
}

/// In any order in which rings are emptied and packets run.
#[test]
fn domains_that_move_while_packets_come_lose_none_and_keep_the_order_of_flows() {
    let number_of = |name: &str, or: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or);
    let (seed, rounds) = (number_of("SEED", 1), number_of("ANODE_ROUNDS", 20_000));
    println!("SEED={seed} ANODE_ROUNDS={rounds}");
    for (policy, workers) in [(Policy::Fifo, 3u16), (Policy::Wfq, 2), (Policy::Wfq, 4)] {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut crew = Crew::new(workers, policy);
        let mut roll = move |below: u32| rng.next_u32() % below;
        let (domains, logs): (Vec<_>, Vec<_>) = (0..2).map(|_| crew.environment(0, &role())).unzip();
        domains.iter().zip(0..).for_each(|(domain, at)| assert!(crew.channel(0, *domain, KIND + at).is_ok()));
        let (mut at, mut sent, mut moves) = ([0u16; 2], [[0u32; 8]; 2], 0);
        for _ in 0..rounds {
            crew.now += 1000;
            let (one, other) = (roll(workers.into()) as WorkerId, roll(workers.into()) as WorkerId);
            let which = roll(2) as usize;
            match roll(16) {
                // A flow comes to one worker.
                0..5 => {
                    let flow = roll(8) as u8;
                    let number = &mut sent[which][usize::from(flow)];
                    *number += 1;
                    let frame = frame(KIND + which as u16, flow, *number);
                    crew.receive(WorkerId::from(flow) % workers, frame);
                }
                5..11 => {
                    let _ = (0..=roll(16)).take_while(|_| crew.take(one, other)).count();
                }
                11..14 => {
                    let _ = (0..=roll(16)).take_while(|_| crew.run(one)).count();
                }
                14 => crew.timer(0),
                _ => {
                    let moves_already = crew.rings.values().flatten().any(|parcel| matches!(parcel, Parcel::Domain(_)))
                        || (0..workers).any(|worker| crew.turn(worker, |node, turn| node.is_turning(turn)));
                    if !moves_already && at[which] != other {
                        crew.send_off(at[which], domains[which], other).unwrap();
                        at[which] = other;
                        moves += 1;
                    }
                }
            }
            crew.check();
        }
        crew.settle();
        assert!(moves > rounds / 1000, "{moves} moves");
        for (log, sent) in logs.iter().zip(&sent) {
            in_order(log);
            let came = log.lock().unwrap().len();
            assert_eq!(came as u32, sent.iter().sum::<u32>(), "none is lost: {:?}", crew.balance());
        }
        crew.check();
        assert_eq!((crew.balance().handed, crew.balance().dropped), (0, 0));
    }
}

#[test]
fn what_finds_no_room_between_workers_is_counted_and_others_go_on() {
    let mut crew = Crew::new(2, Policy::Wfq);
    let (domain, log) = crew.environment(1, &role());
    crew.channel(1, domain, KIND).unwrap();
    let (own, own_log) = crew.environment(0, &role());
    crew.channel(0, own, KIND + 1).unwrap();
    let flood = 2 * RING as u32;
    for number in 0..flood {
        crew.receive(0, frame(KIND, 1, number));
    }
    crew.receive(0, frame(KIND + 1, 2, 0));
    crew.settle();
    assert_eq!((log.lock().unwrap().len(), own_log.lock().unwrap().len()), (RING, 1));
    assert_eq!(crew.drops(Reason::HandOver), u64::from(flood) - RING as u64);
    crew.check();
    // While a domain turns, packets that are held have a bound of their own.
    crew.send_off(1, domain, 0).unwrap();
    assert!(crew.take(1, 0), "the domain");
    let before = crew.drops(Reason::HandOver);
    let more = HELD_EACH as u32 + 50;
    for number in flood..flood + more {
        crew.receive(0, frame(KIND, 1, number));
    }
    assert_eq!(crew.drops(Reason::HandOver) - before, 50);
    crew.check();
    crew.settle();
    assert_eq!(log.lock().unwrap().len(), RING + HELD_EACH);
    in_order(&log);
    crew.check();
}

#[test]
fn a_mark_that_was_lost_is_not_waited_for_for_ever() {
    let mut crew = Crew::new(2, Policy::Fifo);
    let (domain, log) = crew.environment(0, &role());
    crew.channel(0, domain, KIND).unwrap();
    crew.send_off(0, domain, 1).unwrap();
    assert!(crew.take(0, 1), "the domain");
    crew.receive(1, frame(KIND, 1, 1));
    // A worker that begins anew has lost what was in its rings.
    crew.rings.clear();
    assert_eq!(log.lock().unwrap().len(), 0);
    crew.timer(PATIENCE / 2);
    assert_eq!(log.lock().unwrap().len(), 0);
    crew.timer(PATIENCE);
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[test]
fn packets_of_types_of_anep_go_to_the_worker_of_their_domain_through_the_first() {
    let mut crew = Crew::new(2, Policy::Wfq);
    let (domain, log) = crew.environment(1, &role());
    let spec = ChanSpec { protocol: "*/anep".into(), ..link("", 0x7777) };
    crew.os(1, domain, |os| os.inchan_create(domain, &spec)).unwrap();
    let packet = |number: u32| {
        let mut bytes = vec![0; anep::HEADER];
        bytes.extend([1, 0, 0, 0]);
        bytes.extend(number.to_be_bytes());
        anep::emit_basic(&mut bytes, 0x7777, 8).unwrap();
        let mut frame = Frame::from_bytes(&bytes);
        (frame.port, frame.peer) = (PortId(2), PeerId(0));
        frame
    };
    let mut number = 0;
    for (from, to) in [(1, 0), (0, 1)] {
        for worker in [0, 1, 1, 0] {
            number += 1;
            crew.receive(worker, packet(number));
            crew.settle();
        }
        // Some are under way when it moves.
        number += 1;
        crew.receive(0, packet(number));
        crew.check();
        crew.move_to(from, domain, to);
    }
    assert_eq!(in_order(&log)[&1], 10);
    assert_eq!(log.lock().unwrap().len(), 10);
    crew.check();
    assert_eq!((crew.balance().handed, crew.balance().dropped), (0, 0));
}

#[test]
fn what_cannot_move_stays_and_says_why() {
    let mut crew = Crew::new(2, Policy::Wfq);
    crew.turn(0, |node, _| node.speak_plan(anode::ee::plan::Config::default()));
    let (top, log) = crew.environment(0, &role());
    let spec = DomainSpec { title: "flow".into(), ..DomainSpec::default() };
    let below = crew.os(0, top, |os| os.domain_create(top, &spec)).unwrap();
    crew.channel(0, below, KIND).unwrap();
    let tree = crew.turn(0, |node, _| node.domain_tree());
    let titled = |title: &str| DomainId(tree.iter().find(|domain| domain.title == title).unwrap().id);
    for (domain, why) in [
        (titled("node"), "at every worker"),
        (titled("management"), "at every worker"),
        (titled("capsules"), "at every worker"),
        (titled("plan"), "stays at worker 0"),
        (below, "moves as a whole"),
        (DomainId(9_999_999), "there is no domain"),
    ] {
        let refused = crew.send_off(0, domain, 1).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
    crew.receive(0, frame(KIND, 1, 1));
    crew.settle();
    assert_eq!(log.lock().unwrap().len(), 1, "nothing has changed");
    crew.check();
}

#[test]
fn a_domain_may_be_on_its_way_when_channels_of_others_begin_and_end() {
    let mut crew = Crew::new(3, Policy::Wfq);
    let (domain, log) = crew.environment(0, &role());
    let (other, other_log) = crew.environment(2, &role());
    crew.channel(0, domain, KIND).unwrap();
    crew.send_off(0, domain, 1).unwrap();
    assert_eq!(crew.channel(2, other, KIND).err(), Some(Error::Exists), "it has its rule on its way too");
    let mine = crew.channel(2, other, KIND + 1).unwrap();
    crew.receive(1, frame(KIND, 1, 1));
    crew.receive(0, frame(KIND, 2, 1));
    crew.receive(0, frame(KIND + 1, 3, 1));
    crew.settle();
    assert_eq!((log.lock().unwrap().len(), other_log.lock().unwrap().len()), (2, 1));
    crew.os(2, other, |os| os.inchan_destroy(mine)).unwrap();
    crew.receive(0, frame(KIND + 1, 3, 2));
    crew.settle();
    assert_eq!(other_log.lock().unwrap().len(), 1);
    // It ends where it is, and its rule is free for all.
    crew.turn(1, |node, turn| node.end_domain(turn, domain, true));
    crew.channel(2, other, KIND).unwrap();
    crew.check();
    assert_eq!(crew.filters, 1);
}
