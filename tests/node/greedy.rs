//! Resource control: a greedy domain takes nothing from the share of another, and every limit of a role holds.
//!
//! Throughput is counted in virtual time, in which a worker takes packets in and runs them at known costs: the same every time.

use crate::bed::{Bed, INTAKE, Source};
use anode::code::bundle::{Bundle, Kind};
use anode::code::run::wasm::{Backstop, Compiler};
use anode::core::reason::Reason;
use anode::driver::{Outside, Supply};
use anode::frame::Frame;
use anode::node::hosts::InProcess;
use anode::node::{Effect, KernelOrder};
use anode::nodeos::interface::{ChanSpec, DomainId, Error, MemPoolSpec, NetSpec, NodeOs, Upcall};
use anode::schedule::Policy;
use anode::trust::grants::Grants;
use anode::trust::limits::{Limits, OverBudget};
use anode::trust::{Kinds, Role, Roles};
use anode::wire::{Addr, capsule};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// How long throughput is counted.
const LENGTH: u64 = 300 * MS;

/// Gives every packet back, and counts them.
#[derive(Clone, Default)]
struct Good(Arc<AtomicU64>);

impl InProcess for Good {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            os.packet_free(domain, frame);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Keeps every packet, and does not listen when it is told to let them go.
#[derive(Default)]
struct Leaking(Vec<Frame>);

impl InProcess for Leaking {
    fn upcall(&mut self, _: &mut dyn NodeOs, _: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            self.0.push(frame);
        }
    }
}

fn role(grants: Grants, limits: Limits) -> Role {
    Role { grants, ..Role::anyone(limits) }
}

fn plain() -> Role {
    let grants = Grants { channels: 4, bandwidth: u64::MAX, ..Grants::default() };
    role(grants, Limits { packets_per_second: 1 << 40, ..Limits::default() })
}

/// What a packet of the good domain costs.
const COST: u64 = 2_000;

/// How a domain misbehaves, and the gap of its packets, their cost.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bad {
    /// It is sent ten times what it may run.
    Greedy,
    /// A third of the CPU goes for taking its packets in.
    Flooded,
    /// It keeps what it gets.
    Leaking,
    /// A packet of it takes as long as the steps of one packet last.
    Looping,
}

impl Bad {
    const ALL: [Bad; 4] = [Bad::Greedy, Bad::Flooded, Bad::Leaking, Bad::Looping];

    fn gap_and_cost(self) -> (u64, u64) {
        match self {
            Bad::Greedy => (2 * (COST + INTAKE) / 10, COST),
            Bad::Flooded => (3 * INTAKE, COST / 4),
            Bad::Leaking => (1_000, COST),
            Bad::Looping => (50_000, 100_000),
        }
    }
}

/// Packets of a domain that is sent exactly its half of the CPU, in a while, alone or beside another of the same weight.
fn throughput(policy: Policy, beside: Option<Bad>) -> (u64, Bed) {
    let mut bed = Bed::new(policy);
    let counted = Good::default();
    let good = bed.domain(&plain(), Box::new(counted.clone()));
    bed.channel(good, 5000);
    let mut sources = vec![Source { port: 5000, gap: 2 * (COST + INTAKE), next: 1 }];
    let mut costs = HashMap::from([(good, COST)]);
    if let Some(bad) = beside {
        let environment: Box<dyn InProcess> =
            if bad == Bad::Leaking { Box::new(Leaking::default()) } else { Box::new(Good::default()) };
        let other = bed.domain(&plain(), environment);
        bed.channel(other, 6000);
        let (gap, cost) = bad.gap_and_cost();
        sources.push(Source { port: 6000, gap, next: 1 });
        costs.insert(other, cost);
    }
    bed.work(&mut sources, &costs, LENGTH);
    (counted.0.load(Ordering::Relaxed), bed)
}

#[test]
fn a_greedy_leaking_or_looping_domain_takes_at_most_three_in_a_hundred_of_anothers_share() {
    for policy in [Policy::Wfq, Policy::Edf, Policy::Bert] {
        let (alone, _) = throughput(policy, None);
        assert!(alone > LENGTH / (2 * (COST + INTAKE)) * 99 / 100, "alone it gets what it is sent: {alone}");
        for bad in Bad::ALL {
            let (beside, bed) = throughput(policy, Some(bad));
            assert!(beside * 100 >= alone * 97, "{policy:?} beside {bad:?}: {beside} of {alone}");
            assert_eq!(bed.overrun, 0, "{bad:?}: the port's ring, which is everybody's, does not overflow");
        }
    }
}

#[test]
fn who_is_sent_more_than_runs_pays_for_what_is_dropped() {
    // Without that the good one would keep half of what is left, not half of the CPU.
    let (_, bed) = throughput(Policy::Wfq, Some(Bad::Flooded));
    assert!(bed.driver.node.drops().of(Reason::PathFull) > 100_000);
    let tree = bed.driver.node.domain_tree();
    let cpu: Vec<_> = tree.iter().filter(|it| it.title == "d").map(|it| it.usage.cpu_ns as f64).collect();
    let [good, other] = cpu[..] else { panic!("{cpu:?}") };
    assert!((other / good - 1.0).abs() < 0.05, "{good} {other}: dropped packets are paid for too");
}

#[test]
fn a_domain_that_keeps_every_packet_is_told_and_ended_and_all_it_held_is_back() {
    let mut bed = Bed::new(Policy::Wfq);
    let before = bed.driver.node.resources();
    let leaking = bed.domain(&plain(), Box::new(Leaking::default()));
    bed.channel(leaking, 6000);
    let mut sources = [Source { port: 6000, gap: 10_000, next: 1 }];
    bed.work(&mut sources, &HashMap::new(), 5 * MS);
    let status = bed.driver.node.domain_tree().into_iter().find(|domain| domain.id == leaking.0).unwrap();
    assert!(status.memory.unwrap().held_bytes <= Grants::default().memory_bytes * 9 / 8);
    bed.work(&mut sources, &HashMap::new(), 50 * MS);
    assert!(bed.driver.node.drops().of(Reason::MemoryFull) > 0, "beyond that its packets are dropped");
    bed.work(&mut sources, &HashMap::new(), 200 * MS);
    assert!(bed.usage(leaking).is_none(), "it did not let go in time");
    assert_eq!(bed.driver.node.resources(), before);
}

#[test]
fn packets_beyond_the_budget_are_dropped_and_if_the_role_says_so_the_domain_ends() {
    for over_budget in [OverBudget::Throttle, OverBudget::Remove] {
        let limits = Limits { packets_per_second: 1000, over_budget, over_budget_s: 2, ..Limits::default() };
        let mut bed = Bed::new(Policy::Fifo);
        let domain = bed.domain(&role(plain().grants, limits), Box::new(Good::default()));
        bed.channel(domain, 6000);
        let mut sources = [Source { port: 6000, gap: 500_000, next: 1 }];
        bed.work(&mut sources, &HashMap::new(), SECOND);
        let usage = bed.usage(domain).unwrap();
        let dropped = usage.drops.of(Reason::Budget);
        assert!((850..=1000).contains(&dropped), "twice the rate, less a tenth of a second's at once: {dropped}");
        bed.work(&mut sources, &HashMap::new(), 3 * SECOND);
        assert_eq!(bed.usage(domain).is_some(), over_budget == OverBudget::Throttle);
    }
}

#[test]
fn bandwidth_of_a_channel_and_of_its_domain_is_kept_to() {
    // A datagram of 958 bytes each, sent every millisecond: a million bytes a second, with headers.
    let sent = |of_domain: u64, of_channel: u64| {
        let mut bed = Bed::new(Policy::Fifo);
        let grants = Grants { channels: 2, bandwidth: of_domain, ..Grants::default() };
        let domain = bed.domain(&role(grants, Limits::default()), Box::new(Good::default()));
        let net = NetSpec { bandwidth: of_channel, ..NetSpec::default() };
        let (protocol, address) = ("if1/ip/udp".into(), "*:7000 -> 10.0.1.2:7000".into());
        let spec = ChanSpec { protocol, address, net, ..ChanSpec::default() };
        let out = bed.os(domain, |os| os.outchan_create(domain, &spec)).unwrap();
        let mut sent = 0u64;
        for ms in 0..2000 {
            bed.now = ms * MS + 1;
            let result = bed.os(domain, |os| {
                let mut frame = os.packet_alloc(domain).unwrap();
                frame.append(958).unwrap().fill(7);
                os.outchan_send(out, None, frame).map_err(|(frame, error)| {
                    os.packet_free(domain, frame);
                    error
                })
            });
            match result {
                Ok(()) => sent += 1000,
                Err(error) => assert_eq!(error, Error::Again),
            }
        }
        sent
    };
    assert_eq!(sent(u64::MAX, 0), 2_000_000);
    for kept in [sent(100_000, 0), sent(u64::MAX, 100_000), sent(100_000, 1_000_000)] {
        assert!((200_000..=266_000).contains(&kept), "two seconds at 100,000, and 65,536 at once: {kept}");
    }
    let mut bed = Bed::new(Policy::Fifo);
    let domain =
        bed.domain(&role(Grants { channels: 2, ..Grants::default() }, Limits::default()), Box::new(Good::default()));
    let spec = ChanSpec { protocol: "if1/ip/udp".into(), address: "*:7 -> 10.0.1.2:7".into(), ..ChanSpec::default() };
    assert_eq!(bed.os(domain, |os| os.outchan_create(domain, &spec)), Err(Error::Limit), "no bandwidth, no way out");
}

#[test]
fn memory_of_engines_is_the_domains_as_long_as_there_is_the_channel() {
    let mut bed = Bed::new(Policy::Fifo);
    let grants = Grants { channels: 8, bandwidth: u64::MAX, memory_bytes: 65_536, ..Grants::default() };
    let domain = bed.domain(&role(grants, Limits::default()), Box::new(Good::default()));
    let spec = |protocol: &str, address: &str| ChanSpec {
        protocol: protocol.into(),
        address: address.into(),
        ..ChanSpec::default()
    };
    let held = |bed: &mut Bed| bed.driver.node.domain_tree().iter().find(|it| it.id == domain.0).unwrap().memory_bytes;
    let out = spec("if1/ip/udp/compress/compress/compress/compress", "*:7 -> 10.0.1.2:7");
    let made: Vec<_> = std::iter::from_fn(|| bed.os(domain, |os| os.outchan_create(domain, &out)).ok()).collect();
    assert_eq!((made.len(), held(&mut bed)), (2, 65_536), "32 KiB each");
    assert_eq!(bed.os(domain, |os| os.outchan_create(domain, &out)), Err(Error::Limit));
    for channel in made {
        bed.os(domain, |os| os.outchan_destroy(channel)).unwrap();
    }
    assert_eq!(held(&mut bed), 0);
    // What comes in pieces is kept: sixteen groups.
    let pieces = spec("if0/ip/udp/fragment(64)/checksum", "*:5000");
    let channel = bed.os(domain, |os| os.inchan_create(domain, &pieces)).unwrap();
    assert_eq!(held(&mut bed), 16 * 2048);
    assert_eq!(bed.os(domain, |os| os.inchan_create(domain, &pieces)), Err(Error::Exists));
    assert_eq!(held(&mut bed), 16 * 2048, "what was not made is not paid for");
    bed.os(domain, |os| os.inchan_destroy(channel)).unwrap();
    assert_eq!(held(&mut bed), 0);
    bed.os(domain, |os| os.inchan_create(domain, &pieces)).unwrap();
    let before = bed.driver.node.resources();
    bed.os(domain, |os| os.domain_terminate(domain)).unwrap();
    assert_ne!(bed.driver.node.resources(), before, "and it ends with the domain");
}

#[test]
fn memory_channels_and_pools_end_at_what_the_role_grants() {
    let mut bed = Bed::new(Policy::Fifo);
    let grants = Grants { channels: 2, memory_bytes: 16_384, ..Grants::default() };
    let domain = bed.domain(&role(grants, Limits::default()), Box::new(Good::default()));
    let held: Vec<_> = std::iter::from_fn(|| bed.os(domain, |os| os.packet_alloc(domain)).ok()).collect();
    assert_eq!(held.len(), 10, "16 KiB are eight buffers, and two may be there until it is told");
    let pool = MemPoolSpec { parent: None, limit_bytes: 16_385, deadline_ms: 1 };
    assert_eq!(bed.os(domain, |os| os.mempool_create(&pool)), Err(Error::Limit));
    for frame in held {
        bed.os(domain, |os| os.packet_free(domain, frame));
    }
    bed.channel(domain, 1);
    bed.channel(domain, 2);
    let spec = ChanSpec { protocol: "if0/ip/udp".into(), address: "*:3".into(), ..ChanSpec::default() };
    assert_eq!(bed.os(domain, |os| os.inchan_create(domain, &spec)), Err(Error::Limit));
}

/// Orders to link code for the kernel that a node gives for a code with a representation for it, and what its status says of that.
fn links(role: Role) -> (usize, String) {
    let forward = br#"(module (memory (export "memory") 1 1) (global (export "an_arena") i32 (i32.const 0))
        (func (export "capsule") (param i32 i32) (result i32) i32.const 1))"#;
    let wasm = wat::parse_bytes(forward).unwrap().into_owned();
    let bundle = Bundle::build("two", 0, &[(Kind::Wasm, wasm.into()), (Kind::Bpf, vec![0; 64].into())], None).unwrap();
    let mut bed = Bed::with(Policy::Fifo, Roles::new(vec![role]).unwrap(), true);
    let mut supply = Supply::new(Compiler::new(Backstop::Ticker).unwrap());
    supply.add(&bundle);
    let to = Addr::v4([10, 0, 1, 2]);
    let unknown = Addr::UNSPECIFIED;
    let header = capsule::Header {
        app_port: 1,
        bound: 9,
        code: bundle.name(),
        previous: unknown,
        source: unknown,
        destination: to,
    };
    let mut bytes = [0; capsule::HEADER];
    header.emit(&mut bytes).unwrap();
    bed.turn(|node, turn| node.inject(turn, Frame::from_bytes(&bytes))).unwrap();
    let mut links = 0;
    bed.driver.answer_by(bed.now, |driven, effect| match effect {
        Effect::Kernel(KernelOrder::Link { .. }) => links += 1,
        other => supply.effect(driven, other),
    });
    let codes = bed.driver.node.status().codes;
    assert_eq!(codes.len(), 1);
    let code = codes.into_iter().next().unwrap();
    (links, format!("{}{}{}", code.state, code.why.unwrap_or_default(), code.kernel.unwrap_or_default()))
}

#[test]
fn code_whose_role_may_not_run_in_the_kernel_runs_in_the_user_half_alone_and_status_says_why() {
    let (grants, limits) = (Grants::default(), Limits::default());
    assert_eq!(links(role(grants, limits)), (1, "ready".into()));
    for (grants, limits, key) in [
        (Grants { kernel_programs: 0, ..grants }, limits, "grants.kernel_programs"),
        (grants, Limits { steps_per_packet: 0, ..limits }, "limits.steps_per_packet"),
        (grants, Limits { steps_per_second: 0, ..limits }, "limits.steps_per_second"),
        (grants, Limits { packets_per_second: 0, ..limits }, "limits.packets_per_second"),
        (grants, Limits { kernel_us_per_second: 0, ..limits }, "limits.kernel_us_per_second"),
    ] {
        let why = format!("readythe role anyone has {key} = 0: nothing of it runs in the kernel");
        assert_eq!(links(role(grants, limits)), (0, why));
    }
    let none = Role { representations: Kinds::NONE, ..role(grants, limits) };
    assert_eq!(links(none), (0, "refusedthe role anyone runs no code: representations = []".into()));
}
