//! However a PLAN packet came to be (a neighbour sent it, an application injected it, it was sent to its own node, a
//! copy was due, a name was found): it waits for the environment's turn, and its principal's domain pays. Only the
//! service `work` moves the clock of work, so what is charged is known to the nanosecond.

use crate::bed::{Bed, datagram, datagram_with};
use crate::charges::WorkOnly;
use anode::apps::plan::{Script, packet};
use anode::code::extension::call_type::CallType;
use anode::code::extension::instance::CallFailure;
use anode::core::reason::Reason;
use anode::ee::plan::config::Principal;
use anode::ee::plan::{Config, LoadedService, Seat, Wish, authenticator};
use anode::frame::Frame;
use anode::node::Effect;
use anode::node::hosts::InProcess;
use anode::nodeos::interface::{DomainId, NodeOs, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::wire::ethernet::Mac;
use anode::wire::{Addr, anep};
use plan::name::Name;
use plan::packet::{Header, Packet};
use plan::value::{Callee, Chunk, Host, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a call of `work` or `way` costs.
const COST: u64 = 9_000;
const MS: u64 = 1_000_000;
const KEY: [u8; 32] = [3; 32];

/// The host that `way` always names, behind the second port.
const FAR: [u8; 4] = [10, 0, 1, 2];

const SOURCE: &str = "
svc work : void -> int
svc way : host -> host * dev
fun once() = work()
fun twice() = (OnRemote(|once|(), hd(thisHost()), getRB(), defaultRoute); work())
fun named() = (getHostByName(\"there\"); work())
fun thrice(to : host) = RetransOnRemote(|once|(), to, 4, way, 3, 20)
fun again() : int = (OnRemote(|again|(), hd(thisHost()), getRB(), defaultRoute); work())
fun one(sum : int, n : int) : int = (OnRemote(|once|(), hd(thisHost()), 1, defaultRoute); sum + n)
fun many(list : int list) = foldl(one, 0, list)
";

/// A service whose calls take so much work; it answers with these bytes.
struct Work {
    clock: Arc<AtomicU64>,
    answer: Vec<u8>,
}

impl LoadedService for Work {
    fn call(&mut self, _: u64, _: u64, _: u64, exchange: &mut Vec<u8>) -> (Result<(), CallFailure>, u64) {
        self.clock.fetch_add(COST, Relaxed);
        exchange.clone_from(&self.answer);
        (Ok(()), 8)
    }
}

struct Idle;

impl InProcess for Idle {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            os.packet_free(domain, frame);
        }
    }
}

/// A node that speaks PLAN, an application at it, and a domain with a channel.
struct Place {
    bed: Bed,
    clock: Arc<AtomicU64>,
    script: Script,
    seat: Seat,
    other: DomainId,
}

/// The UDP port of the channel.
const PORT: u16 = 5000;

impl Place {
    fn new(policy: Policy) -> Place {
        let mut bed = Bed::new(policy);
        let clock = Arc::new(AtomicU64::new(0));
        let node = &mut bed.driver.node;
        node.set_clock(Box::new(WorkOnly(clock.clone())));
        let guest = Principal { name: "guest".into(), key: KEY, role: "anyone".into(), services: Vec::new() };
        node.speak_plan(Config { principals: vec![guest], ..Config::default() });
        node.set_weights(100, 50);
        let way = [&Addr::v4(FAR).0[..], &1u64.to_le_bytes()].concat();
        for (name, kind, answer) in [("work", "void -> int", vec![0; 8]), ("way", "host -> host * dev", way)] {
            let work = Work { clock: clock.clone(), answer };
            node.load_service(name, CallType::parse(kind).unwrap(), Box::new(work)).unwrap();
        }
        let seat = bed.turn(|node, turn| node.attach_plan(turn, 0)).unwrap();
        let role = Role {
            grants: Grants { channels: 1, weight: 150, ..Grants::default() },
            ..Role::anyone(Default::default())
        };
        let other = bed.domain(&role, Box::new(Idle));
        bed.channel(other, PORT);
        Place { bed, clock, script: Script::new("turns", SOURCE).unwrap(), seat, other }
    }

    fn chunk(&self, function: &str, arguments: impl Into<Box<[Value]>>) -> Arc<Chunk> {
        self.script.chunk(function, arguments).unwrap()
    }

    /// Calls of services so far.
    fn calls(&self) -> u64 {
        self.clock.load(Relaxed) / COST
    }

    /// Frames come in, all at once.
    fn take(&mut self, mut frames: Vec<Frame>) {
        let count = frames.len();
        let began = self.bed.driver.node.worked(self.bed.now);
        self.bed.turn(|node, turn| node.receive_all(turn, &mut frames));
        let spent = self.bed.driver.node.worked(self.bed.now) - began;
        self.bed.driver.node.received(count, spent);
    }

    fn inject(&mut self, chunk: Arc<Chunk>, bound: u32) -> Result<(), Reason> {
        let (mut bytes, port) = (packet(chunk, bound).bytes().unwrap(), self.seat.port);
        self.bed.turn(|node, turn| node.inject_plan(turn, port, &mut bytes))
    }

    /// The next turn; whose it was.
    fn run(&mut self) -> Option<DomainId> {
        let before = self.bed.driver.node.worked(self.bed.now);
        let ran = self.bed.turn(|node, turn| node.run_turn(turn))?;
        let (domain, cost) = (ran.domain(), self.bed.driver.node.worked(self.bed.now) - before);
        self.bed.driver.node.ran(ran, cost, self.bed.now);
        Some(domain)
    }

    /// All that waits has its turn, and so has what it makes. Names are found.
    fn finish(&mut self) {
        loop {
            while self.run().is_some() {}
            self.bed.driver.timer_if_due(self.bed.now);
            if !self.find() && !self.bed.driver.node.has_work() && self.bed.driver.node.next_timer() > self.bed.now {
                return;
            }
        }
    }

    /// The names that programs have asked for are found; whether there was any.
    fn find(&mut self) -> bool {
        let mut found = false;
        let now = self.bed.now;
        self.bed.driver.answer_by(now, |driven, effect| {
            if let Effect::Plan(Wish::Resolve(name), _) = effect {
                driven.node.resolved(&mut driven.turn, &name, Some(Addr::v4(FAR)));
                found = true;
            }
        });
        found
    }

    /// CPU in the account of a domain with this title.
    fn account(&self, title: &str) -> u64 {
        let mut all = self.bed.driver.node.domain_tree().into_iter();
        all.find(|domain| domain.title == title).map_or(0, |domain| domain.usage.cpu_ns)
    }

    fn all_accounts(&self) -> u64 {
        self.bed.driver.node.domain_tree().iter().map(|domain| domain.usage.cpu_ns).sum()
    }
}

/// A neighbour's packet for the node.
fn frame(chunk: Arc<Chunk>) -> Frame {
    let (here, there) = (Host(Addr::v4([10, 0, 0, 1]).0), Host(Addr::v4([10, 0, 0, 2]).0));
    let header = Header { destination: here, ..Header::injected(there, 8) };
    let message = Packet { header, chunk }.bytes().unwrap();
    let mut bytes = vec![0; anep::HEADER];
    anep::emit_basic(&mut bytes, anep::type_id::PLAN, message.len()).unwrap();
    bytes.extend(message);
    datagram_with(anep::UDP_PORT, &bytes)
}

/// A chunk in the name of `guest`.
fn sealed(inside: &Arc<Chunk>, number: i64) -> Arc<Chunk> {
    let here = Host(Addr::v4([10, 0, 0, 1]).0);
    let code = authenticator(&KEY, number, here, inside).unwrap();
    let arguments =
        [Value::text(*b"guest"), Value::Int(number), Value::Blob(code.into()), Value::Chunk(inside.clone())];
    Arc::new(Chunk::new(Callee::Service(Name::new("authEval").unwrap()), arguments).unwrap())
}

/// Does something that has packets evaluated, as many calls of services as are given; in whose name.
type Deed = (&'static str, u64, &'static str, fn(&mut Place));

const DEEDS: [Deed; 9] = [
    ("one comes alone", 1, "plan anyone", |place| {
        let frame = frame(place.chunk("once", []));
        place.take(vec![frame]);
    }),
    ("several come", 20, "plan anyone", |place| {
        let frames = (0..20).map(|_| frame(place.chunk("once", []))).collect();
        place.take(frames);
    }),
    ("a principal's come", 3, "plan guest", |place| {
        let frames = (1..=3).map(|number| frame(sealed(&place.chunk("once", []), number))).collect();
        place.take(frames);
    }),
    ("one is injected", 1, "plan anyone", |place| place.inject(place.chunk("once", []), 8).unwrap()),
    ("one is injected while another waits", 1, "plan anyone", |place| {
        place.take(vec![datagram(PORT), datagram(PORT)]);
        place.inject(place.chunk("once", []), 8).unwrap();
    }),
    ("one of a principal's is injected", 1, "plan guest", |place| {
        let chunk = sealed(&place.chunk("once", []), 1);
        place.inject(chunk, 8).unwrap();
    }),
    ("one sends to its node", 2, "plan anyone", |place| place.inject(place.chunk("twice", []), 8).unwrap()),
    ("one waits for a name", 1, "plan anyone", |place| place.inject(place.chunk("named", []), 8).unwrap()),
    ("three copies leave, each by a service's way", 3, "plan anyone", |place| {
        let to = Value::Host(Host(Addr::v4(FAR).0));
        place.inject(place.chunk("thrice", [to]), 64).unwrap();
        place.finish();
        for _ in 0..3 {
            place.bed.now += 21 * MS;
            place.finish();
        }
    }),
];

#[test]
fn the_domain_of_a_packets_principal_pays_however_it_came() {
    for policy in [Policy::Fifo, Policy::Wfq] {
        for (name, calls, whose, deed) in DEEDS {
            let mut place = Place::new(policy);
            deed(&mut place);
            place.finish();
            assert_eq!(place.calls(), calls, "{name}, {policy:?}");
            assert_eq!(place.account(whose), calls * COST, "{name}, {policy:?}");
            assert_eq!(place.all_accounts(), calls * COST, "{name}, {policy:?}: nobody pays for the same again");
        }
    }
}

#[test]
fn packets_of_several_principals_in_one_batch_are_told_apart() {
    for policy in [Policy::Fifo, Policy::Wfq] {
        let mut place = Place::new(policy);
        let once = place.chunk("once", []);
        let mixed =
            (1..=20).map(|number| if number % 4 == 0 { frame(sealed(&once, number)) } else { frame(once.clone()) });
        let frames = mixed.chain([frame(place.chunk("twice", [])), datagram(PORT)]).collect();
        place.take(frames);
        place.finish();
        assert_eq!([place.account("plan anyone"), place.account("plan guest")], [17 * COST, 5 * COST], "{policy:?}");
        assert_eq!(place.all_accounts(), 22 * COST);
    }
}

#[test]
fn nothing_of_plan_runs_while_others_wait_before_it() {
    let mut place = Place::new(Policy::Wfq);
    // A name that somebody waits for, and copies that will be due.
    place.inject(place.chunk("named", []), 8).unwrap();
    let to = Value::Host(Host(Addr::v4(FAR).0));
    place.inject(place.chunk("thrice", [to]), 64).unwrap();
    while place.run().is_some() {}
    place.bed.say(1, FAR, Mac([2, 0, 0, 0, 1, 9]));
    place.bed.driver.out.frames.clear();
    let before = place.calls();
    place.bed.now += 21 * MS;
    place.take(vec![datagram(PORT), datagram(PORT)]);
    assert!(place.find(), "a name is known now");
    place.bed.driver.timer_if_due(place.bed.now);
    place.inject(place.chunk("twice", []), 8).unwrap();
    assert_eq!((place.calls(), place.bed.driver.out.frames.len()), (before, 0), "all of these wait");
    let order: Vec<_> = std::iter::from_fn(|| place.run()).collect();
    assert_eq!(order.iter().filter(|domain| **domain == place.other).count(), 2);
    assert_eq!(order.len(), 6, "a packet that knows the name, a copy, what was injected, and what that has sent");
    assert_eq!((place.calls() - before, place.bed.driver.out.frames.len()), (4, 1));
}

#[test]
fn programs_that_go_on_in_their_node_have_the_environments_share() {
    let mut place = Place::new(Policy::Wfq);
    place.take((0..400).map(|_| datagram(PORT)).collect());
    (0..4).for_each(|_| place.inject(place.chunk("again", []), 4000).unwrap());
    let mut turns = 0;
    for _ in 0..400 {
        let ran = place.bed.turn(|node, turn| node.run_next(turn)).unwrap();
        turns += u32::from(ran.domain() != place.other);
        place.bed.now += 5_000;
        place.bed.driver.node.ran(ran, 5_000, place.bed.now);
    }
    assert!((95..=105).contains(&turns), "a quarter: {turns}");
    assert_eq!(place.calls(), u64::from(turns), "a packet in each");
}

#[test]
fn too_many_packets_to_the_own_node_are_counted_and_their_bounds_too() {
    let mut place = Place::new(Policy::Wfq);
    place.take(vec![datagram(PORT), datagram(PORT)]);
    let list = Value::list((0..200).map(Value::Int)).unwrap();
    (0..3).for_each(|_| place.inject(place.chunk("many", [list.clone()]), 400).unwrap());
    place.finish();
    let dropped = place.bed.driver.node.drops().of(Reason::LocalFull);
    assert_eq!((dropped, place.calls()), (600 - 256, 256), "one payer has half of the places");
    let status = place.bed.driver.node.status().plan.unwrap();
    let account = status.account;
    assert_eq!(account.injected + account.received, account.sent + account.spent + account.unused + status.held);
}

#[test]
fn what_waits_for_an_environment_that_ends_ends_with_it() {
    let mut place = Place::new(Policy::Wfq);
    place.take(vec![datagram(PORT), datagram(PORT), frame(place.chunk("once", []))]);
    (0..3).for_each(|_| place.inject(place.chunk("once", []), 8).unwrap());
    let plan = place.bed.driver.node.domain_tree().into_iter().find(|domain| domain.title == "plan").unwrap().id;
    place.bed.turn(|node, turn| node.end_domain(turn, DomainId(plan), false));
    place.finish();
    assert_eq!(place.calls(), 0);
    assert_eq!(place.inject(place.chunk("once", []), 8), Err(Reason::DomainEnded));
    place.take(vec![frame(place.chunk("once", []))]);
    assert_eq!((place.bed.driver.node.drops().of(Reason::DomainEnded), place.bed.driver.node.has_work()), (6, false));
    assert_eq!(place.bed.driver.node.status().plan.unwrap().held, 0);
}
