//! What a PLAN packet costs a node is in proportion to what it pays: work is paid with the evaluation's steps, and what it leaves at the
//! node counts with all that it keeps alive there.

use crate::net::{Net, host};
use anode::apps::plan::Script;
use anode::ee::plan::Config;
use anode::ee::plan::status::PlanStatus;
use anode::sim::{Line, SECOND};
use anode::trust::limits::Limits;
use plan::packet::{Header, Packet, slices};
use plan::value::{Chunk, Host, Value};
use std::fmt::Write;
use std::sync::Arc;

/// Steps that PLAN's packets have cost a node so far.
fn steps(net: &Net, node: usize) -> u64 {
    let domains = net.sim.node(node).unwrap().domain_tree();
    domains.iter().filter(|domain| domain.title.starts_with("plan ")).map(|domain| domain.usage.steps).sum()
}

/// Bytes of the code that a chunk's function needs.
fn code_of(chunk: &Arc<Chunk>) -> usize {
    slices(chunk).unwrap()[0].bytes.len()
}

/// Has node 1 evaluate a chunk of another node's; what is printed there.
fn evaluate(net: &mut Net, from: usize, chunk: Arc<Chunk>, bound: u32) -> String {
    let header = Header { destination: host(1), ..Header::injected(Host::default(), bound) };
    net.inject_packet(from, Packet { header, chunk });
    net.sim.run_for(SECOND / 10);
    net.sim.take_printed().concat()
}

fn status(net: &Net, node: usize) -> PlanStatus {
    net.sim.status(node).unwrap().plan.unwrap()
}

/// So many functions that each need a row of numbers that all have, and so much code.
fn functions(source: &mut String, count: usize, rows: i64, first: i64) {
    let row = |row: i64| (0..200).map(|at| ((first + row + at) % 63).to_string()).collect::<Vec<_>>().join(";");
    for number in 0..rows {
        writeln!(source, "fun row{number}() = [{}]", row(number)).unwrap();
    }
    let all = (0..rows).map(|number| format!("row{number}();")).collect::<String>();
    writeln!(source, "fun rows() = ({all} {first})").unwrap();
    for number in 0..count {
        writeln!(source, "fun f{number}() = (rows(); {number})").unwrap();
    }
}

/// A program that does something again and again, whatever comes of it.
fn again(first: i64, what: &str) -> Arc<Chunk> {
    let mut source = String::new();
    functions(&mut source, 45, 4, first);
    let list = |from: usize| (from..from + 15).map(|number| format!("|f{number}|()")).collect::<Vec<_>>().join(";");
    writeln!(source, "fun carry(list) = ()").unwrap();
    writeln!(source, "fun a0(h, a, b, c) = ({}; {}; {})", tried(what, "a"), tried(what, "b"), tried(what, "c"))
        .unwrap();
    for number in 1..10 {
        let before = number - 1;
        writeln!(source, "fun a{number}(h, a, b, c) : unit = (a{before}(h, a, b, c); a{before}(h, a, b, c))").unwrap();
    }
    writeln!(source, "fun main(h) : unit = a9(h, [{}], [{}], [{}])", list(0), list(15), list(30)).unwrap();
    let script = Script::new("again", &source).unwrap_or_else(|why| panic!("{why}\n{source}"));
    script.chunk("main", [Value::Host(host(0))]).unwrap()
}

fn tried(what: &str, list: &str) -> String {
    format!("try {} handle e => ()", what.replace('@', list))
}

/// Work that a program has a node do, and that fails or is thrown away most times; and whose program it is.
const WORK: &[(usize, &str, &str)] = &[
    (0, "packets that have too little to leave", "OnRemote(|carry|(@), h, 1, defaultRoute)"),
    (0, "packets to a neighbour that have too little to leave", "OnNeighbor(|carry|(@), h, 1)"),
    (0, "lengths of packets", "(sizeOf(|carry|(@)); ())"),
    (0, "parts of packets", "(fragment(|carry|(@), 1); ())"),
    (1, "values for an application", "deliver(getPort(), @)"),
    (0, "data that is kept", "put(\"x\", getSession(), @, 1)"),
];

#[test]
fn work_of_an_evaluation_is_paid_with_its_steps() {
    for (from, what, call) in WORK {
        // A library that forgets codes while the program goes on.
        let config = Config { code_bytes: 8000, ..Config::default() };
        let mut net = Net::with(&[(0, 1)], Line::default(), config);
        let (chunk, before) = (again(0, call), steps(&net, 1));
        let length = code_of(&chunk) as u64;
        // A few more for the report, which one of them gets at home.
        let most = Limits::default().steps_per_packet + 16 * length + 100;
        let said = evaluate(&mut net, *from, chunk, 9);
        let cost = steps(&net, 1) - before;
        assert!(cost <= most, "{what}: {cost} steps of {most}: {said}");
        assert!(said.contains("StepLimit"), "{what}: {said}");
        let account = status(&net, 1).account;
        let work = account.compiled + account.sliced - length;
        assert!(work > 1000 && work <= Limits::default().steps_per_packet, "{what}: {work} bytes of code");
    }
}

/// A packet that leaves a chunk at the node, with a code that no other has.
fn keeper(number: i64) -> Arc<Chunk> {
    let mut source = String::new();
    functions(&mut source, 1, 16, number);
    writeln!(source, "fun main() : unit = put(\"{number}\", getSession(), |f0|(), 300)").unwrap();
    Script::new("keeper", &source).unwrap().chunk("main", []).unwrap()
}

const ASK: &str = "fun told(n) = print(n)
    fun ask(home, name) = OnRemote(|told|(eval(get(name, getSession()))), home, getRB(), defaultRoute)";

#[test]
fn what_is_kept_counts_with_its_code_and_a_flood_of_it_leaves_that_of_others() {
    let mut net = Net::line(3, Line::default());
    let length = code_of(&keeper(0));
    let ask = Script::new("ask", ASK).unwrap();
    let ask = |name: &str| ask.chunk("ask", [Value::Host(host(2)), Value::text(name.as_bytes())]).unwrap();
    evaluate(&mut net, 2, keeper(1), 20);
    for number in 0..1200 {
        evaluate(&mut net, 0, keeper(number), 20);
    }
    let full = status(&net, 1);
    assert!(full.resident > 100 && full.resident * length <= 2 << 20, "{} codes of {length}", full.resident);
    assert!(full.resident_bytes <= 4 << 20 && full.resident_bytes >= (full.resident * length) as u64);
    assert!(full.account.no_room > 100 && full.code_memory <= 32 << 20, "{full:?}");
    evaluate(&mut net, 2, keeper(2), 20);
    assert_eq!([evaluate(&mut net, 2, ask("1"), 9), evaluate(&mut net, 2, ask("2"), 9)], ["0", "0"]);
    assert_eq!(status(&net, 1).resident, full.resident + 1);
    // Nobody has the programs of what is kept; all of it comes back.
    net.sim.run_for(310 * SECOND);
    assert_eq!((status(&net, 1).resident, status(&net, 1).resident_bytes), (0, 0));
}

#[test]
fn a_packet_that_is_sent_until_it_arrives_gives_its_place_back() {
    let mut net = Net::line(3, Line::default());
    // What arrives has nothing left to say so.
    let source = "fun main(to) = RetransOnRemote(|print|(1), to, 1, defaultRoute, 3, 4294967295)";
    let chunk = Script::new("patient", source).unwrap().chunk("main", [Value::Host(host(2))]).unwrap();
    evaluate(&mut net, 0, chunk, 9);
    let waits = status(&net, 1);
    assert!(waits.jobs == 1 && waits.job_bytes > 100, "{waits:?}");
    net.sim.run_for(301 * SECOND);
    assert_eq!((status(&net, 1).jobs, status(&net, 1).job_bytes), (0, 0));
    net.audit();
}

#[test]
fn a_loaded_routing_function_takes_the_steps_of_who_asks_it() {
    let module = "(module (memory (export \"memory\") 1) (global (export \"plan_buffer\") i32 (i32.const 0))
        (func (export \"service\") (param i32) (result i32) (local $n i32)
            (loop $l (local.set $n (i32.add (local.get $n) (i32.const 1))) (br_if $l (i32.lt_u (local.get $n) (i32.const 700))))
            (i32.const -1)))";
    let mut net = Net::line(2, Line::default());
    net.sim.load_service(1, "mine", "host -> host * dev", module.as_bytes()).unwrap();
    let mut source = String::from("svc mine : host -> host * dev\n");
    source += "fun a0(h) = try OnRemote(|print|(1), h, 1, mine) handle e => ()\n";
    (1..9).for_each(|at| writeln!(source, "fun a{at}(h) : unit = (a{0}(h); a{0}(h))", at - 1).unwrap());
    let script = Script::new("astray", &(source + "fun main(h) : unit = a8(h)")).unwrap();
    let (chunk, before) = (script.chunk("main", [Value::Host(Host::v4([10, 9, 9, 9]))]).unwrap(), steps(&net, 1));
    let most = Limits::default().steps_per_packet + 16 * code_of(&chunk) as u64;
    let said = evaluate(&mut net, 0, chunk, 9);
    let cost = steps(&net, 1) - before;
    assert!(cost > 1000 && cost <= most && said.contains("StepLimit"), "{cost} of {most}: {said}");
}
