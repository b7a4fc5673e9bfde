//! RIP between simulated PLAN nodes: routes are found, are shortest, and are found again when links and nodes fail.

use crate::net::{Net, app, host, network, value};
use anode::core::reason::Reason;
use anode::ee::plan::Config;
use anode::ee::plan::rip::{DESTINATIONS_MAX, Timers};
use anode::sim::{Change, Line, SECOND};
use anode::wire::plan::{ROUTES_MAX, Route, put_routes};
use anode::wire::{Addr, anep};

fn config() -> Config {
    Config { rip: Some(Timers::default()), default_rip: true, ..Config::default() }
}

fn routes(net: &Net, node: usize) -> usize {
    net.sim.status(node).unwrap().plan.unwrap().rip_routes
}

/// Whether a ping comes back, with so much of the bound.
fn pings(net: &mut Net, from: usize, to: usize, bound: u32) -> bool {
    let chunk = app("ping").chunk("ping", [value(from), value(to)]).unwrap();
    net.inject(from, chunk, bound);
    net.sim.run_for(SECOND);
    net.sim.take_printed() == ["Success"]
}

#[test]
fn a_ring_finds_the_shorter_way_and_after_a_cut_the_longer_one() {
    let links: Vec<_> = (0..6).map(|node| (node, (node + 1) % 6)).collect();
    let mut net = Net::with(&links, Line::default(), config());
    net.sim.run_for(10 * SECOND);
    assert_eq!((0..6).map(|node| routes(&net, node)).collect::<Vec<_>>(), [5; 6], "triggered updates suffice");
    assert!(pings(&mut net, 0, 1, 2), "one hop there, one back");
    assert!(!pings(&mut net, 0, 1, 1));
    // The way from 0 to 1 is cut: RFC 2453 gives it up after 180 s at most.
    net.sim.change_at(net.sim.now(), Change::Cut { link: 0 });
    net.sim.run_for(SECOND);
    assert!(!pings(&mut net, 0, 1, 10));
    net.sim.run_for(300 * SECOND);
    assert!(!pings(&mut net, 0, 1, 9), "five hops there, five back");
    assert!(pings(&mut net, 0, 1, 10));
    net.sim.change_at(net.sim.now(), Change::Mend { link: 0 });
    net.sim.run_for(60 * SECOND);
    assert!(pings(&mut net, 0, 1, 2), "the shorter way is taken again");
    net.audit();
}

#[test]
fn a_node_that_crashes_is_given_up_and_found_again() {
    //  0 ─ 1 ─ 2
    //  └── 3 ──┘
    let mut net = Net::with(&[(0, 1), (1, 2), (0, 3), (3, 2)], Line::default(), config());
    net.sim.run_for(10 * SECOND);
    for gone in [1, 3] {
        let now = net.sim.now();
        net.sim.change_at(now, Change::Crash { node: gone });
        net.sim.run_for(400 * SECOND);
        assert_eq!(routes(&net, 0), 2, "{gone} is forgotten");
        assert!(pings(&mut net, 0, 2, 4), "around {gone}");
        let now = net.sim.now();
        net.sim.change_at(now, Change::Restart { node: gone, store_kept: true });
        net.sim.run_for(40 * SECOND);
        assert_eq!(routes(&net, 0), 3);
        assert!(pings(&mut net, 0, gone, 2));
    }
}

#[test]
fn what_is_cut_off_does_not_count_to_infinity_for_long() {
    let mut net = Net::with(&[(0, 1), (1, 2), (2, 3)], Line { loss: 0.05, ..Line::default() }, config());
    net.sim.run_for(60 * SECOND);
    assert_eq!(routes(&net, 0), 3);
    net.sim.change_at(net.sim.now(), Change::Crash { node: 3 });
    net.sim.run_for(260 * SECOND);
    // Poisoned reverse: no two nodes tell each other of ways through each other.
    assert_eq!((0..3).map(|node| routes(&net, node)).collect::<Vec<_>>(), [2, 2, 2]);
    net.inject(0, app("ping").chunk("ping", [value(0), value(3)]).unwrap(), 20);
    net.sim.run_for(SECOND);
    let printed = net.sim.take_printed();
    assert!(printed.len() == 1 && printed[0].ends_with("raised RIPNoRoute on 10.0.0.1"), "{printed:?}");
}

/// A frame with a neighbour's routes.
fn told(routes: impl IntoIterator<Item = Route>) -> Vec<u8> {
    let mut message = Vec::new();
    put_routes(false, routes, &mut message);
    let mut frame = vec![0; anep::HEADER];
    anep::emit_basic(&mut frame, anep::type_id::PLAN, message.len()).unwrap();
    frame.extend_from_slice(&message);
    frame
}

#[test]
fn a_neighbour_that_invents_destinations_leaves_room_for_those_of_another() {
    let mut net = Net::with(&[(0, 1), (1, 2)], Line::default(), config());
    net.sim.run_for(10 * SECOND);
    let invented = |number: usize| {
        let [.., a, b] = (number as u32).to_be_bytes();
        Route { to: Addr::v4([172, 16, a, b]), length: 128, metric: 1 }
    };
    for first in (0..8192).step_by(ROUTES_MAX) {
        net.sim.put_frame(0, 0, &told((first..first + ROUTES_MAX).map(invented)));
        net.sim.run_for(SECOND / 1000);
    }
    net.sim.run_for(SECOND / 10);
    let filled = routes(&net, 1);
    assert!((2000..=DESTINATIONS_MAX / 2 + 2).contains(&filled), "half of the places: {filled}");
    let no_room = net.sim.status(1).unwrap().plan.unwrap().account.no_room;
    assert!(no_room >= 8192 - filled as u64, "what found none is counted: {no_room}");
    // What another neighbour tells finds its places.
    net.sim.put_frame(2, 0, &told((20_000..20_000 + ROUTES_MAX).map(invented)));
    net.sim.run_for(SECOND);
    assert_eq!(routes(&net, 1), filled + ROUTES_MAX);
    // Their time-out gives the places back, and others can have them.
    net.sim.run_for(400 * SECOND);
    assert_eq!(routes(&net, 1), 2);
    net.sim.put_frame(0, 0, &told((30_000..30_000 + ROUTES_MAX).map(invented)));
    net.sim.run_for(SECOND);
    assert_eq!(routes(&net, 1), 2 + ROUTES_MAX);
}

#[test]
fn routes_that_nobody_may_tell_change_nothing() {
    let mut network = network(&[(0, 1), (1, 2)], Line::default());
    network.plan = config();
    let mut net = Net::new(network, 1);
    net.sim.run_for(10 * SECOND);
    let lie = |to: usize, metric: u8| told([Route { to: Addr(host(to).0), length: 128, metric }]);
    // As if from 2: a distance of 0 or 17 is none, a way to 1 itself is not believed, one to 0 is no better than the own one.
    for (to, metric) in [(0, 0), (0, 17), (1, 1), (0, 16)] {
        net.sim.put_frame(2, 0, &lie(to, metric));
        net.sim.run_for(SECOND);
    }
    assert_eq!(routes(&net, 1), 2);
    assert!(pings(&mut net, 1, 0, 2));
    // A neighbour may lie of its distance to what lies behind it; where nobody speaks RIP it is not heard.
    let mut quiet = Net::line(2, Line::default());
    quiet.sim.put_frame(0, 0, &lie(5, 1));
    quiet.sim.run_for(SECOND);
    assert_eq!(quiet.sim.status(1).unwrap().drops.of(Reason::UnknownType), 1);
}
