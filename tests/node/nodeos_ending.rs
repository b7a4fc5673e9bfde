//! The end of a domain leaves nothing: an inventory before its creation and after its end is the same, while packets
//! come for it and for others.
//!
//! `ANODE_ROUNDS` says how many domains, 300 unless it is set; `SEED` decides what each of them has.

use anode::driver::Driver;
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::hosts::InProcess;
use anode::node::os::Resources;
use anode::node::{Effect, Node, NodeConfig, Sizes, Turn};
use anode::nodeos::interface::{ChanSpec, DomainId, DomainSpec, Error, MemPoolSpec, NodeOs, OutChanId, PoolId, Upcall};
use anode::schedule::Policy;
use anode::topology::{Ceiling, Port, Routes};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::wire::anep::type_id;
use anode::wire::ethernet::{self, Mac};
use anode::wire::{Addr, Prefix};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MILLISECOND: u64 = 1_000_000;
/// The Ethernet type of the first channel; each has its own.
const TYPES: u16 = 0x9000;
/// What lives all the time, beside those that end.
const WITNESS: u16 = 0x8fff;

/// Sends what it gets by its channel, keeps some packets, and forgets that it has them.
struct Keeper {
    out: Option<OutChanId>,
    kept: Vec<Frame>,
}

impl InProcess for Keeper {
    fn upcall(&mut self, os: &mut dyn NodeOs, _: DomainId, upcall: Upcall) {
        let Upcall::Packet { frame, .. } = upcall else { return };
        match self.out {
            Some(out) if self.kept.len() >= 3 => drop(os.outchan_send(out, None, frame)),
            _ => self.kept.push(frame),
        }
    }
}

struct Ending {
    driver: Driver,
    now: u64,
    filters: i64,
}

impl Ending {
    fn new() -> Ending {
        let port = |number: u8| Port {
            name: format!("eth{number}"),
            link: Link::Ethernet { mac: Mac([2, 0, 0, 0, 0, number]), answers: false },
            addresses: vec![(Addr::v4([10, 0, number, 1]), Prefix::new(Addr::v4([10, 0, number, 0]), 120))],
            mtu: 1500,
            bits_per_second: 0,
            ceiling: Ceiling::default(),
        };
        let config = NodeConfig {
            name: "ending".into(),
            ports: vec![port(0), port(1)],
            neighbours: vec![],
            routes: Arc::new(Routes::new([])),
            roles: Arc::default(),
            sizes: Sizes::default(),
            seed: 1,
            kernel: false,
        };
        Ending { driver: Driver::new(Node::new(config)), now: 1, filters: 0 }
    }

    fn turn<R>(&mut self, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> R {
        let result = self.driver.turn(self.now, work);
        self.driver.answer_by(self.now, |_, effect| {
            if let Effect::Channel { exists, .. } = effect {
                self.filters += if exists { 1 } else { -1 };
            }
        });
        result
    }

    fn receive(&mut self, kind: u16) {
        let mut bytes = vec![7; 60];
        let header = ethernet::Repr { destination: Mac([2; 6]), source: Mac([4; 6]), tag: None, ethertype: kind };
        header.emit(&mut bytes).unwrap();
        let mut frame = Frame::from_bytes(&bytes);
        (frame.port, frame.peer) = (PortId(0), PeerId::NONE);
        self.turn(|node, turn| node.receive(turn, frame));
    }

    /// Everything that can run has run.
    fn run_all(&mut self) {
        while self.turn(|node, turn| {
            let ran = node.run_next(turn);
            ran.map(|ran| node.ran(ran, 100, turn.now)).is_some()
        }) {}
    }

    fn sent(&mut self) -> usize {
        self.driver.out.frames.drain(..).count()
    }

    fn resources(&self) -> (Resources, i64) {
        (self.driver.node.resources(), self.filters)
    }
}

fn role() -> Role {
    let grants = Grants { channels: 64, bandwidth: u64::MAX, events: 64, domains: 64, ..Grants::default() };
    Role { grants, ..Role::anyone(Default::default()) }
}

fn link(port: &str, kind: Option<u16>) -> ChanSpec {
    let address = kind.map_or(String::new(), |kind| format!("type {kind}"));
    ChanSpec { protocol: port.into(), address, ..ChanSpec::default() }
}

/// A domain that has some of everything; gives the types of its channels.
fn furnish(ending: &mut Ending, rng: &mut Xoshiro256PlusPlus) -> (DomainId, Vec<u16>) {
    let (_, domain) = ending
        .turn(|node, _| node.attach("one that ends", &role(), Box::new(Keeper { out: None, kept: vec![] })))
        .unwrap();
    let (children, channels, events) = (rng.next_u32() % 4, 1 + rng.next_u32() % 5, rng.next_u32() % 9);
    let cut = rng.next_u32() % 3;
    let kinds: Vec<u16> = (0..channels as u16).map(|at| TYPES + at).collect();
    let mine = kinds.clone();
    let out = ending
        .turn(move |node, turn| -> Result<OutChanId, Error> {
            node.with_os(turn, domain, |os| {
                let mut owners = vec![domain];
                let pool = os.mempool_create(&MemPoolSpec { parent: None, limit_bytes: 1 << 18, deadline_ms: 1000 })?;
                for at in 0..children {
                    let spec = DomainSpec { title: "below".into(), pool: Some(pool), ..DomainSpec::default() };
                    let parent = owners[at as usize / 2];
                    owners.push(os.domain_create(parent, &spec)?);
                }
                let mut last = None;
                for (at, kind) in mine.iter().enumerate() {
                    let owner = owners[at % owners.len()];
                    let from = os.inchan_create(owner, &link("if0", Some(*kind)))?;
                    let to = os.outchan_create(owner, &link("if1", None))?;
                    if at as u32 % 3 == cut {
                        os.cutchan_create(from, to)?;
                    }
                    last = Some(to);
                }
                for at in 0..events {
                    os.event_schedule(owners[at as usize % owners.len()], 1 + u64::from(at) * 50, 7)?;
                }
                os.mempool_charge(pool, 1000)?;
                Ok(last.unwrap())
            })
        })
        .unwrap();
    ending.turn(|node, _| node.replace_environment(domain, Box::new(Keeper { out: Some(out), kept: vec![] })));
    (domain, kinds)
}

fn end_many(policy: Policy) {
    let rounds: usize = std::env::var("ANODE_ROUNDS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("SEED={seed} ANODE_ROUNDS={rounds} under {policy:?}");
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut ending = Ending::new();
    ending.turn(|node, turn| node.set_scheduler(policy, turn.now));
    let (_, witness) =
        ending.turn(|node, _| node.attach("witness", &role(), Box::new(Keeper { out: None, kept: vec![] }))).unwrap();
    ending
        .turn(|node, turn| -> Result<(), Error> {
            node.with_os(turn, witness, |os| {
                let (from, to) = (
                    os.inchan_create(witness, &link("if0", Some(WITNESS)))?,
                    os.outchan_create(witness, &link("if1", None))?,
                );
                os.cutchan_create(from, to).map(drop)
            })
        })
        .unwrap();
    let before = ending.resources();
    for round in 0..rounds {
        let (domain, kinds) = furnish(&mut ending, &mut rng);
        assert!(ending.resources() != before);
        for _ in 0..20 {
            ending.receive(kinds[rng.next_u32() as usize % kinds.len()]);
            ending.now += MILLISECOND;
            ending.turn(|node, turn| node.timer(turn));
        }
        if round % 2 == 0 {
            ending.run_all();
        }
        ending.sent();
        ending
            .turn(|node, turn| node.with_os(turn, witness, |os| os.domain_terminate(domain)))
            .expect_err("it is not below the witness");
        ending.turn(|node, turn| node.with_os(turn, domain, |os| os.domain_terminate(domain))).unwrap();
        assert_eq!(ending.resources(), before, "round {round}: everything that was the domain's is gone");
        // Nothing reaches it any more, and others lose nothing.
        for kind in kinds {
            ending.receive(kind);
        }
        ending.run_all();
        assert_eq!(ending.sent(), 0, "round {round}");
        assert_eq!(
            ending.turn(|node, turn| node.with_os(turn, domain, |os| os.domain_terminate(domain))),
            Err(Error::Stale)
        );
        ending.receive(WITNESS);
        ending.run_all();
        assert_eq!(ending.sent(), 1, "round {round}: the witness goes on");
    }
}

#[test]
fn domains_that_end_leave_nothing() {
    end_many(Policy::Fifo);
}

#[test]
fn domains_that_end_while_packets_wait_for_the_cpu_leave_nothing() {
    end_many(Policy::Wfq);
}

#[test]
fn what_the_nodes_own_environments_speak_is_nobodys_channel() {
    let mut ending = Ending::new();
    let keeper = Box::new(Keeper { out: None, kept: vec![] });
    let (_, domain) = ending.turn(|node, _| node.attach("one", &role(), keeper)).unwrap();
    let mut create = |kind: u16| {
        let spec = link("if0/anep", Some(kind));
        ending.turn(move |node, turn| {
            node.with_os(turn, domain, |os| {
                (os.inchan_create(domain, &spec).err(), os.outchan_create(domain, &spec).err())
            })
        })
    };
    for own in [type_id::CAPSULE, type_id::FETCH, type_id::PLAN] {
        assert_eq!(create(own), (Some(Error::Exists), Some(Error::Exists)), "type {own}");
    }
    assert_eq!(create(0x7777), (None, None));
}

/// Takes more of its pool than that has, in the function that an event calls; counts overruns, and gives all back when it is told.
#[derive(Default)]
struct Greedy {
    pool: Option<PoolId>,
    top: Option<DomainId>,
    below: Option<DomainId>,
    told: Arc<AtomicU64>,
    /// Whether it ends itself when it is told.
    quits: bool,
}

impl InProcess for Greedy {
    fn acts_for(&self, domain: DomainId) -> DomainId {
        self.top.unwrap_or(domain)
    }

    fn upcall(&mut self, os: &mut dyn NodeOs, of: DomainId, upcall: Upcall) {
        match (upcall, self.pool) {
            (Upcall::Event { .. }, None) => {
                let spec = MemPoolSpec { parent: None, limit_bytes: 1000, deadline_ms: 10 };
                self.pool = os.mempool_create(&spec).ok();
                // Of whom a pool is full is told who uses it.
                let below = DomainSpec { title: "user".into(), pool: self.pool, ..DomainSpec::default() };
                self.top = Some(os.domain_self());
                self.below = Some(os.domain_create(os.domain_self(), &below).unwrap());
                let charged = self.pool.map(|pool| os.mempool_charge(pool, 1001));
                assert!(matches!(charged, Some(Ok(()))), "{charged:?}");
                assert_eq!(self.told.load(Ordering::Relaxed), 0, "not inside of its own function");
            }
            (Upcall::Overrun { pool, .. }, Some(own)) => {
                assert_eq!((pool, Some(of)), (own, self.below));
                self.told.fetch_add(1, Ordering::Relaxed);
                if self.quits {
                    os.domain_terminate(os.domain_self()).unwrap();
                } else {
                    os.mempool_charge(pool, -1001).unwrap();
                }
            }
            _ => {}
        }
    }
}

/// A node with an environment that has overrun its pool; how often that was told.
fn greedy(quits: bool) -> (Ending, DomainId, Arc<AtomicU64>) {
    let mut ending = Ending::new();
    let told = Arc::new(AtomicU64::new(0));
    let environment = Box::new(Greedy { pool: None, top: None, below: None, told: told.clone(), quits });
    let role = Role {
        grants: Grants { events: 4, domains: 4, memory_bytes: 1 << 20, ..Grants::default() },
        ..(*Role::of_node()).clone()
    };
    let (_, domain) = ending.turn(|node, _| node.attach("greedy", &role, environment)).unwrap();
    ending.turn(|node, turn| node.with_os(turn, domain, |os| os.event_schedule(domain, 1, 0))).unwrap();
    ending.now += 2 * MILLISECOND;
    ending.turn(|node, turn| node.timer(turn));
    (ending, domain, told)
}

#[test]
fn an_environment_of_the_process_is_told_of_the_overrun_that_its_own_function_causes() {
    let (mut ending, domain, told) = greedy(false);
    assert_eq!(told.load(Ordering::Relaxed), 1);
    // It has obeyed: it lives beyond the deadline.
    ending.now += 100 * MILLISECOND;
    ending.turn(|node, turn| node.timer(turn));
    assert_eq!(ending.driver.node.living(vec![domain]), [domain]);
}

#[test]
fn an_environment_that_ends_when_it_is_told_is_gone_at_once() {
    let (ending, domain, told) = greedy(true);
    assert_eq!(told.load(Ordering::Relaxed), 1);
    assert_eq!(ending.driver.node.living(vec![domain]), []);
    assert_eq!(ending.resources(), Ending::new().resources());
}
