//! Graphs in a running node: what they take, what becomes of each packet, who pays, and how one becomes another.

use crate::bed::{Bed, datagram_with};
use anode::core::domain::DomainId;
use anode::core::reason::Reason;
use anode::frame::{Frame, Link, PortId};
use anode::graph::running::GRAPHS_MAX;
use anode::graph::spec::GraphSpec;
use anode::node::graphs::{GraphStatus, GraphTraffic, Swapped};
use anode::node::places::PortPlaced;
use anode::node::policy::Amendment;
use anode::schedule::Policy;
use anode::topology::{Ceiling, Port};
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::trust::{Role, Roles};
use anode::wire::ethernet::Mac;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What is in front of a datagram's payload.
const HEADERS: usize = 42;

fn roles(memory_bytes: u64) -> Roles {
    let grants = Grants { channels: 64, bandwidth: u64::MAX, memory_bytes, ..Grants::default() };
    let named = |name: &str| Role { name: name.into(), grants, ..Role::anyone(Limits::default()) };
    Roles::new(vec![named("graphs"), named("others")]).unwrap()
}

fn bed() -> Bed {
    Bed::with(Policy::Wfq, roles(1 << 24), false)
}

fn spec(take: &[&str], text: &str) -> GraphSpec {
    let take = take.iter().map(|take| (*take).to_owned()).collect();
    GraphSpec { name: "g".into(), role: "graphs".into(), take, text: text.into(), ..GraphSpec::default() }
}

fn put(bed: &mut Bed, spec: GraphSpec, base: Option<u32>) -> Result<Swapped, String> {
    let graph = spec.prepare()?;
    bed.turn(|node, turn| node.run_graph(turn, graph, base))
}

fn run(bed: &mut Bed, take: &[&str], text: &str) -> Swapped {
    put(bed, spec(take, text), None).unwrap_or_else(|why| panic!("{text}: {why}"))
}

fn status(bed: &mut Bed) -> GraphStatus {
    bed.driver.node.graphs().into_iter().find(|graph| graph.name == "g").unwrap()
}

/// All that waits has its turn.
fn settle(bed: &mut Bed) {
    while let Some(ran) = bed.turn(|node, turn| node.run_next(turn)) {
        bed.driver.node.ran(ran, 1, bed.now);
    }
    bed.driver.timer_if_due(bed.now);
}

fn feed(bed: &mut Bed, frame: Frame) {
    bed.turn(|node, turn| node.receive(turn, frame));
    settle(bed);
}

/// Frames that have left, by the number of their port.
fn left(bed: &mut Bed) -> Vec<(u16, Vec<u8>)> {
    bed.driver.out.frames.drain(..).map(|frame| (frame.port.0, frame.bytes().to_vec())).collect()
}

const THROUGH: &str = "FromDevice(eth0) -> c :: Counter -> Queue -> ToDevice(eth1);";
const TAKE: &[&str] = &["eth0/ip/udp *:53"];

#[test]
fn a_graph_takes_what_it_says_and_sends_frames_as_they_are() {
    let mut bed = bed();
    let swapped = run(&mut bed, TAKE, THROUGH);
    assert_eq!((swapped.generation, swapped.kept), (1, 0));
    let frame = datagram_with(53, b"what?");
    let bytes = frame.bytes().to_vec();
    feed(&mut bed, frame);
    feed(&mut bed, datagram_with(54, b"linux"));
    assert_eq!(left(&mut bed), [(1, bytes)]);
    assert_eq!(bed.driver.node.balance().not_ours, 1);
    let traffic = GraphTraffic { came: 1, left: 1, ..GraphTraffic::default() };
    assert_eq!(status(&mut bed).traffic, traffic);
    let usage = bed.usage(swapped.domain).unwrap();
    assert_eq!((usage.packets, usage.forwarded), (1, 1));
    assert_eq!(bed.driver.node.read_graph("g", "c", "count"), Ok("1".into()));
    bed.turn(|node, turn| node.write_graph(turn.now, "g", ("c", "reset"), "")).unwrap();
    assert_eq!(bed.driver.node.read_graph("g", "c", "count"), Ok("0".into()));
    for (engine, handler, why) in
        [("x", "count", "no engine x"), ("c", "x", "no such handler x: anode graph doc Counter")]
    {
        assert!(bed.driver.node.read_graph("g", engine, handler).unwrap_err().contains(why));
    }
    assert!(bed.driver.node.read_graph("h", "c", "count").unwrap_err().contains("no graph h"));
}

/// What has waited together goes through together, and comes to the same.
#[test]
fn packets_of_one_turn_go_together_and_none_is_lost_or_doubled() {
    for (text, [left_there, dropped, held]) in [
        (THROUGH, [40, 0, 0]),
        ("FromDevice(eth0) -> Queue(3) -> ToDevice(eth1);", [40, 0, 0]),
        ("FromDevice(eth0) -> Discard;", [0, 40, 0]),
        ("FromDevice(eth0) -> Queue(4) -> Shaper(1) -> ToDevice(eth1);", [1, 35, 4]),
    ] {
        let mut bed = bed();
        let domain = run(&mut bed, TAKE, text).domain;
        (0..40u8).for_each(|at| bed.turn(|node, turn| node.receive(turn, datagram_with(53, &[at]))));
        let mut most = 0;
        while let Some(ran) = bed.turn(|node, turn| node.run_turn(turn)) {
            most = most.max(ran.packets());
            bed.driver.node.ran(ran, 1, bed.now);
        }
        bed.driver.timer_if_due(bed.now);
        assert_eq!(most, 16, "{text}");
        let traffic = GraphTraffic { came: 40, left: left_there, dropped, held, ..GraphTraffic::default() };
        assert_eq!(status(&mut bed).traffic, traffic, "{text}");
        assert_eq!(bed.driver.node.unaccounted_of(domain), 0, "{text}");
        let order: Vec<_> = left(&mut bed).iter().map(|(_, bytes)| bytes[HEADERS]).collect();
        assert!(order.is_sorted(), "{text}: {order:?}");
    }
    // One that holds all that it may takes no more of them.
    let mut bed = Bed::with(Policy::Wfq, roles(3 * 2048), false);
    let domain = run(&mut bed, TAKE, "FromDevice(eth0) -> Queue -> Shaper(1) -> ToDevice(eth1);").domain;
    (0..16).for_each(|_| bed.turn(|node, turn| node.receive(turn, datagram_with(53, b""))));
    while let Some(ran) = bed.turn(|node, turn| node.run_turn(turn)) {
        bed.driver.node.ran(ran, 1, bed.now);
    }
    let GraphTraffic { came, left: gone, dropped, held, .. } = status(&mut bed).traffic;
    assert_eq!((came, gone + dropped + held), (16, 16));
    assert!(held <= 3 && bed.driver.node.unaccounted_of(domain) == 0, "{held}");
    assert_eq!(bed.usage(domain).unwrap().counts.drops.of(Reason::MemoryFull), dropped);
}

/// Who asks for an address of the graph's has its answer, and the node finds its next hops as before.
#[test]
fn address_resolution_is_heard_by_graphs_and_by_the_node() {
    let mut bed = bed();
    let text = "FromDevice(eth0) -> all :: Counter -> c :: Classifier(12/0806 20/0002, -); c [0] -> answers :: Counter -> Discard; \
                c [1] -> Discard;";
    let refused = put(&mut bed, spec(&["eth7/arp"], &text.replace("eth0", "eth7")), None);
    assert!(refused.unwrap_err().contains("called eth7; there are: eth0, eth1"));
    let domain = run(&mut bed, &["eth0/arp"], text).domain;
    let count = |bed: &mut Bed, engine: &str| bed.driver.node.read_graph("g", engine, "count").unwrap();
    for port in [0, 1] {
        bed.say(port, [10, 0, port, 9], Mac([2, 0, 0, 0, 0, 9]));
        settle(&mut bed);
    }
    assert_eq!((count(&mut bed, "all"), count(&mut bed, "answers")), ("1".into(), "1".into()), "at its port alone");
    feed(&mut bed, datagram_with(53, b"linux"));
    assert_eq!(bed.driver.node.balance().not_ours, 1, "it takes nothing else");
    assert_eq!((status(&mut bed).traffic.came, bed.driver.node.unaccounted_of(domain)), (1, 0));
    run(&mut bed, &["eth1/arp"], &text.replace("eth0", "eth1"));
    for port in [0, 1] {
        bed.say(port, [10, 0, port, 9], Mac([2, 0, 0, 0, 0, 9]));
        settle(&mut bed);
    }
    assert_eq!(count(&mut bed, "all"), "2", "what it does not take any more does not come");
    let ended = bed.turn(|node, turn| node.end_graph(turn, "g"));
    assert!(ended.is_ok());
    bed.say(1, [10, 0, 1, 9], Mac([2, 0, 0, 0, 0, 9]));
    settle(&mut bed);
    assert_eq!(bed.driver.node.balance().unaccounted(), 0);
}

/// A port goes, another one has its place, and one of the name comes at another place.
#[test]
fn devices_of_graphs_are_ports_of_their_names_however_ports_come_and_go() {
    let mut bed = bed();
    run(&mut bed, TAKE, THROUGH);
    let port = |name: &str| Port {
        name: name.into(),
        link: Link::Ethernet { mac: Mac([2, 0, 0, 0, 0, 0]), answers: false },
        addresses: Vec::new(),
        mtu: 1500,
        bits_per_second: 0,
        ceiling: Ceiling::default(),
    };
    let place = |bed: &mut Bed, at: u16, is: Port| {
        let amendment = Amendment { placed: vec![PortPlaced { port: PortId(at), is }], ..Amendment::default() };
        bed.turn(|node, turn| node.amend(turn, amendment));
    };
    let from = |at: u16| {
        let mut frame = datagram_with(53, b"what?");
        frame.port = PortId(at);
        frame
    };
    // The place of eth0 has another port, whose packets are Linux's.
    place(&mut bed, 0, port("other"));
    feed(&mut bed, from(0));
    assert_eq!((bed.driver.node.balance().not_ours, left(&mut bed)), (1, vec![]));
    // Its name is elsewhere from now on.
    place(&mut bed, 2, port("eth0"));
    feed(&mut bed, from(2));
    feed(&mut bed, from(0));
    assert_eq!(bed.driver.node.balance().not_ours, 2);
    assert_eq!(left(&mut bed).iter().map(|(port, _)| *port).collect::<Vec<_>>(), [1]);
    // So is that of the device by which packets leave.
    place(&mut bed, 1, port("another"));
    feed(&mut bed, from(2));
    assert_eq!((left(&mut bed), status(&mut bed).traffic.dropped), (vec![], 1), "there is no port of that name");
    place(&mut bed, 0, port("eth1"));
    feed(&mut bed, from(2));
    assert_eq!(left(&mut bed).iter().map(|(port, _)| *port).collect::<Vec<_>>(), [0]);
    assert_eq!(bed.driver.node.balance().unaccounted(), 0);
}

#[test]
fn each_packet_ends_under_one_count() {
    // What is sent, what leaves, what begins, is used, dropped, and held.
    for (text, frames, [left_there, begun, used, dropped, held]) in [
        (THROUGH, 3, [3, 0, 0, 0, 0]),
        ("FromDevice(eth0) -> Discard;", 3, [0, 0, 0, 3, 0]),
        ("FromDevice(eth0) -> t :: Tee -> q :: Queue -> ToDevice(eth1); t[1] -> q;", 3, [6, 3, 0, 0, 0]),
        ("FromDevice(eth0) -> Queue(2) -> Shaper(1) -> ToDevice(eth1);", 5, [1, 0, 0, 2, 2]),
        (
            "FromDevice(eth0) -> MarkIPHeader(14) -> IPMirror -> Strip(40) -> Queue -> ToDevice(eth1);",
            2,
            [0, 0, 0, 2, 0],
        ),
        (
            "FromDevice(eth0) -> Strip(14) -> EtherEncap(0x800, 02:00:00:00:00:01, 02:00:00:00:00:02) -> Queue -> ToDevice(eth1);",
            1,
            [1, 0, 0, 0, 0],
        ),
    ] {
        let mut bed = bed();
        let nothing = bed.driver.node.resources();
        let domain = run(&mut bed, TAKE, text).domain;
        (0..frames).for_each(|_| feed(&mut bed, datagram_with(53, b"")));
        let traffic = GraphTraffic { came: frames, begun, left: left_there, used, dropped, held, blanked: 0 };
        assert_eq!(status(&mut bed).traffic, traffic, "{text}");
        assert_eq!(left(&mut bed).len() as u64, left_there, "{text}");
        assert_eq!(bed.driver.node.unaccounted_of(domain), 0, "{text}");
        assert_eq!(bed.driver.node.balance().held, held, "{text}");
        // And nothing is left when it ends.
        bed.turn(|node, turn| node.end_graph(turn, "g")).unwrap();
        assert_eq!(bed.driver.node.resources(), nothing, "{text}");
        assert_eq!(bed.driver.node.balance().held, 0, "{text}");
        assert!(bed.driver.node.graphs().is_empty());
    }
}

#[test]
fn engines_that_wait_have_the_nodes_time_at_the_expense_of_their_domain() {
    let mut bed = bed();
    run(&mut bed, TAKE, "FromDevice(eth0) -> q :: Queue -> d :: DelayUnqueue(5ms) -> out :: Queue -> ToDevice(eth1);");
    feed(&mut bed, datagram_with(53, b""));
    assert_eq!((left(&mut bed).len(), status(&mut bed).traffic.held), (0, 1));
    let begun = bed.now;
    let due = bed.driver.node.next_timer();
    assert!(due > begun && due <= begun + 100_000_000, "{due}");
    while bed.now < begun + 6_000_000 {
        bed.now += 500_000;
        bed.driver.timer_if_due(bed.now);
    }
    assert_eq!((left(&mut bed).len(), status(&mut bed).traffic.held), (1, 0));
    run(
        &mut bed,
        TAKE,
        "FromDevice(eth0) -> Discard; TimedSource(1ms, DATA \\<00 01 02 03 04 05 06 07 08 09 0a 0b 88 b5>) -> Queue -> ToDevice(eth1);",
    );
    let begun = bed.now;
    while bed.now < begun + 10_000_000 {
        bed.now += 500_000;
        bed.driver.timer_if_due(bed.now);
    }
    let sent = left(&mut bed).len();
    assert!((9..=11).contains(&sent), "{sent}");
}

#[test]
fn what_cannot_be_is_refused_and_what_ran_runs_on() {
    let mut bed = bed();
    let domain = run(&mut bed, TAKE, THROUGH).domain;
    let other = GraphSpec { name: "h".into(), ..spec(&["eth1/ip/udp *:9"], "FromDevice(eth1) -> Discard;") };
    put(&mut bed, other, None).unwrap();
    let before = bed.driver.node.resources();
    let cases: &[(GraphSpec, Option<u32>, &str)] = &[
        (
            spec(TAKE, "FromDevice(eth0) -> Queue -> ToDevice(eth7);"),
            None,
            "no port with a link of its own is called eth7; there are: eth0, eth1",
        ),
        (spec(TAKE, THROUGH), Some(7), "it has generation 1 by now, and you have looked at 7"),
        (GraphSpec { role: "others".into(), ..spec(TAKE, THROUGH) }, None, "it runs in the role graphs"),
        (GraphSpec { name: "new".into(), ..spec(TAKE, THROUGH) }, None, "take: 'eth0/ip/udp *:53': another graph"),
        (GraphSpec { name: "new".into(), role: "no".into(), ..spec(TAKE, THROUGH) }, None, "no"),
        (
            spec(&["eth0/ip/rule [ip | udp (dport = 5..9) | *]"], THROUGH),
            None,
            "Linux would have these packets as well",
        ),
        (spec(&["eth0/anep type 77"], THROUGH), None, "ANEP is for environments"),
        (spec(&["eth0/ip/udp/checksum *:5"], THROUGH), None, "engines stand in the graph's text"),
        (spec(&["eth0/ip/upd *:5"], THROUGH), None, "'upd' is no protocol of a channel"),
        (
            spec(&["eth0/ip/udp *:54", "eth0/ip/udp nonsense"], THROUGH),
            None,
            "take: 'eth0/ip/udp nonsense': no address of a channel",
        ),
    ];
    for (spec, base, why) in cases {
        let said = put(&mut bed, spec.clone(), *base).unwrap_err();
        assert!(said.contains(why), "{said}, not {why}");
        assert_eq!(bed.driver.node.resources(), before, "{why}");
    }
    feed(&mut bed, datagram_with(53, b""));
    assert_eq!((left(&mut bed).len(), status(&mut bed).generation), (1, 1));
    assert!(bed.driver.node.may_move(domain).unwrap_err().contains("graphs at worker 0"));
}

#[test]
fn a_node_runs_so_many_graphs() {
    let mut bed = bed();
    let named = |number: usize| GraphSpec { name: format!("g{number}"), ..spec(&[], "Idle -> Discard;") };
    for number in 0..GRAPHS_MAX {
        put(&mut bed, named(number), None).unwrap();
    }
    assert!(put(&mut bed, named(GRAPHS_MAX), None).unwrap_err().contains("256 graphs, which are all it may"));
}

#[test]
fn a_graph_holds_no_more_than_its_domain_may() {
    let mut bed = Bed::with(Policy::Wfq, roles(20 * 2048), false);
    let domain = run(&mut bed, TAKE, "FromDevice(eth0) -> Queue(1000) -> Shaper(1) -> ToDevice(eth1);").domain;
    (0..100).for_each(|_| feed(&mut bed, datagram_with(53, b"")));
    let traffic = status(&mut bed).traffic;
    assert!((5..=20).contains(&traffic.held), "{traffic:?}");
    assert_eq!(bed.usage(domain).unwrap().counts.drops.of(Reason::MemoryFull), traffic.dropped);
    assert_eq!(traffic.came, traffic.left + traffic.dropped + traffic.held);
}

#[test]
fn what_engines_learn_is_the_domains_and_where_there_is_no_room_they_learn_no_more() {
    let flow = |source: u16| {
        let mut frame = datagram_with(53, b"");
        frame.bytes_mut()[34..36].copy_from_slice(&source.to_be_bytes());
        frame
    };
    let text = "FromDevice(eth0) -> Strip(14) -> MarkIPHeader
        -> nat :: IPRewriter(pattern 10.0.0.1 1024-65535 - - 0 0) -> Unstrip(14) -> Queue -> ToDevice(eth1);";
    let flows = |bed: &mut Bed| bed.driver.node.read_graph("g", "nat", "nmappings").unwrap().parse::<u64>().unwrap();
    let mut bed = Bed::with(Policy::Wfq, roles(20 * 2048), false);
    let domain = run(&mut bed, TAKE, text).domain;
    (0..1000).for_each(|source| feed(&mut bed, flow(source)));
    let (known, traffic) = (flows(&mut bed), status(&mut bed).traffic);
    assert!((120..=129).contains(&known), "{known} flows of 320 bytes");
    assert_eq!((traffic.left, traffic.dropped), (known, 1000 - known));
    assert_eq!(bed.usage(domain).unwrap().counts.drops.of(Reason::GraphDropped), traffic.dropped);
    let held = |bed: &mut Bed| bed.driver.node.domain_tree().iter().find(|it| it.id == domain.0).unwrap().memory_bytes;
    assert!(held(&mut bed) >= 119 * 320);
    (0..100).for_each(|source| feed(&mut bed, flow(source)));
    assert_eq!(status(&mut bed).traffic.left, known + 100, "those that are known go on");
    bed.now += 301_000_000_000;
    (2000..2200).for_each(|source| feed(&mut bed, flow(source)));
    assert!(status(&mut bed).traffic.left > known + 100 + 100, "the place of those that have ended is free again");
}

#[test]
fn a_domain_that_ends_takes_its_graph_with_it() {
    let mut bed = bed();
    let domain = run(&mut bed, TAKE, "FromDevice(eth0) -> Queue -> Shaper(1) -> ToDevice(eth1);").domain;
    (0..5).for_each(|_| feed(&mut bed, datagram_with(53, b"")));
    bed.turn(|node, turn| node.end_domain(turn, domain, true));
    assert!(bed.driver.node.graphs().is_empty());
    feed(&mut bed, datagram_with(53, b""));
    assert_eq!(bed.driver.node.balance().not_ours, 1);
    run(&mut bed, TAKE, THROUGH);
}

#[test]
fn what_a_queue_holds_goes_on_in_the_next_generation_or_leaves_by_the_old_one() {
    let slow = |queue: &str| format!("FromDevice(eth0) -> {queue} -> Shaper(100) -> ToDevice(eth1);");
    for (next, dropped) in [(slow("q :: Queue(20)"), 0), (slow("p :: Queue(20)"), 0), (slow("q :: Queue(2)"), 0)] {
        let mut bed = bed();
        run(&mut bed, TAKE, &slow("q :: Queue(20)"));
        (0..11).for_each(|_| feed(&mut bed, datagram_with(53, b"")));
        assert_eq!(run(&mut bed, TAKE, &next).generation, 2);
        for _ in 0..200 {
            bed.now += 10_000_000;
            bed.driver.timer_if_due(bed.now);
        }
        let found = status(&mut bed);
        assert_eq!(
            (left(&mut bed).len(), found.traffic.dropped, found.older),
            (11 - dropped, dropped as u64, 0),
            "{next}"
        );
    }
}

#[test]
fn what_an_old_generation_cannot_send_within_a_second_is_dropped_under_a_reason_of_its_own() {
    let mut bed = bed();
    let slow = |queue: &str| format!("FromDevice(eth0) -> {queue} :: Queue -> Shaper(1) -> ToDevice(eth1);");
    let domain = run(&mut bed, TAKE, &slow("a")).domain;
    (0..6).for_each(|_| feed(&mut bed, datagram_with(53, b"")));
    run(&mut bed, TAKE, &slow("b"));
    assert_eq!(status(&mut bed).older, 1);
    for _ in 0..30 {
        bed.now += 100_000_000;
        bed.driver.timer_if_due(bed.now);
    }
    let found = status(&mut bed);
    let lost = bed.usage(domain).unwrap().counts.drops.of(Reason::GraphReplaced);
    assert_eq!((found.older, found.traffic.held), (0, 0));
    assert!(lost >= 3 && lost == found.traffic.dropped, "{lost}");
}

/// A chain of engines between two painters, which say which generation a packet has begun in and which it has ended in.
fn edited(rng: &mut Xoshiro256PlusPlus, generation: u8) -> String {
    let engines =
        ["Counter", "Null", "CheckLength(2000)", "Tee(1)", "Paint(200)", "StripToNetworkHeader -> Unstrip(14)"];
    let mut text = format!("FromDevice(eth0) -> first :: Paint({generation})");
    for number in 0..rng.next_u32() % 10 {
        let named = rng.next_u32().is_multiple_of(6).then(|| format!("e{number} :: "));
        let engine = engines[rng.next_u32() as usize % engines.len()];
        // A named one is one engine.
        let engine = if engine.contains("->") || engine == "Paint(200)" { "Counter" } else { engine };
        text += &format!(" -> {}{engine}", named.unwrap_or_default());
    }
    // What begins in one generation and ends in another is seen by `mixed`.
    text + &format!(
        " -> last :: CheckPaint({generation}) -> q :: Queue(4096) -> ToDevice(eth1); last[1] -> mixed :: Counter -> Discard;"
    )
}

#[test]
fn thousands_of_edits_under_a_flood_lose_and_mix_nothing() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(17);
    let mut bed = bed();
    let (mut sent, mut arrived, mut number) = (0u64, 0u64, 0u32);
    run(&mut bed, TAKE, &edited(&mut rng, 0));
    for edit in 1..=3000u32 {
        // Some wait for their turn while the graph becomes another one.
        for _ in 0..rng.next_u32() % 8 {
            let frame = datagram_with(53, &number.to_be_bytes());
            number += 1;
            sent += 1;
            bed.turn(|node, turn| node.receive(turn, frame));
            if rng.next_u32().is_multiple_of(3) {
                settle(&mut bed);
            }
        }
        bed.now += 1000;
        let text = edited(&mut rng, edit as u8);
        let graph = spec(TAKE, &text).prepare().unwrap_or_else(|why| panic!("{text}: {why}"));
        let swapped = bed.turn(|node, turn| node.run_graph(turn, graph, Some(edit))).unwrap();
        assert_eq!(swapped.generation, edit + 1);
        assert_eq!(bed.driver.node.read_graph("g", "mixed", "count").as_deref(), Ok("0"), "{text}");
        for (_, bytes) in left(&mut bed) {
            assert_eq!(bytes[HEADERS..], (arrived as u32).to_be_bytes(), "in their order");
            arrived += 1;
        }
    }
    settle(&mut bed);
    arrived += left(&mut bed).len() as u64;
    assert_eq!((sent, status(&mut bed).traffic.dropped), (arrived, 0));
    assert!(sent > 5000);
}

#[test]
fn many_graphs_run_beside_each_other_each_in_its_domain() {
    let mut bed = bed();
    let of = |number: usize| {
        let take = format!("eth0/ip/udp *:{}", 1000 + number);
        let text = format!("FromDevice(eth0) -> c :: Counter -> Queue -> ToDevice(eth{});", number % 2);
        GraphSpec { name: format!("g{number}"), ..spec(&[&take], &text) }
    };
    let domains: Vec<DomainId> = (0..40).map(|number| put(&mut bed, of(number), None).unwrap().domain).collect();
    // Every other one ends.
    for number in (0..40).step_by(2) {
        bed.turn(|node, turn| node.end_graph(turn, &format!("g{number}"))).unwrap();
    }
    for number in 0..40 {
        (0..=number).for_each(|_| feed(&mut bed, datagram_with(1000 + number as u16, b"")));
    }
    for (number, domain) in domains.iter().enumerate().filter(|(number, _)| number % 2 == 1) {
        assert_eq!(bed.usage(*domain).unwrap().packets, number as u64 + 1);
        let count = bed.driver.node.read_graph(&format!("g{number}"), "c", "count");
        assert_eq!(count, Ok((number + 1).to_string()));
    }
}
