//! Hostile PLAN packets on nodes of a simulated network. Each ends with an exception at its source or a counted drop,
//! costs no more than its own limits, and the node goes on.

use crate::net::{Net, app, host, network, value};
use anode::apps::plan::Script;
use anode::core::reason::Reason;
use anode::ee::plan::Config;
use anode::sim::{Line, SECOND, SendError};
use anode::trust::limits::Limits;
use anode::trust::{Role, Roles};
use anode::wire::{Addr, anep, plan as wire};
use plan::name::Name;
use plan::packet::{Header, Packet, slices};
use plan::value::{Callee, Chunk, Host, Value};
use std::sync::Arc;

fn drops(net: &Net, node: usize, reason: Reason) -> u64 {
    net.sim.status(node).unwrap().drops.of(reason)
}

/// Steps that PLAN's packets have cost a node so far.
fn steps(net: &Net, node: usize) -> u64 {
    let domains = net.sim.node(node).unwrap().domain_tree();
    domains.iter().filter(|domain| domain.title.starts_with("plan ")).map(|domain| domain.usage.steps).sum()
}

/// What one packet may cost: its steps, and having its code compiled.
fn most() -> u64 {
    Limits::default().steps_per_packet + 16 * 16 * 1024
}

fn still_works(net: &mut Net) {
    assert_eq!(net.call(0, &app("ping"), "ping(hd thisHost(), getHostByName(\"n1\"))", 9), ["Success"]);
    net.audit();
}

/// Has node 1 evaluate `main` of a program; what is printed at home.
fn evaluate(net: &mut Net, source: &str, bound: u32) -> String {
    let chunk = Script::new("hostile", source).unwrap().chunk("main", []).unwrap();
    let header = Header { destination: host(1), ..Header::injected(Host::default(), bound) };
    net.inject_packet(0, Packet { header, chunk });
    net.sim.run_for(SECOND);
    net.sim.take_printed().concat()
}

/// What a program does, its source, and one of these is said.
const GREEDY: &[(&str, &str, &[&str])] = &[
    (
        "a list that doubles",
        "fun put(l, x) = x :: l fun double(l, i) = foldl(put, l, l)
         fun main() = length(foldl(double, [1], n))",
        &["StepLimit", "MemoryLimit", "ValueLimit"],
    ),
    ("a string that doubles", "fun double(s, i) = s ^ s fun main() = print(foldl(double, \"x\", n))", &["Limit"]),
    ("a chunk of itself", "fun main() : unit = eval(|main|())", &["DepthLimit"]),
    (
        "chunks in chunks",
        "fun wrap(c, i) = |eval|(c) fun main() : unit = eval(foldl(wrap, foldl(wrap, |print|(1), n), n))",
        &["ValueLimit"],
    ),
    (
        "work that multiplies",
        "fun a(s, i) = s + i fun b(s, i) = foldl(a, s, n) fun c(s, i) = foldl(b, s, n) fun d(s, i) = foldl(c, s, n)
         fun main() = print(foldl(d, 0, n))",
        &["StepLimit"],
    ),
    (
        "packets that multiply",
        "fun idle() = () fun one(s, i) = (OnRemote(|idle|(), getSource(), 2, defaultRoute); s)
         fun many(s, i) = foldl(one, s, n) fun main() = foldl(many, 0, n)",
        &["Refused", "NotEnoughRB", "StepLimit"],
    ),
    (
        "a service that nobody has",
        "svc nobodys : int -> int fun main() = print(nobodys(1))",
        &["raised ServiceNotPresent"],
    ),
    (
        "a routing function that nobody has",
        "svc nobodys : host -> host * dev fun main() = OnRemote(|print|(1), getSource(), getRB(), nobodys)",
        &["raised ServiceNotPresent"],
    ),
    ("an exception", "exception Mine fun main() : unit = raise Mine", &["raised Mine"]),
    ("a file of the node's", "fun main() = print(getBlobFromFile(\"/etc/passwd\"))", &["raised FileNotFound"]),
    (
        "more bound than there is",
        "fun main() = OnRemote(|print|(1), getSource(), getRB() + 1, defaultRoute)",
        &["NotEnoughRB"],
    ),
    (
        "bound of less than nothing",
        "fun main() = OnRemote(|print|(1), getSource(), ~1, defaultRoute)",
        &["NotEnoughRB"],
    ),
    (
        "too many fragments",
        "fun longer(s, i) = s ^ \"0123456789\" fun main() = print(length(fragment(|print|(foldl(longer, \"\", n)), 1)))",
        &["raised Refused"],
    ),
    (
        "a layer called by a program",
        "fun main() = reassemble(getSession(), 0, 1, makeBlob(\"x\"))",
        &["raised Refused"],
    ),
];

#[test]
fn a_program_that_wants_too_much_is_stopped_and_reported() {
    const NUMBERS: &str = "val n = [1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1]\n";
    for (what, source, why) in GREEDY {
        let mut net = Net::line(2, Line::default());
        let before = steps(&net, 1);
        let said = evaluate(&mut net, &format!("{NUMBERS}{source}"), 40);
        assert!(why.iter().any(|why| said.contains(why)), "{what}: {said}");
        assert_eq!(drops(&net, 1, Reason::Evaluation), 1, "{what}: {said}");
        let cost = steps(&net, 1) - before;
        assert!(cost <= most(), "{what}: {cost} steps");
        still_works(&mut net);
    }
}

#[test]
fn what_does_not_fit_its_type_is_a_type_error_at_home() {
    let script =
        Script::new("typed", "fun add(a : int, b : int) = print(a + b) fun first(l : int list) = print(hd l)").unwrap();
    for (function, arguments) in [
        ("add", vec![Value::text(*b"one"), Value::Int(2)]),
        ("add", vec![Value::Unit, Value::Unit]),
        ("first", vec![Value::Int(3)]),
        ("first", vec![Value::Host(host(0))]),
    ] {
        let mut net = Net::line(2, Line::default());
        let header = Header { destination: host(1), ..Header::injected(Host::default(), 9) };
        net.inject_packet(0, Packet { header, chunk: script.chunk(function, arguments).unwrap() });
        net.sim.run_for(SECOND);
        let said = net.sim.take_printed().concat();
        assert!(said.contains("raised TypeError"), "{function}: {said}");
        still_works(&mut net);
    }
    // Services get what does not fit them too.
    for name in ["getHostByName", "put", "setFlow", "bandwidthSend", "installServices", "deliver", "fragment"] {
        let mut net = Net::line(2, Line::default());
        let chunk = Chunk::new(Callee::Service(Name::new(name).unwrap()), [Value::Unit]).unwrap();
        let header = Header { destination: host(1), ..Header::injected(Host::default(), 9) };
        net.inject_packet(0, Packet { header, chunk: Arc::new(chunk) });
        net.sim.run_for(SECOND);
        let said = net.sim.take_printed().concat();
        assert!(said.contains("raised TypeError") || said.contains("raised ServiceNotPresent"), "{name}: {said}");
        still_works(&mut net);
    }
}

#[test]
fn a_packet_without_bound_goes_nowhere_and_sends_nothing() {
    let mut net = Net::line(3, Line::default());
    let send = "fun main() = OnRemote(|print|(1), getSource(), getRB(), defaultRoute)";
    let chunk = Script::new("send", send).unwrap().chunk("main", []).unwrap();
    // Evaluated where it is injected, it cannot send; for elsewhere it is not taken.
    net.inject(0, chunk.clone(), 0);
    net.sim.run_for(SECOND);
    assert!(net.sim.take_printed().concat().contains("raised NotEnoughRB on 10.0.0.1"));
    let packet = |source: usize, to: usize| {
        let header = Header { destination: host(to), source: host(source), ..Header::injected(Host::default(), 0) };
        Packet { header, chunk: chunk.clone() }.bytes().unwrap()
    };
    let (seat, bytes) = (net.seats[0].port, packet(0, 2));
    let refused = net.sim.inject_plan(0, seat, &bytes).unwrap_err();
    assert!(matches!(refused, SendError::Refused(Reason::Bound)), "{refused:?}");
    // A neighbour that sends one on gets word of it, and so does nobody else.
    let mut frame = vec![0; anep::HEADER];
    let bytes = packet(0, 2);
    anep::emit_basic(&mut frame, anep::type_id::PLAN, bytes.len()).unwrap();
    frame.extend_from_slice(&bytes);
    net.sim.put_frame(0, 0, &frame);
    net.sim.run_for(SECOND);
    assert_eq!((drops(&net, 0, Reason::Bound), drops(&net, 1, Reason::Bound)), (1, 1));
    assert_eq!((net.audit().spent, drops(&net, 2, Reason::Evaluation)), (0, 0));
}

#[test]
fn loaded_services_that_raise_or_fail_end_the_program_and_nothing_else() {
    let module = |body: &str| {
        format!(
            "(module (memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 0))
               (func (export \"service\") (param i32) (result i32) {body}))"
        )
    };
    let source = "svc mine : void -> int fun main() = print(mine())";
    for (body, why) in [
        ("(i32.const -1)", "NotFound"),
        ("(i32.const -2)", "Refused"),
        ("(i32.const -3)", "BadHost"),
        ("(i32.const -4)", "TooBig"),
        ("(i32.const -99)", "BadService"),
        ("(i32.const 7)", "BadService"),
        ("(i32.const 2000000)", "BadService"),
        ("unreachable", "BadService"),
        ("(loop (br 0)) unreachable", "StepLimit"),
        ("(drop (memory.grow (i32.const 60000))) (i32.load (i32.const 400000000))", "BadService"),
    ] {
        let mut net = Net::line(2, Line::default());
        net.sim.load_service(1, "mine", "void -> int", module(body).as_bytes()).unwrap();
        let said = evaluate(&mut net, source, 9);
        assert!(said.contains(&format!("raised {why} on 10.0.0.2")), "{body}: {said}");
        still_works(&mut net);
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}

/// Bytes of packets that are right, to be bent: programs of the library with arguments that are of all kinds, and layers.
fn samples() -> Vec<Vec<u8>> {
    let calls = [
        ("ping", "ping", vec![value(0), value(1)]),
        ("hello", "hello", vec![value(0), value(1)]),
        ("traceroute", "trace", vec![value(0), value(1), Value::Int(0)]),
        ("census", "census", vec![value(0)]),
        ("search", "search", vec![value(0), Value::text(*b"x"), Value::Key([1; 16]), Value::Int(0)]),
        ("reliable", "send", vec![value(0), value(1)]),
        ("fragments", "carry", vec![value(0), value(1), Value::text(vec![b'x'; 300]), Value::Int(50)]),
        ("errors", "go", vec![value(0), value(1), Value::Int(2)]),
        ("flow", "setup", vec![value(0), Value::list([value(1)].into_iter()).unwrap(), value(1)]),
    ];
    let header = Header { destination: host(1), source: host(0), ..Header::injected(host(0), 30) };
    let packets = calls.into_iter().map(|(name, function, arguments)| {
        let chunk = app(name).chunk(function, arguments).unwrap_or_else(|| panic!("{name} has no {function}"));
        Packet { header: header.clone(), chunk }.bytes().unwrap()
    });
    packets.chain(messages()).collect()
}

/// One of each other message between neighbours.
fn messages() -> Vec<Vec<u8>> {
    let (mut code, mut routes) = (Vec::new(), Vec::new());
    wire::put_code(&slices(&app("ping").chunk("ack", []).unwrap()).unwrap()[0].bytes, &mut code);
    let route = |number: usize| wire::Route { to: Addr(host(number).0), length: 128, metric: 3 };
    wire::put_routes(false, (3..6).map(route), &mut routes);
    let mut all = vec![wire::have(&[1; 32]).to_vec(), wire::want(&[2; 32]).to_vec(), code, routes];
    let whole: Vec<u8> = (0..=255).cycle().take(2000).collect();
    for piece in wire::pieces(&whole, 400, 9).unwrap() {
        let mut bytes = vec![0; 500];
        let length = wire::emit_piece(&piece, &mut bytes).unwrap();
        bytes.truncate(length);
        all.push(bytes);
    }
    all
}

/// Everything that comes in as PLAN, bent: the node refuses it, or evaluates it within its limits; its account balances throughout.
#[test]
fn bent_packets_from_a_seed_never_break_a_node() {
    let given = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let time = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = given.unwrap_or_else(time);
    println!("SEED={seed}");
    let cases: u64 = std::env::var("ANODE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(3000);
    let (mut random, samples) = (Random(seed), samples());
    let mut net = Net::with(&[(0, 1)], Line::default(), Config { rip: Some(Default::default()), ..Config::default() });
    for case in 0..cases {
        let mut bytes = samples[random.below(samples.len())].clone();
        // Every other one keeps its header, so that more of it is looked at.
        let from = if case % 2 == 0 && bytes.len() > 84 { 84 } else { 0 };
        for _ in 0..1 + random.below(3) {
            let at = from + random.below(bytes.len().saturating_sub(from) + 1);
            match random.below(5) {
                0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
                1 if at < bytes.len() => bytes[at] = random.next() as u8,
                2 => bytes.truncate(at),
                3 => bytes.insert(at.min(bytes.len()), random.next() as u8),
                _ => {
                    let other = &samples[random.below(samples.len())];
                    let start = random.below(other.len());
                    let end = (start + random.below(30)).min(other.len());
                    bytes.splice(at.min(bytes.len()).., other[start..end].iter().copied());
                }
            }
        }
        let before = steps(&net, 1);
        let mut frame = vec![0; anep::HEADER];
        if anep::emit_basic(&mut frame, anep::type_id::PLAN, bytes.len()).is_err() {
            continue;
        }
        frame.extend_from_slice(&bytes);
        net.sim.put_frame(0, 0, &frame);
        net.sim.run_for(SECOND / 1000);
        // Packets of the one before may be evaluated with this one; each has its own limits.
        assert!(steps(&net, 1) - before <= 64 * most(), "SEED={seed}, case {case}");
    }
    net.sim.run_for(30 * SECOND);
    net.sim.take_printed();
    let account = net.sim.status(1).unwrap().plan.unwrap().account;
    let malformed = drops(&net, 1, Reason::MalformedPlan);
    assert!(malformed > cases / 4 && account.evaluated > cases / 50, "{malformed} {account:?}");
    net.audit();
    net.inject(0, app("ping").chunk("ping", [value(0), value(1)]).unwrap(), 9);
    net.sim.run_for(SECOND);
    assert_eq!(net.sim.take_printed(), ["Success"]);
}

#[test]
fn codes_are_not_compiled_when_there_is_nobody_to_pay_for_that() {
    let limits = Limits { steps_per_second: 400_000, ..Limits::default() };
    let mut network = network(&[(0, 1)], Line::default());
    network.own_roles.insert(1, Arc::new(Roles::new(vec![Role::anyone(limits)]).unwrap()));
    let mut net = Net::new(network, 1);
    let mut length = 0;
    let mut forge = |net: &mut Net, number: usize| {
        // Another code each time, of a kilobyte: compiling it costs more than comes back meanwhile.
        let source = format!("fun main() = print(\"{number}{}\")", "x".repeat(1000));
        let chunk = Script::new("forged", &source).unwrap().chunk("main", []).unwrap();
        let header = Header { destination: host(1), source: host(0), ..Header::injected(host(0), 5) };
        let bytes = Packet { header, chunk }.bytes().unwrap();
        length = bytes.len() as u64;
        let mut frame = vec![0; anep::HEADER];
        anep::emit_basic(&mut frame, anep::type_id::PLAN, bytes.len()).unwrap();
        frame.extend_from_slice(&bytes);
        net.sim.put_frame(0, 0, &frame);
        net.sim.run_for(SECOND / 500);
    };
    (0..100).for_each(|number| forge(&mut net, number));
    let account = |net: &Net| net.sim.status(1).unwrap().plan.unwrap().account;
    let before = account(&net);
    assert!(drops(&net, 1, Reason::Budget) >= 90, "{before:?}");
    net.sim.run_for(5 * SECOND);
    forge(&mut net, 100);
    let after = account(&net);
    assert_eq!(after.evaluated, before.evaluated + 1, "who comes later finds steps again");
    assert!((1..=10 * length).contains(&before.compiled), "{} bytes of {length} each", before.compiled);
    assert_eq!(drops(&net, 1, Reason::MalformedPlan), 0);
    net.audit();
}

#[test]
fn data_that_strangers_leave_behind_one_neighbour_leaves_room_for_those_of_another() {
    // Ten packets that nobody has signed, each with forty strings of 32 KiB for five minutes: more than a node keeps in all.
    let keep = |place: &str| {
        format!(
            "val n = [1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1]
             val m = [1;1;1;1;1;1;1;1;1;1;1;1;1;1;1]
             fun double(s, i) = s ^ s
             fun keep(name, i) = (put(name, getSession(), foldl(double, \"x\", m), 300); name ^ \"x\")
             fun main() = foldl(keep, \"{place}\", n)"
        )
    };
    let from = |net: &mut Net, node: usize, source: &str| {
        let chunk = Script::new("keeper", source).unwrap().chunk("main", []).unwrap();
        let header = Header { destination: host(1), ..Header::injected(Host::default(), 9) };
        net.inject_packet(node, Packet { header, chunk });
        net.sim.run_for(SECOND);
        net.sim.take_printed().concat()
    };
    let mut net = Net::line(3, Line::default());
    let said: String = (0..10).map(|packet| from(&mut net, 0, &keep(&format!("hostile {packet} ")))).collect();
    assert!(said.contains("Refused"), "it takes all it can: {said}");
    let good = "fun main() = put(\"good\", getSession(), \"some data\", 300)";
    assert_eq!(from(&mut net, 2, good), "", "its neighbour on the other side has room");
    let large = "val m = [1;1;1;1;1;1;1;1;1;1;1;1;1;1;1] fun double(s, i) = s ^ s
                 fun main() = put(\"large\", getSession(), foldl(double, \"x\", m), 300)";
    assert_eq!(from(&mut net, 2, large), "", "for much of it");
    still_works(&mut net);
}
