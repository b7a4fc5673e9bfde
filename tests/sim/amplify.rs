//! No node is an amplifier. One packet of a forging neighbour causes at most its bound × MTU bytes in the whole
//! network, with the bound cut to the ceiling of the port. A silent address gets three times the bytes that came in its
//! name, also as a neighbour's.

use crate::guests::{bouncing, bundle, header, module, seed};
use crate::net::{Net, host, network, value};
use anode::apps::plan::Script;
use anode::core::reason::Reason;
use anode::ee::plan::{Config, rip::Timers};
use anode::frame::{PeerId, PortId};
use anode::node::entry::FRAME_STEPS;
use anode::sim::{Actor, Carries, Change, Line, Network, SECOND, Shape, Simulation};
use anode::topology::Ceiling;
use anode::trust::{PrincipalKey, Revocation, Subject};
use anode::wire::{Addr, Digest, anep, arp, capsule, ethernet, ipv4, udp};
use plan::name::Name;
use plan::packet::{Header, Outline, Packet};
use plan::program;
use plan::value::{Callee, Chunk, Value};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

pub const MTU: usize = 1500;
pub const NODES: usize = 12;

/// Somebody who says nothing and counts the bytes that come.
struct Silent(Rc<Cell<usize>>);

impl Actor for Silent {
    fn receive(&mut self, _: u64, _: usize, frame: &[u8], _: &mut Vec<(usize, Vec<u8>)>) {
        self.0.set(self.0.get() + frame.len());
    }
}

/// Puts somebody silent in the place of a node.
pub fn silence(sim: &mut Simulation, node: usize) -> Rc<Cell<usize>> {
    let bytes = Rc::new(Cell::new(0));
    sim.replace(node, Box::new(Silent(bytes.clone())));
    bytes
}

/// Bytes that nodes have sent.
fn sent(sim: &Simulation) -> u64 {
    let nodes = (0..sim.nodes()).filter_map(|node| sim.status(node));
    nodes.flat_map(|status| status.ports).map(|port| port.gauge.sent_bytes).sum()
}

/// Packets whose bounds were cut.
fn clamped(sim: &Simulation) -> u64 {
    let nodes = (0..sim.nodes()).filter_map(|node| sim.status(node));
    nodes.flat_map(|status| status.ports).map(|port| port.gauge.clamped).sum()
}

/// A frame of this ANEP type.
pub fn framed(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; anep::HEADER];
    anep::emit_basic(&mut frame, kind, payload.len()).unwrap();
    frame.extend_from_slice(payload);
    frame
}

/// One frame of this ANEP type leaves a node that is a forger's, and everything happens that comes of it; the bytes that nodes send then,
/// which are counted while it happens, so that an endless amplifier is found out.
fn cause(sim: &mut Simulation, forger: usize, kind: u16, payload: &[u8], most: u64, what: &str) -> u64 {
    let before = sent(sim);
    sim.put_frame(forger, 0, &framed(kind, payload));
    for _ in 0..400 {
        sim.run_for(SECOND / 20);
        let caused = sent(sim) - before;
        assert!(caused <= most, "{what}: {caused} bytes of one packet, where {most} may");
    }
    sent(sim) - before
}

/// A network of some shape, and behind node 0 the forger, the last node.
pub fn attacked(seed: u64) -> Network {
    let shape = match seed % 3 {
        0 => Shape::Random { nodes: NODES, degree: 3 },
        1 => Shape::Tree { nodes: NODES, fanout: 3 },
        _ => Shape::Grid { width: 4, height: 3 },
    };
    let mut network = Network::new(shape, Line::default(), seed).unwrap();
    network.names.push("forger".into());
    network.link(0, NODES, Line::default());
    network
}

#[test]
fn one_capsule_of_a_forger_causes_at_most_its_bound_in_full_packets() {
    let base = seed(900);
    for seed in base..base + 12 {
        let mut sim = crate::net::simulation(attacked(seed), seed).unwrap();
        let code = bouncing(0, 0);
        for node in 0..NODES {
            sim.add_code(node, &code);
            sim.open(node, 1);
            // Everybody has the code ready.
            sim.inject(node, header(code.name(), sim.address(node), 1), b"").unwrap();
        }
        sim.run_for(SECOND);
        let (victim, other, from) = (sim.address(NODES - 1), sim.address(NODES / 2), sim.address(NODES));
        silence(&mut sim, NODES);
        let head = capsule::Header { bound: u32::MAX, previous: from, source: other, ..header(code.name(), victim, 0) };
        let mut payload = vec![7; MTU - anep::HEADER];
        head.emit(&mut payload).unwrap();
        let most = u64::from(Ceiling::default().unsigned) * MTU as u64;
        let caused = cause(&mut sim, NODES, anep::type_id::CAPSULE, &payload, most, &format!("seed {seed}"));
        assert!(caused > most / 4 && clamped(&sim) == 1, "seed {seed}: {caused} bytes, {} cut", clamped(&sim));
    }
}

#[test]
fn a_capsule_whose_code_must_come_first_is_cut_when_it_has_come() {
    let mut sim =
        crate::net::simulation(Network::new(Shape::Line { nodes: 4 }, Line::default(), 1).unwrap(), 1).unwrap();
    let code = bundle("fork", 0, module("", "i32.const 1"));
    // The first node is no forger: it has the code, and a bound that its application may choose.
    sim.add_code(0, &code);
    sim.open(3, 1);
    sim.inject(0, header(code.name(), sim.address(3), 5000), b"").unwrap();
    sim.run_for(SECOND);
    assert_eq!((sim.totals().delivered, clamped(&sim)), (1, 1), "cut once, by the node where it came in");
}

/// Programs that would cause as much as they can, each a function of a blob, the victim and a list of numbers.
const GREEDY: &[(&str, &str)] = &[
    (
        "flood",
        "fun each(s : blob, link : host * dev) : blob =
           (try OnNeighbor(|main|(s, fst link, []), fst link, getRB() / 3 + 1, snd link) handle NotEnoughRB => (); s)
         fun main(load : blob, to : host, n : int list) : unit = (foldl(each, load, getNeighbors()); ())",
    ),
    (
        "fail",
        "exception Mine
         fun wrong(load : blob) : unit = raise Mine
         fun one(s : host * blob, i : int) : host * blob = (OnRemote(|wrong|(#2 s), #1 s, 1, defaultRoute); s)
         fun main(load : blob, to : host, n : int list) : unit = (foldl(one, (hd thisHost(), load), n); ())",
    ),
    (
        "again",
        "fun idle(load : blob) : unit = ()
         fun one(s : host * blob, i : int) : host * blob =
           (RetransOnRemote(|idle|(#2 s), #1 s, 3, defaultRoute, 5, 10); s)
         fun main(load : blob, to : host, n : int list) : unit = (foldl(one, (to, load), n); ())",
    ),
    (
        "measure",
        "fun main(load : blob, to : host, n : int list) : unit = bandwidthSend(to, \"x\", 2, 60000, 100000, getRB() / 2)",
    ),
    (
        "long way",
        "fun idle(load : blob) : unit = ()
         fun main(load : blob, to : host, n : int list) : unit = OnRemote(|idle|(load), to, getRB(), defaultRoute)",
    ),
    (
        "here",
        "fun main(load : blob, to : host, n : int list) : unit =
           OnRemote(|main|(load, to, n), hd thisHost(), getRB(), defaultRoute)",
    ),
];

#[test]
fn one_plan_packet_of_a_forger_causes_at_most_its_bound_in_full_packets() {
    let base = seed(950);
    let mut most_caused = 0;
    for seed in base..base + 18 {
        let (name, source) = GREEDY[seed as usize % GREEDY.len()];
        let mut network = attacked(seed);
        // Even where everybody may use all services.
        network.plan.restricted.clear();
        let mut net = Net::new(network, seed);
        silence(&mut net.sim, NODES);
        let victim = NODES - 1;
        let script = Script::new(name, source).unwrap_or_else(|why| panic!("{name}: {why}"));
        let numbers = Value::list((0..200).map(Value::Int)).unwrap();
        let load = Value::Blob(vec![seed as u8; [9, 1100, 20][seed as usize / GREEDY.len() % 3]].into());
        let chunk = script.chunk("main", [load, value(victim), numbers]).unwrap();
        let head = Header { destination: host(0), source: host(victim), ..Header::injected(host(victim), u32::MAX) };
        let bytes = Packet { header: head, chunk }.bytes().unwrap();
        let most = u64::from(Ceiling::default().unsigned) * MTU as u64;
        let caused = cause(&mut net.sim, NODES, anep::type_id::PLAN, &bytes, most, &format!("{name}, seed {seed}"));
        most_caused = most_caused.max(caused);
        net.audit();
    }
    assert!(most_caused > 10 * MTU as u64, "{most_caused} bytes at most: nobody has tried");
}

/// A forger, a node, and somebody silent behind it.
fn three(config: Config) -> (Net, Rc<Cell<usize>>) {
    let mut lines = network(&[(0, 1), (1, 2)], Line::default());
    lines.ceiling = Ceiling::default();
    lines.plan = config;
    let mut net = Net::new(lines, 1);
    silence(&mut net.sim, 0);
    let victim = silence(&mut net.sim, 2);
    (net, victim)
}

/// One forged packet that says to be of the victim's has node 1 evaluate this.
fn forge(net: &mut Net, chunk: Arc<Chunk>, what: &str) -> usize {
    let head = Header { destination: host(1), source: host(2), ..Header::injected(host(2), u32::MAX) };
    let bytes = Packet { header: head, chunk }.bytes().unwrap();
    let most = u64::from(Ceiling::default().unsigned) * MTU as u64;
    cause(&mut net.sim, 0, anep::type_id::PLAN, &bytes, most, what);
    bytes.len() + anep::HEADER
}

/// `bandwidthSend` of as much as there can be.
fn bandwidth(size: i64) -> Arc<Chunk> {
    let numbers = [4000, size, 100_000, 1].map(Value::Int);
    let arguments = [value(2), Value::text(*b"")].into_iter().chain(numbers);
    let service = Callee::Service(Name::new("bandwidthSend").unwrap());
    Arc::new(Chunk::new(service, arguments.collect::<Vec<_>>()).unwrap())
}

#[test]
fn the_bandwidth_service_is_not_for_strangers() {
    let (mut net, victim) = three(Config::default());
    let came = forge(&mut net, bandwidth(60_000), "bandwidthSend");
    assert!(came < 180 && victim.get() <= 3 * (came + 42), "{came} bytes came, {} went to the victim", victim.get());
    let account = net.sim.status(1).unwrap().plan.unwrap().account;
    assert_eq!((account.failed, account.reports), (1, 1), "it is told that there is no such service");
}

#[test]
fn where_everybody_may_use_it_a_silent_host_gets_three_times_what_came() {
    for size in [0, 100, 1400, 60_000] {
        let (mut net, victim) = three(Config { restricted: vec![], ..Config::default() });
        let mut came = 0;
        for count in [64, 5, 1] {
            let numbers = [count, size, 100_000, 1].map(Value::Int);
            let arguments = [value(2), Value::text(*b"")].into_iter().chain(numbers);
            let service = Callee::Service(Name::new("bandwidthSend").unwrap());
            let chunk = Arc::new(Chunk::new(service, arguments.collect::<Vec<_>>()).unwrap());
            // Each frame has 42 bytes of other headers around it, which count.
            came += forge(&mut net, chunk, "bandwidthSend") + 42;
        }
        assert!(victim.get() <= 3 * came, "{size}: {came} bytes came, {} went to the victim", victim.get());
    }
}

#[test]
fn a_packet_has_as_many_reports_as_its_source_has_sent_for() {
    let source = "
exception Mine
fun wrong() : unit = raise Mine
fun one(s : host, i : int) : host = (try OnRemote(|wrong|(), s, 3, defaultRoute) handle NotEnoughRB => (); s)
fun main(n : int list) : unit = (foldl(one, hd thisHost(), n); ())";
    let (mut net, victim) = three(Config::default());
    let numbers = Value::list((0..200).map(Value::Int)).unwrap();
    let came = forge(&mut net, Script::new("reports", source).unwrap().chunk("main", [numbers]).unwrap(), "reports");
    let account = net.sim.status(1).unwrap().plan.unwrap().account;
    assert!(victim.get() <= 3 * (came + 42), "{came} bytes came, {} went to the victim", victim.get());
    assert!(account.failed > 15 && account.reports + account.unreported == account.failed, "{account:?}");
    assert!(account.reports > 0 && account.unreported > 0, "{account:?}");
    assert_eq!(net.sim.status(1).unwrap().drops.of(Reason::Unanswered), account.unreported);
}

#[test]
fn a_source_that_sends_enough_is_told_of_few_failures_a_second() {
    let (mut net, _) = three(Config::default());
    let script = Script::new("fail", "exception Mine fun main(load : blob) : unit = raise Mine").unwrap();
    let chunk = script.chunk("main", [Value::Blob([0; 1000].into())]).unwrap();
    let head = Header { destination: host(1), source: host(2), ..Header::injected(host(2), 9) };
    let bytes = Packet { header: head, chunk }.bytes().unwrap();
    let mut frame = vec![0; anep::HEADER];
    anep::emit_basic(&mut frame, anep::type_id::PLAN, bytes.len()).unwrap();
    frame.extend_from_slice(&bytes);
    for _ in 0..500 {
        net.sim.put_frame(0, 0, &frame);
    }
    net.sim.run_for(SECOND / 2);
    let account = net.sim.status(1).unwrap().plan.unwrap().account;
    assert_eq!((account.failed, account.reports), (500, u64::from(anode::topology::reach::REPORTS_PER_SECOND)));
    assert!(net.sim.status(1).unwrap().drops.of(Reason::ReportRate) > 400);
}

#[test]
fn a_long_packet_pays_for_each_of_its_pieces_on_each_link() {
    let mut lines = network(&[(0, 1), (1, 2), (2, 3)], Line::default());
    lines.ceiling = Ceiling::NONE;
    let script = Script::new(
        "long",
        "fun there(load : blob) : unit = print(1)
        fun main(load : blob, to : host, rb : int) : int = (OnRemote(|there|(load), to, rb, defaultRoute); getRB())",
    )
    .unwrap();
    // 20,000 bytes are 14 frames: so many are paid on each of three links.
    for (bound, arrives) in [(42, true), (41, false), (15, false), (3, false)] {
        let mut net = Net::new(lines.clone(), 1);
        let load = Value::Blob(vec![5; 20_000].into());
        net.inject(0, script.chunk("main", [load, value(3), Value::Int(bound)]).unwrap(), 100);
        net.sim.run_for(SECOND);
        let evaluated = net.sim.status(3).unwrap().plan.unwrap().account.evaluated;
        assert_eq!(evaluated == 1, arrives, "with {bound}");
        assert!(net.audit().spent <= bound as u64, "{:?}", net.audit());
    }
}

#[test]
fn a_question_to_the_resolver_costs_one_of_the_bound() {
    let mut net = Net::line(2, Line::default());
    let source = "fun ask(s : string, i : int) : string = (try (getHostByName(s); ()) handle BadHost => (); s ^ \"x\")
        fun main(n : int list) : unit = (foldl(ask, \"a\", n); print(getRB()))";
    let script = Script::new("names", source).unwrap();
    let mut said = |bound: u32| {
        let numbers = Value::list((0..5).map(Value::Int)).unwrap();
        net.inject(0, script.chunk("main", [numbers]).unwrap(), bound);
        net.sim.run_for(2 * SECOND);
        net.audit();
        net.sim.take_printed().concat()
    };
    assert!(said(3).contains("raised NotEnoughRB"), "five questions cost five");
    assert_eq!(said(9), "7", "three of five are known by now");
    assert_eq!(said(9), "9", "and now all of them");
}

/// Who has taken an address on a link, says nothing but where it is, and counts what comes to it there.
struct Victim {
    addr: [u8; 4],
    bytes: Rc<Cell<usize>>,
}

impl Actor for Victim {
    fn receive(&mut self, _: u64, port: usize, frame: &[u8], send: &mut Vec<(usize, Vec<u8>)>) {
        let Ok(parsed) = ethernet::FrameView::new_checked(frame) else { return };
        let (link, payload) = (ethernet::Repr::parse(&parsed), parsed.payload());
        let question = arp::Repr::parse(payload).ok().filter(|_| link.ethertype == ethernet::ethertype::ARP);
        if let Some(question) = question.filter(|question| question.target_ip == self.addr) {
            let (own, asker) = (ethernet::Mac([2, 0, 0, 0, 0, 9]), question.sender_mac);
            let answer = arp::Repr {
                operation: arp::Operation::Reply,
                sender_mac: own,
                sender_ip: self.addr,
                target_mac: asker,
                target_ip: question.sender_ip,
            };
            let mut bytes = vec![0; 14 + arp::LENGTH];
            let back = ethernet::Repr { destination: asker, source: own, ..link };
            back.emit(&mut bytes).unwrap();
            answer.emit(&mut bytes[14..]).unwrap();
            send.push((port, bytes));
        } else if link.ethertype == ethernet::ethertype::IPV4 && payload.get(16..20) == Some(&self.addr[..]) {
            self.bytes.set(self.bytes.get() + frame.len());
        }
    }
}

/// A capsule that says to be of a neighbour, in UDP, IPv4 and Ethernet.
fn forged_neighbour(previous: Addr, to: Addr) -> Vec<u8> {
    let head = capsule::Header { previous, source: previous, ..header(Digest([9; 32]), to, 9) };
    let inner = anep::HEADER + capsule::HEADER;
    let mut frame = vec![0; 14 + 20 + 8 + inner];
    let (source, destination) = (ethernet::Mac([2, 0, 0, 0, 0, 9]), ethernet::Mac([2, 0, 0, 0, 0, 1]));
    let link = ethernet::Repr { destination, source, tag: None, ethertype: ethernet::ethertype::IPV4 };
    link.emit(&mut frame).unwrap();
    let ip = ipv4::Repr::new(previous.bytes_v4().unwrap(), to.bytes_v4().unwrap(), 17, 64, 8 + inner);
    ip.emit(&mut frame[14..]).unwrap();
    let udp = udp::Repr { source_port: anep::UDP_PORT, destination_port: anep::UDP_PORT, payload_len: inner };
    udp.emit(&mut frame[34..]).unwrap();
    anep::emit_basic(&mut frame[42..], anep::type_id::CAPSULE, capsule::HEADER).unwrap();
    head.emit(&mut frame[42 + anep::HEADER..]).unwrap();
    frame
}

#[test]
fn a_neighbour_that_somebody_made_up_is_told_three_times_what_came_in_its_name() {
    let line = Line { carries: Carries::Ethernet, ..Line::default() };
    let mut lines = network(&[(0, 1), (1, 2), (2, 3)], line);
    lines.plan = Config { rip: Some(Timers::default()), ..Config::default() };
    let mut net = Net::new(lines, 1);
    // Nobody has the first address of the link's subnet.
    let (near, addr, bytes) = (Addr::v4([172, 16, 0, 0]), [172, 16, 0, 0], Rc::new(Cell::new(0)));
    net.sim.replace(0, Box::new(Victim { addr, bytes: bytes.clone() }));
    let to = net.sim.address(1);
    let known = |net: &Net| net.sim.status(1).unwrap().neighbours.len();
    let (before, mut came) = (known(&net), 0);
    let mut forge = |net: &mut Net| {
        let frame = forged_neighbour(near, to);
        net.sim.put_frame(0, 0, &frame);
        came += frame.len();
        net.sim.run_for(30 * SECOND);
        came
    };
    forge(&mut net);
    assert_eq!(known(&net), before + 1, "it is taken for a neighbour: {}", net.sim.report());
    for number in 0..200u8 {
        let code = Subject::Code(Digest::of(&[number]));
        let key = PrincipalKey::from_seed([number; 32]);
        net.sim.revoke(1, &Revocation::sign(&key, code, 5)).unwrap();
    }
    for _ in 0..20 {
        let came = forge(&mut net);
        assert!(bytes.get() <= 3 * came, "{came} bytes came, {} went to a neighbour that there is not", bytes.get());
    }
    assert!(bytes.get() > 0 && known(&net) == before + 1, "it would have been told: {}", net.sim.report());
    let told = net.sim.node(2).unwrap().revocations();
    assert_eq!(told.known, 200, "those who are there are told all: {told:?}");
    assert!(net.sim.status(1).unwrap().drops.of(Reason::Unanswered) > 200);
}

/// A line of so many nodes with the ceilings of the default configuration, and a forger behind its first one.
pub fn line_with_forger(nodes: usize) -> Network {
    let links: Vec<_> = (1..nodes).map(|node| (node - 1, node)).chain([(0, nodes)]).collect();
    let mut lines = network(&links, Line::default());
    lines.ceiling = Ceiling::default();
    lines
}

/// A message as a neighbour sends it: itself, or its pieces.
pub fn frames(message: &[u8]) -> Vec<Vec<u8>> {
    let room = MTU - anep::HEADER;
    if message.len() <= room {
        return vec![message.to_vec()];
    }
    let pieces = anode::wire::plan::pieces(message, room, 1).unwrap();
    pieces
        .map(|piece| {
            let mut frame = vec![0; room];
            let length = anode::wire::plan::emit_piece(&piece, &mut frame).unwrap();
            frame.truncate(length);
            frame
        })
        .collect()
}

/// A chunk of many small codes, and a program that fills the packet.
pub fn of_many_codes(codes: usize, fill: usize) -> Arc<Chunk> {
    let small = |number: usize| {
        let script = Script::new("small", &format!("fun f(n : int) : int = n + {number}")).unwrap();
        Value::Chunk(script.chunk("f", [Value::Int(1)]).unwrap())
    };
    let script = Script::new("many", "fun main(load : blob, all : (int chunk) list) : unit = ()").unwrap();
    let all = Value::list((0..codes - 1).map(small)).unwrap();
    script.chunk("main", [Value::Blob(vec![0; fill].into()), all]).unwrap()
}

#[test]
fn what_nodes_say_to_each_other_of_a_packets_codes_is_paid_by_its_bound() {
    const LINE: usize = 10;
    for (fill, bound) in [(10, 9), (1000, 9), (1200, 9), (1200, 18), (1200, 64), (5000, 40)] {
        let mut net = Net::new(line_with_forger(LINE), 1);
        silence(&mut net.sim, LINE);
        let head = Header { destination: host(LINE - 1), ..Header::injected(host(LINE), bound) };
        let chunk = of_many_codes(16, fill);
        let bytes = Packet { header: head, chunk }.bytes().unwrap();
        let most = u64::from(bound) * MTU as u64;
        let pieces = frames(&bytes);
        let (last, others) = pieces.split_last().unwrap();
        others.iter().for_each(|piece| net.sim.put_frame(LINE, 0, &framed(anep::type_id::PLAN, piece)));
        let caused = cause(&mut net.sim, LINE, anep::type_id::PLAN, last, most, &format!("{fill}, {bound}"));
        assert!(caused > 0, "{fill}, {bound}: it has gone nowhere");
        net.audit();
    }
}

#[test]
fn nor_does_it_cause_more_where_nodes_have_forgotten_the_codes() {
    const LINE: usize = 10;
    for forgetful in [vec![3], vec![9], vec![2, 4, 6, 8]] {
        let mut net = Net::new(line_with_forger(LINE), 1);
        silence(&mut net.sim, LINE);
        let (mut caused, mut wanted) = ([0, 0], 0);
        for (round, caused) in caused.iter_mut().enumerate() {
            let account = |net: &Net, node| net.sim.status(node).unwrap().plan.unwrap().account;
            let before = account(&net, LINE - 1).evaluated;
            let head = Header { destination: host(LINE - 1), ..Header::injected(host(LINE), 64) };
            let whole = Packet { header: head, chunk: of_many_codes(5, 700 + round) }.bytes().unwrap();
            let mut bytes = whole.clone();
            if round > 0 {
                bytes.clear();
                Outline::read(&whole).unwrap().contract(program::Digest::of, &mut bytes).unwrap();
            }
            *caused = cause(&mut net.sim, LINE, anep::type_id::PLAN, &bytes, 64 * MTU as u64, "codes by digest");
            assert_eq!(account(&net, LINE - 1).evaluated, before + 1, "round {round}");
            wanted = (0..LINE).map(|node| account(&net, node).wanted).sum();
            // Not the first: the forger does not answer its questions.
            for node in &forgetful {
                net.sim.change(Change::Crash { node: *node });
                net.sim.change(Change::Restart { node: *node, store_kept: true });
            }
        }
        assert!(wanted >= forgetful.len() as u64, "{forgetful:?}: nobody asked, {caused:?}");
    }
}

#[test]
fn packets_that_lack_one_code_have_one_question() {
    for (packets, spread, asked) in [(1, 0, 3), (20, 0, 3), (20, SECOND / 100, 3), (2, SECOND / 2, 4)] {
        let mut net = Net::new(line_with_forger(2), 1);
        // The forger does not answer.
        silence(&mut net.sim, 2);
        let head = Header { destination: host(1), ..Header::injected(host(2), 64) };
        let whole = Packet { header: head, chunk: of_many_codes(2, 10) }.bytes().unwrap();
        let mut bytes = Vec::new();
        Outline::read(&whole).unwrap().contract(program::Digest::of, &mut bytes).unwrap();
        for _ in 0..packets {
            net.sim.put_frame(2, 0, &framed(anep::type_id::PLAN, &bytes));
            net.sim.run_for(spread);
        }
        net.sim.run_for(5 * SECOND);
        let lacking = (0..2).map(|node| net.sim.node(node).unwrap());
        let sums =
            lacking.map(|node| (node.status().plan.unwrap().account.wanted, node.drops().of(Reason::FetchTimeout)));
        let sums = sums.fold((0, 0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
        assert_eq!(sums, (asked, packets), "{packets} packets, one in {spread} ns: questions, and packets given up");
        net.audit();
    }
}

#[test]
fn copies_that_leave_later_are_at_the_expense_of_who_left_them() {
    let (mut net, _) = three(Config::default());
    let entry = |net: &Net| net.sim.node(1).unwrap().entry_counts(PortId(0), PeerId(0)).worker_ns;
    let source = "fun idle() : unit = ()
        fun main(to : host) : unit = RetransOnRemote(|idle|(), to, 3, defaultRoute, 8, 100)";
    let chunk = Script::new("again", source).unwrap().chunk("main", [value(2)]).unwrap();
    let head = Header { destination: host(1), source: host(2), ..Header::injected(host(2), 64) };
    let bytes = Packet { header: head, chunk }.bytes().unwrap();
    net.sim.put_frame(0, 0, &framed(anep::type_id::PLAN, &bytes));
    net.sim.run_for(SECOND / 20);
    let (first, at_once) = (net.sim.status(1).unwrap().plan.unwrap().account.routed, entry(&net));
    net.sim.run_for(2 * SECOND);
    let copies = net.sim.status(1).unwrap().plan.unwrap().account.routed - first;
    // The eighth is word to the source that none has arrived.
    assert!(at_once > 0 && copies == 8, "{at_once}, {copies}");
    assert!(entry(&net) - at_once >= copies * FRAME_STEPS, "{} for {copies} copies", entry(&net) - at_once);
    let strangers = net.sim.node(1).unwrap().entry_counts(PortId(0), PeerId::NONE).worker_ns;
    assert_eq!(strangers, 0, "and of nobody else");
}

#[test]
fn one_that_leaves_all_the_jobs_it_can_leaves_others_room() {
    let (mut net, _) = three(Config::default());
    let source = "fun idle() : unit = ()
        fun one(to : host, i : int) : host = (try RetransOnRemote(|idle|(), to, 1, defaultRoute, 2, 60000) handle Refused => (); to)
        fun main(to : host, n : int list) : unit = (foldl(one, to, n); ())";
    let script = Script::new("jobs", source).unwrap();
    let packet = |key: u8| {
        let numbers = Value::list((0..30).map(Value::Int)).unwrap();
        let head = Header { destination: host(1), ..Header::injected(host(2), 64) };
        let head = Header { session: [key; 16], ..head };
        Packet { header: head, chunk: script.chunk("main", [value(2), numbers]).unwrap() }.bytes().unwrap()
    };
    for key in 0..30 {
        net.sim.put_frame(0, 0, &framed(anep::type_id::PLAN, &packet(key)));
    }
    net.sim.run_for(SECOND / 10);
    let jobs = |net: &Net| net.sim.status(1).unwrap().plan.unwrap().jobs;
    assert_eq!(jobs(&net), 128, "half of the table");
    // Somebody else behind the other port.
    net.sim.put_frame(2, 0, &framed(anep::type_id::PLAN, &packet(99)));
    net.sim.run_for(SECOND / 10);
    assert_eq!(jobs(&net), 158);
}
