//! PLAN in simulated networks: the shipped programs, the resource bound under faults and lies, codes that travel once,
//! long packets, names, ports, and failures.

mod vectors;

use crate::net::{Net, app, host, lines, network, value};
use anode::apps::plan::{Script, delivered, packet};
use anode::core::reason::Reason;
use anode::ee::plan::{Config, config::Principal, message};
use anode::sim::{Actor, Carries, Line, SECOND, Shape};
use anode::topology::Ceiling;
use plan::name::Name;
use plan::packet::{Header, Packet, View};
use plan::value::{Callee, Chunk, Host, Value};
use std::sync::Arc;

fn drops(net: &Net, node: usize, reason: Reason) -> u64 {
    net.sim.status(node).unwrap().drops.of(reason)
}

#[test]
fn ping_comes_back_over_overlays_and_natively() {
    for carries in [Carries::Overlay, Carries::Ethernet] {
        let mut net = Net::line(5, Line { carries, ..Line::default() });
        let script = app("ping");
        assert_eq!(net.call(0, &script, "ping(hd thisHost(), getHostByName(\"n4\"))", 9), ["Success"], "{carries:?}");
        let sums = net.audit();
        // Eight links; the last one would be unused, and pays for word that the codes need not be sent again.
        assert_eq!((sums.injected, sums.spent, sums.unused), (9, 9, 0), "{carries:?}");
        // Codes travel once over each link and in each direction; then their digests do.
        let before = sums.by_digest;
        assert_eq!(net.call(0, &script, "ping(hd thisHost(), getHostByName(\"n4\"))", 9), ["Success"]);
        assert_eq!(net.audit().by_digest - before, 2, "{carries:?}");
        assert_eq!(net.audit().wanted, 0);
    }
}

#[test]
fn a_ping_without_enough_bound_is_counted_where_it_ends_and_nothing_pays_for_a_report() {
    let mut net = Net::line(5, Line::default());
    let printed = net.call(0, &app("ping"), "ping(hd thisHost(), getHostByName(\"n4\"))", 5);
    assert_eq!((printed.len(), drops(&net, 3, Reason::Bound), net.audit().reports), (0, 1, 0));
}

#[test]
fn traceroute_names_every_node_on_the_way() {
    let mut net = Net::line(4, Line::default());
    let printed = net.call(0, &app("traceroute"), "trace(hd thisHost(), getHostByName(\"n3\"), 0)", 50);
    let expected: Vec<_> = (0..4).map(|hop| format!("({hop}, {})", host(hop))).collect();
    assert_eq!(printed, expected);
}

#[test]
fn multicast_crosses_every_link_of_a_tree_once() {
    //        0
    //        1
    //    2       3
    //  4   5   6   7
    let links = [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6), (3, 7)];
    let mut net = Net::with(&links, Line::default(), Config::default());
    let dests = Value::list([4, 5, 6, 7, 1].into_iter().map(value)).unwrap();
    let arguments = [value(0), dests, Value::text(*b"news"), Value::Int(0)];
    net.inject(0, app("multicast").chunk("multicast", arguments).unwrap(), 200);
    net.sim.run_for(SECOND);
    let mut printed = lines(net.sim.take_printed());
    printed.sort();
    assert_eq!(printed, [1, 4, 5, 6, 7].map(|node| format!("(\"news\", {})", host(node))));
    net.audit();
}

/// What a forger does: whatever comes, it sends packets with all the bound there is.
struct Forger {
    bytes: Vec<u8>,
    sent: u64,
}

impl Actor for Forger {
    fn receive(&mut self, _: u64, port: usize, _: &[u8], send: &mut Vec<(usize, Vec<u8>)>) {
        if self.sent < 50 {
            self.sent += 1;
            send.push((port, anep(&self.bytes)));
        }
    }
}

fn anep(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; anode::wire::anep::HEADER];
    anode::wire::anep::emit_basic(&mut frame, anode::wire::anep::type_id::PLAN, message.len()).unwrap();
    frame.extend_from_slice(message);
    frame
}

/// A program that sends itself about as long as it can, halving its bound, to all neighbours.
const FLOOD: &str = "
fun each(load : blob, link : host * dev) : blob =
  (try OnNeighbor(|flood|(load), fst link, getRB() / 3 + 1, snd link) handle NotEnoughRB => (); load)
fun flood(load : blob) : unit = (foldl(each, load, getNeighbors()); ())";

#[test]
fn no_network_makes_bound_of_nothing_whatever_its_links_do() {
    // A mesh in which packets multiply for as long as their bounds last.
    let shape = Shape::Ring { nodes: 6 };
    for seed in 0..12 {
        let damaged = |at: u64| -> f64 { if seed % 4 == at { 0.2 } else { 0.0 } };
        let pieces = seed % 2 == 1;
        let line = Line {
            loss: damaged(1).max(damaged(3)),
            duplicate: damaged(2),
            reorder: 0.3,
            mtu: if pieces { 300 } else { 1500 },
            ..Line::default()
        };
        let mut lines = anode::sim::Network::new(shape, line, seed).unwrap();
        lines.ceiling = Ceiling::NONE;
        let mut net = Net::new(lines, seed);
        let script = Script::new("flood", FLOOD).unwrap();
        let load = Value::Blob(vec![7; if pieces { 700 } else { 10 }].into());
        for node in 0..net.sim.nodes() {
            net.inject(node, script.chunk("flood", [load.clone()]).unwrap(), 200);
        }
        for _ in 0..60 {
            net.sim.run_for(SECOND / 200);
            let sums = net.audit();
            if damaged(2) == 0.0 {
                assert!(sums.received <= sums.sent, "seed {seed}: {sums:?}");
                let (_, flying) = net.sim.plan_in_flight();
                let alive = sums.held + flying;
                assert!(alive + sums.spent + sums.unused <= sums.injected, "seed {seed}: {sums:?}");
            }
        }
        net.sim.run_for(30 * SECOND);
        let (sums, (flying, _)) = (net.audit(), net.sim.plan_in_flight());
        assert_eq!((sums.injected, sums.held, flying), (1200, 0, 0), "seed {seed}");
        if line.loss == 0.0 && line.duplicate == 0.0 {
            assert_eq!(sums.spent + sums.unused, 1200, "seed {seed}");
        } else if line.duplicate == 0.0 {
            assert_eq!(sums.spent + sums.unused + (sums.sent - sums.received), 1200, "seed {seed}");
        }
        assert!(sums.spent > 10, "seed {seed}: {sums:?}");
    }
}

#[test]
fn a_forging_neighbour_brings_in_no_more_than_its_ceiling() {
    let mut network = network(&[(0, 1), (1, 2), (2, 3), (3, 1)], Line::default());
    network.ceiling = Ceiling::all(8);
    let mut net = Net::new(network, 3);
    let flood = Script::new("flood", FLOOD).unwrap().chunk("flood", [Value::Blob([1; 9].into())]).unwrap();
    let header = Header { destination: host(1), source: host(0), ..Header::injected(host(0), u32::MAX) };
    let bytes = Packet { header, chunk: flood }.bytes().unwrap();
    net.sim.replace(0, Box::new(Forger { bytes: bytes.clone(), sent: 0 }));
    net.sim.put_frame(0, 0, &anep(&bytes));
    net.sim.run_for(20 * SECOND);
    let account = |node: usize| net.sim.status(node).unwrap().plan.unwrap().account;
    let sums = net.audit();
    let forged = account(1).clamped / u64::from(u32::MAX - 8);
    assert!(forged > 20, "{forged}");
    assert_eq!(account(1).clamped, forged * u64::from(u32::MAX - 8));
    // What is alive and what was spent comes from the ceiling, for each packet that was forged.
    assert!(sums.spent + sums.unused <= forged * 8, "{sums:?}");
}

/// Lines that lose, double, reorder and cut, and somebody who forges: a ring with two chords, its last node the forger.
#[test]
fn nobody_makes_bound_when_everything_goes_wrong_at_once() {
    const CEILING: u32 = 60;
    const NODES: usize = 6;
    let mut cut = 0;
    for seed in 0..10 {
        let line = Line { loss: 0.1, duplicate: 0.2, reorder: 0.3, mtu: 400, ..Line::default() };
        let mut links: Vec<_> = (0..NODES).map(|node| (node, (node + 1) % NODES)).collect();
        links.extend([(0, 3), (1, 4)]);
        let mut lines = network(&links, line);
        (lines.plan.bound_max, lines.ceiling) = (CEILING, Ceiling::all(CEILING));
        let mut net = Net::new(lines, seed);
        let flood = Script::new("flood", FLOOD).unwrap();
        let chunk = |bytes: usize| flood.chunk("flood", [Value::Blob(vec![7; bytes].into())]).unwrap();
        let header = Header { destination: host(0), ..Header::injected(host(0), u32::MAX) };
        let bytes = Packet { header, chunk: chunk(9) }.bytes().unwrap();
        net.sim.replace(NODES - 1, Box::new(Forger { bytes: bytes.clone(), sent: 0 }));
        for node in 0..NODES - 1 {
            net.inject(node, chunk(700), 200);
        }
        net.sim.put_frame(NODES - 1, 0, &anep(&bytes));
        let mut before = net.audit();
        for step in 0..7000 {
            net.sim.run_for(if step < 200 { SECOND / 200 } else { SECOND / 100 });
            if step < 200 || step == 6999 {
                let sums = net.audit();
                // What comes in is at most the ceiling for each packet, and nothing else makes any.
                assert!(sums.received <= sums.packets * u64::from(CEILING), "seed {seed}: {sums:?}");
                assert!(sums.injected == before.injected && sums.spent >= before.spent, "seed {seed}: {sums:?}");
                before = sums;
            }
        }
        // What applications inject is cut like what neighbours send.
        let injected = (NODES as u64 - 1) * u64::from(CEILING);
        assert_eq!((before.injected, before.held, net.sim.plan_in_flight().0), (injected, 0, 0), "seed {seed}");
        assert_eq!(before.injected + before.received, before.sent + before.spent + before.unused, "seed {seed}");
        let clamped = |node: usize| net.sim.status(node).unwrap().plan.unwrap().account.clamped;
        cut += (0..NODES - 1).map(clamped).sum::<u64>() / u64::from(u32::MAX - CEILING);
    }
    assert!(cut > 50, "{cut} forged packets were cut");
}

#[test]
fn a_long_packet_goes_in_pieces_and_none_of_it_is_lost() {
    let mut net = Net::line(3, Line { mtu: 400, ..Line::default() });
    let script = Script::new(
        "long",
        "fun back(load : blob) : unit = print(load)
         fun there(load : blob, home : host) : unit = OnRemote(|back|(load), home, getRB(), defaultRoute)
         fun long(load : blob, to : host) : unit = OnRemote(|there|(load, hd thisHost()), to, getRB(), defaultRoute)",
    )
    .unwrap();
    let load = Value::Blob(vec![3; 30_000].into());
    net.inject(0, script.chunk("long", [load, value(2)]).unwrap(), 400);
    net.sim.run_for(SECOND);
    assert_eq!(net.sim.take_printed(), ["<blob of 30000 bytes>"]);
    // Each frame of each hop is paid for: 30,000 bytes and some more, in 380 at a time; and word of the codes where the last packet ends.
    assert_eq!(net.audit().spent, 4 * 80 + 1);
}

#[test]
fn a_code_that_was_forgotten_is_asked_for_and_nothing_is_lost() {
    let mut network = network(&[(0, 1), (1, 2)], Line::default());
    // The node in the middle has room for one code: it forgets one while it learns the other.
    network.own_plan.insert(1, Config { codes: 1, ..Config::default() });
    network.own_plan.insert(2, Config { codes: 1, ..Config::default() });
    let mut net = Net::new(network, 1);
    for round in 0..5 {
        for name in ["ping", "hello"] {
            let call = format!("{name}(hd thisHost(), getHostByName(\"n2\"))");
            assert_eq!(net.call(0, &app(name), &call, 9).len(), 1, "{name} in round {round}");
        }
    }
    let sums = net.audit();
    assert!(sums.wanted > 3, "{sums:?}");
    assert_eq!(drops(&net, 1, Reason::FetchTimeout) + drops(&net, 2, Reason::FetchTimeout), 0);
}

#[test]
fn a_name_that_nobody_knows_yet_is_found_while_the_packet_waits() {
    let mut net = Net::line(2, Line::default());
    let script = Script::new(
        "names",
        "fun ask(name : string) : unit =
           (put(\"count\", getSession(), (try get(\"count\", getSession()) handle NotFound => 0) + 1, 9);
            print(try (getHostByName(name), get(\"count\", getSession()))
                  handle BadHost => (hd thisHost(), 0)))",
    )
    .unwrap();
    // What is done before a wait is done once.
    assert_eq!(net.call(0, &script, "ask(\"n1\")", 1), ["(10.0.0.2, 1)"]);
    assert_eq!(net.call(0, &script, "ask(\"n1\")", 1), ["(10.0.0.2, 2)"]);
    assert_eq!(net.call(0, &script, "ask(\"nobody\")", 1), ["(10.0.0.1, 0)"]);
    net.audit();
}

#[test]
fn values_are_delivered_to_applications_that_listen() {
    let mut net = Net::line(2, Line::default());
    let script = Script::new(
        "deliver",
        "fun there(what : int list) : unit =
           let val port = openPort(hd thisHost(), 101) in (deliver(port, what); closePort(port)) end
         fun send(what : int list, to : host) : unit = OnRemote(|there|(what), to, getRB(), defaultRoute)",
    )
    .unwrap();
    let numbers = Value::list([1, 2, 3].map(Value::Int).into_iter()).unwrap();
    net.inject(0, script.chunk("send", [numbers.clone(), value(1)]).unwrap(), 2);
    net.sim.run_for(SECOND);
    let told = net.sim.take_plan();
    let kinds: Vec<_> = told.iter().map(|told| (told.node, told.port, told.message[0])).collect();
    let seat = net.seats[1].port;
    assert_eq!(kinds, [message::OPENED, message::DELIVERED, message::CLOSED].map(|kind| (1, seat, kind)));
    let (header, value) = delivered(&told[1].message[9..]).unwrap();
    assert_eq!((header.source, value), (host(0), numbers));
    // Nobody listens as 77, and a port says nothing elsewhere.
    let script =
        Script::new("bad", "fun f(n : int) : unit = print(try (openPort(hd thisHost(), n); 1) handle BadPort => 0)");
    assert_eq!(net.call(0, &script.unwrap(), "f(77)", 1), ["0"]);
}

#[test]
fn an_application_that_is_gone_loses_what_comes_for_it() {
    let mut net = Net::line(2, Line { delay_ms: 100.0, ..Line::default() });
    let ping = app("ping");
    net.inject(0, ping.chunk("ping", [value(0), value(1)]).unwrap(), 4);
    net.sim.run_for(SECOND / 8);
    let port = net.seats[0].port;
    net.sim.detach_plan(0, port);
    net.sim.run_for(SECOND);
    assert_eq!((net.sim.take_plan(), drops(&net, 0, Reason::Evaluation)), (vec![], 2), "the answer, and its report");
    net.audit();
}

#[test]
fn reliable_packets_arrive_once_over_lines_that_lose_and_double() {
    let source = "
fun count() : unit =
  put(\"n\", getSession(), (try get(\"n\", getSession()) handle NotFound => 0) + 1, 300)
fun tell(n : int) : unit = print(n)
fun ask(home : host) : unit =
  OnRemote(|tell|(try get(\"n\", getSession()) handle NotFound => 0), home, getRB(), defaultRoute)
fun send(to : host) : unit = RetransOnRemote(|count|(), to, 12, defaultRoute, 20, 200)";
    let script = Script::new("reliable", source).unwrap();
    let mut arrived = 0;
    for seed in 0..6 {
        let line = Line { loss: 0.3, duplicate: 0.3, ..Line::default() };
        let mut net = Net::new(network(&[(0, 1), (1, 2)], line), seed);
        net.inject(0, script.chunk("send", [value(2)]).unwrap(), 240);
        net.sim.run_for(10 * SECOND);
        let status = net.sim.status(0).unwrap().plan.unwrap();
        assert_eq!(status.jobs, 0);
        let counted = (0..20).find_map(|_| {
            let ask = script.chunk("ask", [value(0)]).unwrap();
            let header = Header { destination: host(2), ..Header::injected(Host::default(), 9) };
            net.inject_packet(0, Packet { header, chunk: ask });
            net.sim.run_for(SECOND);
            net.sim.take_printed().pop()
        });
        assert_eq!(counted.as_deref(), Some("1"), "seed {seed}");
        arrived += 1;
        net.audit();
    }
    assert_eq!(arrived, 6);
}

#[test]
fn a_chunk_in_fragments_is_evaluated_when_all_are_there() {
    let source = "
fun arrived(load : blob) : unit = print(load)
fun home(load : blob, to : host) : unit = OnRemote(|arrived|(load), to, getRB(), defaultRoute)
fun each(to : host, part : unit chunk) : host = (OnRemote(part, to, 12, defaultRoute); to)
fun send(load : blob, to : host) : unit =
  (foldl(each, to, fragment(|home|(load, hd thisHost()), 500)); ())";
    let script = Script::new("fragments", source).unwrap();
    let mut net = Net::line(3, Line { reorder: 0.5, ..Line::default() });
    let load = Value::Blob(vec![1; 5000].into());
    net.inject(0, script.chunk("send", [load, value(2)]).unwrap(), 200);
    net.sim.run_for(SECOND);
    assert_eq!(net.sim.take_printed(), ["<blob of 5000 bytes>"]);
    net.audit();
}

#[test]
fn which_services_a_chunk_sees_depends_on_who_authenticated_it() {
    let name = |text: &str| Name::new(text).unwrap();
    let principal = |who: &str, byte| Principal {
        name: who.into(),
        key: [byte; 32],
        role: "anyone".into(),
        services: if who == "operator" { vec![name("memoryUse")] } else { vec![] },
    };
    let config = Config {
        principals: vec![principal("guest", 1), principal("operator", 2)],
        restricted: vec![name("memoryUse")],
        ..Config::default()
    };
    let mut net = Net::with(&[(0, 1)], Line::default(), config);
    let source = "
fun tell(who : string, lines : int) : unit = print((who, lines))
fun look(home : host) : unit =
  OnRemote(|tell|(getPrincipal(), try length(memoryUse()) handle ServiceNotPresent => 0), home, 1, defaultRoute)";
    let script = Script::new("look", source).unwrap();
    let look = script.chunk("look", [value(0)]).unwrap();
    let sealed = |who: &str, key: u8, number: i64, to: usize| {
        let code = anode::ee::plan::authenticator(&[key; 32], number, host(to), &look).unwrap();
        let inside = Value::Chunk(look.clone());
        let arguments = [Value::text(who.as_bytes()), Value::Int(number), Value::Blob(code.into()), inside];
        Arc::new(Chunk::new(Callee::Service(name("authEval")), arguments).unwrap())
    };
    let mut send = |chunk: Arc<Chunk>| {
        let header = Header { destination: host(1), ..Header::injected(Host::default(), 4) };
        net.inject_packet(0, Packet { header, chunk });
        net.sim.run_for(SECOND);
        net.sim.take_printed().concat()
    };
    assert_eq!(send(look.clone()), "(\"anyone\", 0)");
    assert_eq!(send(sealed("guest", 1, 1, 1)), "(\"guest\", 0)");
    assert_eq!(send(sealed("operator", 2, 1, 1)), "(\"operator\", 14)");
    let refused = |printed: String| printed.contains("authEval") && printed.contains("raised Refused");
    assert!(refused(send(sealed("operator", 2, 1, 1))), "replayed");
    assert!(refused(send(sealed("operator", 1, 2, 1))), "with another key");
    assert!(refused(send(sealed("operator", 2, 2, 0))), "for another host");
    assert!(refused(send(sealed("nobody", 2, 2, 1))));
    assert_eq!(send(sealed("operator", 2, 2, 1)), "(\"operator\", 14)");
}

#[test]
fn the_bandwidth_service_counts_what_arrives() {
    let source = "
fun tell(count : int * int * int) : unit = print(count)
fun report(home : host) : unit = OnRemote(|tell|(bandwidthReport(\"m\")), home, getRB(), defaultRoute)
fun open() : unit = bandwidthReceive(\"m\", 60)
fun meter(to : host) : unit = RetransOnRemote(|open|(), to, 8, defaultRoute, 2, 900)
fun start(to : host) : unit = bandwidthSend(to, \"m\", 50, 500, 100, 2)";
    let script = Script::new("bandwidth", source).unwrap();
    let mut lines = network(&[(0, 1), (1, 2)], Line::default());
    lines.plan.restricted.clear();
    let mut net = Net::new(lines, 1);
    let refused = net.call(0, &script, "start(getHostByName(\"n2\"))", 110);
    assert!(refused[0].contains("Refused"), "a host that has not answered: {refused:?}");
    net.inject(0, script.chunk("meter", [value(2)]).unwrap(), 20);
    net.sim.run_for(SECOND / 2);
    net.inject(0, script.chunk("start", [value(2)]).unwrap(), 110);
    net.sim.run_for(5 * SECOND);
    let header = Header { destination: host(2), ..Header::injected(Host::default(), 9) };
    net.inject_packet(0, Packet { header, chunk: script.chunk("report", [value(0)]).unwrap() });
    net.sim.run_for(SECOND);
    assert_eq!(net.sim.take_printed(), ["(50, 25000, 490)"]);
    let sums = net.audit();
    assert_eq!(sums.injected, 110 + 20 + 119);
    assert!(net.call(0, &script, "start(getHostByName(\"n2\"))", 20)[0].contains("NotEnoughRB"));
}

#[test]
fn flows_keep_to_the_way_that_was_set_for_their_session() {
    // Two ways from 0 to 3: by 1, which routing prefers or not, and by 2.
    let mut net = Net::with(&[(0, 1), (1, 3), (0, 2), (2, 3)], Line::default(), Config::default());
    let source = "
fun passed(by : host) : unit = print(by)
fun there(home : host) : unit = OnRemote(|passed|(getPrevious()), home, getRB(), defaultRoute)
fun go(home : host, to : host) : unit = OnRemote(|there|(home), to, getRB(), flowRoute)
fun step(by : host, link : host * dev) : host =
  (if fst link = by then setFlow(7, by, snd link, 60) else (); by)
fun setup(by : host) : unit = (foldl(step, by, getNeighbors()); ())";
    let script = Script::new("flows", source).unwrap();
    for by in [1, 2, 1] {
        net.inject(0, script.chunk("setup", [value(by)]).unwrap(), 1);
        let header = Header { flow: 7, ..Header::injected(Host::default(), 9) };
        net.inject_packet(0, Packet { header, chunk: script.chunk("go", [value(0), value(3)]).unwrap() });
        net.sim.run_for(SECOND);
        assert_eq!(net.sim.take_printed(), [host(by).to_string()]);
    }
}

#[test]
fn packets_to_oneself_end_with_their_bound_and_their_queue() {
    let source = "fun split() = (OnRemote(|split|(), getSource(), getRB() / 2, defaultRoute);
                                 OnRemote(|split|(), getSource(), getRB(), defaultRoute))";
    let script = Script::new("split", source).unwrap();
    let mut net = Net::line(1 + 1, Line::default());
    net.inject(0, script.chunk("split", []).unwrap(), 4000);
    net.sim.run_for(SECOND);
    let sums = net.audit();
    assert_eq!((sums.held, sums.spent + sums.unused), (0, 4000));
}

#[test]
fn garbage_moves_a_counter_and_nothing_else() {
    let mut net = Net::line(2, Line::default());
    let header = Header { destination: host(1), ..Header::injected(host(0), 9) };
    let good = Packet { header, chunk: app("ping").chunk("ping", [value(0), value(1)]).unwrap() }.bytes().unwrap();
    let mut bad: Vec<Vec<u8>> = vec![vec![], vec![1], vec![0x7f; 200], vec![0x80; 20], vec![0x81; 36], vec![0xff; 9]];
    bad.extend((1..good.len()).map(|length| good[..length].to_vec()));
    bad.push(good.iter().copied().chain([0]).collect());
    let count = bad.len() as u64;
    for message in bad {
        net.sim.put_frame(0, 0, &anep(&message));
        net.sim.run_for(SECOND / 100);
    }
    assert_eq!(drops(&net, 1, Reason::MalformedPlan), count);
    assert_eq!(net.sim.status(1).unwrap().plan.unwrap().account.evaluated, 0);
    net.audit();
    assert!(View::new_checked(&good).is_some() && packet(app("ping").chunk("ack", []).unwrap(), 1).bytes().is_some());
}

fn module(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/apps/services/{name}.wat", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn services_are_loaded_replaced_and_taken_out_while_packets_come() {
    let source = "
svc flowStat : (int, int) -> int * int * int
fun tell(counts : int * int * int) : unit = print(counts)
fun count(bytes : int, home : host) : unit = OnRemote(|tell|(flowStat(getFlow(), bytes)), home, getRB(), defaultRoute)";
    let script = Script::new("flowstat", source).unwrap();
    let mut net = Net::line(2, Line::default());
    let count = |net: &mut Net, flow: u32, bytes: i64| {
        let chunk = script.chunk("count", [Value::Int(bytes), value(0)]).unwrap();
        let header = Header { destination: host(1), flow, ..Header::injected(Host::default(), 9) };
        net.inject_packet(0, Packet { header, chunk });
        // A hand-over between workers takes some microseconds.
        net.sim.run_for(SECOND + SECOND / 10_000);
        net.sim.take_printed().concat()
    };
    assert!(count(&mut net, 7, 100).ends_with("raised ServiceNotPresent on 10.0.0.2"));
    let kind = "(int, int) -> int * int * int";
    net.sim.load_service(1, "flowStat", kind, &module("flowstat")).unwrap();
    assert_eq!(count(&mut net, 7, 100), "(1, 100, 0)");
    assert_eq!(count(&mut net, 7, 50), "(2, 150, 1000)");
    assert_eq!(count(&mut net, 9, 1), "(1, 1, 0)");
    assert_eq!(count(&mut net, 7, 0), "(2, 150, 3000)");
    assert!(count(&mut net, 8, 0).ends_with("raised NotFound on 10.0.0.2"), "the module raises it");
    // Another of the same name begins anew; one that does not keep to its type harms nobody.
    net.sim.load_service(1, "flowStat", kind, &module("flowstat")).unwrap();
    assert_eq!(count(&mut net, 7, 1), "(1, 1, 0)");
    net.sim.load_service(1, "flowStat", "(int, int) -> int * int", &module("flowstat")).unwrap();
    assert!(count(&mut net, 7, 1).ends_with("raised BadService on 10.0.0.2"));
    let node = net.sim.status(1).unwrap().plan.unwrap();
    assert_eq!(node.services, ["flowStat"]);
    net.audit();
}

#[test]
fn a_loaded_service_may_take_the_place_of_a_core_one_and_has_its_steps() {
    let script = Script::new("rand", "fun r() : unit = print(rand() < 1073741823)").unwrap();
    let mut net = Net::line(2, Line::default());
    net.sim.load_service(0, "rand", "void -> int", &module("rand")).unwrap();
    assert_eq!(net.call(0, &script, "r()", 1), ["true"]);
    let endless = b"(module (memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 0))
        (func (export \"service\") (param i32) (result i32) (loop (br 0)) (i32.const 0)))";
    net.sim.load_service(0, "rand", "void -> int", endless).unwrap();
    assert!(net.call(0, &script, "r()", 1)[0].contains("raised StepLimit"));
    for (name, why) in [("eval", "cannot be"), ("NoRoute", "cannot be"), ("1x", "no name"), ("", "no name")] {
        assert!(net.sim.load_service(0, name, "void -> int", &module("rand")).unwrap_err().contains(why), "{name}");
    }
    assert!(net.sim.load_service(0, "x", "int list -> int", &module("rand")).is_err());
    assert!(net.sim.load_service(0, "x", "void -> int", b"garbage").is_err());
}
