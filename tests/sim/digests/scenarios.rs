//! Networks of capsules and of PLAN packets with recorded events.
//!
//! Code is WAT, or a bundle that is committed (`tests/digests/trace.anb`, made from `apps/trace.c`): a C compiler of another version
//! would make other code with another name, and so other frames.

use super::recorder::Events;
use crate::guests::{forking, forward, header, padded_forward, ping};
use crate::net::{self, Net, app, value};
use anode::code::bundle::Bundle;
use anode::ee::plan::{Config, rip::Timers};
use anode::sim::{Carries, Change, Family, Line, MS, Network, SECOND, Shape, Simulation, Traffic};
use plan::value::Value;

type Run = (&'static str, fn(u64) -> Events);

pub const CAPSULES: &[Run] = &[
    ("capsules-ping", ping_on_a_line),
    ("capsules-rough-overlay", rough_overlay),
    ("capsules-rough-ethernet", rough_ethernet),
    ("capsules-trace", trace),
    ("capsules-fetch-under-loss", fetch_under_loss),
    ("capsules-crashes", crashes),
    ("capsules-bounds", bounds),
];

pub const PLAN: &[Run] = &[
    ("plan-ping", plan_ping),
    ("plan-ping-ethernet", plan_ping_ethernet),
    ("plan-programs", plan_programs),
    ("plan-routing", plan_routing),
];

/// A simulation, and everybody watched.
fn watched(shape: Shape, line: Line, family: Family, seed: u64) -> (Simulation, Events) {
    let mut network = Network::new(shape, line, seed).unwrap();
    network.family = family;
    let mut sim = Simulation::new(network, seed).unwrap();
    let events = Events::watch(&mut sim);
    (sim, events)
}

fn ping_on_a_line(seed: u64) -> Events {
    let (mut sim, events) = watched(Shape::Line { nodes: 4 }, Line::default(), Family::V4, seed);
    let code = ping();
    sim.add_code(0, &code);
    sim.collect(0, 1);
    sim.add_traffic(Traffic { from: vec![0], stop: 2 * SECOND, ..Traffic::everywhere(4, code.name()) });
    sim.run_until(4 * SECOND);
    events.finish(&mut sim)
}

const ROUGH: Line = Line {
    carries: Carries::Overlay,
    delay_ms: 1.0,
    jitter_ms: 0.0,
    queue_packets: 0,
    rate_mbit: 2.0,
    queue_bytes: 4000,
    loss: 0.1,
    duplicate: 0.05,
    reorder: 0.2,
    reorder_ms: 10.0,
    mtu: 1500,
};

/// Everything that can go wrong on links.
fn rough(carries: Carries, family: Family, seed: u64) -> Events {
    let shape = Shape::Random { nodes: 10, degree: 3 };
    let (mut sim, events) = watched(shape, Line { carries, ..ROUGH }, family, seed);
    for (code, per_second) in [(forward(), 10.0), (ping(), 5.0), (forking(), 2.0)] {
        for node in 0..sim.nodes() {
            sim.open(node, 1);
        }
        sim.add_code(0, &code);
        sim.add_code(5, &code);
        let from = vec![0, 5];
        sim.add_traffic(Traffic { from, per_second, stop: SECOND, bound: 64, ..Traffic::everywhere(10, code.name()) });
    }
    sim.run_until(20 * SECOND);
    events.finish(&mut sim)
}

fn rough_overlay(seed: u64) -> Events {
    rough(Carries::Overlay, Family::Both, seed)
}

fn rough_ethernet(seed: u64) -> Events {
    rough(Carries::Ethernet, Family::Both, seed)
}

/// The shipped application, with reports: soft state, clocks, links' load, children.
fn trace(seed: u64) -> Events {
    let (mut sim, events) =
        watched(Shape::Line { nodes: 5 }, Line { rate_mbit: 10.0, ..Line::default() }, Family::V4, seed);
    let code = Bundle::read(include_bytes!("../../digests/trace.anb")).unwrap();
    sim.add_code(0, &code);
    sim.collect(0, 1);
    for sequence in 0..3 {
        let mut payload = vec![0; 16 + 8 * 48];
        payload[0..4].copy_from_slice(&(seed as u32).to_be_bytes());
        payload[8..12].copy_from_slice(&6u32.to_be_bytes());
        payload[12..16].copy_from_slice(&[0, 0, 0, sequence]);
        sim.inject(0, header(code.name(), sim.address(1 + seed as usize), 40), &payload).unwrap();
        sim.run_for(SECOND);
    }
    events.finish(&mut sim)
}

/// Codes of many parts over links that lose a fifth; some capsules wait in vain.
fn fetch_under_loss(seed: u64) -> Events {
    let line = Line { loss: 0.2, duplicate: 0.05, ..Line::default() };
    let (mut sim, events) = watched(Shape::Line { nodes: 5 }, line, Family::V4, seed);
    sim.collect(4, 1);
    for number in 0..4 {
        let code = padded_forward(number, 200 + 1500 * number as usize);
        sim.add_code(0, &code);
        for _ in 0..3 {
            sim.inject(0, header(code.name(), sim.address(4), 64), b"payload").unwrap();
            sim.run_for(3 * MS);
        }
    }
    let nobodys = forward();
    sim.inject(0, header(nobodys.name(), sim.address(4), 64), b"").ok();
    sim.run_for(30 * SECOND);
    events.finish(&mut sim)
}

/// Nodes that crash and start again, with and without their stores, and a link that is cut for a while.
fn crashes(seed: u64) -> Events {
    let (mut sim, events) = watched(Shape::Random { nodes: 6, degree: 3 }, Line::default(), Family::V6, seed);
    let code = padded_forward(7, 3000);
    sim.add_code(0, &code);
    (0..6).for_each(|node| sim.open(node, 1));
    sim.add_traffic(Traffic {
        from: vec![0],
        per_second: 40.0,
        stop: 4 * SECOND,
        ..Traffic::everywhere(6, code.name())
    });
    let victim = 1 + seed as usize % 5;
    for (at, change) in [
        (500, Change::Crash { node: victim }),
        (900, Change::Restart { node: victim, store_kept: false }),
        (1500, Change::Cut { link: 1 }),
        (2500, Change::Mend { link: 1 }),
        (3000, Change::Crash { node: victim }),
        (3100, Change::Restart { node: victim, store_kept: true }),
    ] {
        sim.change_at(at * MS, change);
    }
    sim.run_until(12 * SECOND);
    events.finish(&mut sim)
}

/// Capsules that branch at every node until their bound is spent.
fn bounds(seed: u64) -> Events {
    let shape = match seed % 3 {
        0 => Shape::Random { nodes: 14, degree: 3 },
        1 => Shape::Tree { nodes: 14, fanout: 3 },
        _ => Shape::Grid { width: 7, height: 2 },
    };
    let line = Line { loss: 0.02, reorder: 0.2, ..Line::default() };
    let (mut sim, events) = watched(shape, line, Family::V4, seed);
    let code = forking();
    for node in 0..14 {
        sim.add_code(node, &code);
        sim.open(node, 1);
    }
    for bound in [1, 2, 63, 64, 65, 200] {
        let (from, to) = (bound as usize * 3 % 14, (bound as usize * 5 + 1 + seed as usize) % 14);
        sim.inject(from, header(code.name(), sim.address(to), bound), b"").ok();
        sim.run_for(100 * MS);
    }
    sim.run_for(5 * SECOND);
    events.finish(&mut sim)
}

/// A PLAN network, watched from its start.
fn plan_net(links: &[(usize, usize)], line: Line, config: Config, seed: u64) -> (Net, Events) {
    let mut network = net::network(links, line);
    network.plan = config;
    let mut net = Net::new(network, seed);
    let events = Events::watch(&mut net.sim);
    (net, events)
}

/// What applications were told belongs to what happened.
fn told(net: &mut Net, events: &Events) {
    for told in net.sim.take_plan() {
        events
            .push(told.node, &format!("{} n{} told {} {}", told.at, told.node, told.port, hex::encode(&told.message)));
    }
}

fn plan_pings(carries: Carries, seed: u64) -> Events {
    let line = Line { carries, loss: 0.05, reorder: 0.3, ..Line::default() };
    let (mut net, events) = plan_net(&[(0, 1), (1, 2), (2, 3)], line, Config::default(), seed);
    for (to, bound) in [(3, 9), (2, 4), (3, 6), (3, 5), (1, 1), (0, 3)] {
        let chunk = app("ping").chunk("ping", [value(0), value(to)]).unwrap();
        net.inject(0, chunk, bound);
        net.sim.run_for(SECOND);
        told(&mut net, &events);
    }
    net.sim.run_for(20 * SECOND);
    told(&mut net, &events);
    events.finish(&mut net.sim)
}

fn plan_ping(seed: u64) -> Events {
    plan_pings(Carries::Overlay, seed)
}

fn plan_ping_ethernet(seed: u64) -> Events {
    plan_pings(Carries::Ethernet, seed)
}

/// Traceroute and multicast on a tree, with packets longer than the links carry.
fn plan_programs(seed: u64) -> Events {
    let links = [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6), (3, 7)];
    let (mut net, events) =
        plan_net(&links, Line { loss: 0.01, reorder: 0.2, ..Line::default() }, Config::default(), seed);
    net.inject(0, app("traceroute").chunk("trace", [value(0), value(7), Value::Int(0)]).unwrap(), 50);
    net.sim.run_for(SECOND);
    for length in [4, 4000] {
        let dests = Value::list([4, 5, 6, 7, 1].into_iter().map(value)).unwrap();
        let arguments = [value(0), dests, Value::text(vec![b'n'; length]), Value::Int(0)];
        net.inject(0, app("multicast").chunk("multicast", arguments).unwrap(), 600);
        net.sim.run_for(SECOND);
        told(&mut net, &events);
    }
    net.sim.run_for(20 * SECOND);
    told(&mut net, &events);
    events.finish(&mut net.sim)
}

/// RIP on a ring: found, cut, found again.
fn plan_routing(seed: u64) -> Events {
    let links: Vec<_> = (0..5).map(|node| (node, (node + 1) % 5)).collect();
    let config = Config { rip: Some(Timers::default()), default_rip: true, ..Config::default() };
    let (mut net, events) = plan_net(&links, Line { loss: 0.02, ..Line::default() }, config, seed);
    let mut pings = |seconds: u64| {
        net.sim.run_for(seconds * SECOND);
        let chunk = app("ping").chunk("ping", [value(0), value(1)]).unwrap();
        net.inject(0, chunk, 10);
        net.sim.run_for(SECOND);
        told(&mut net, &events);
        net.sim.now()
    };
    pings(10);
    let now = pings(30);
    net.sim.change_at(now, Change::Cut { link: 0 });
    net.sim.run_for(240 * SECOND);
    net.sim.change_at(net.sim.now(), Change::Mend { link: 0 });
    net.sim.run_for(60 * SECOND);
    told(&mut net, &events);
    events.finish(&mut net.sim)
}
