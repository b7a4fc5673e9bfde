//! Hot code is compiled again by the optimiser, and only its speed tells.

use crate::guests::*;
use crate::running::{self, LINE, PATIENCE, Running};
use anode::code::bundle::Bundle;
use anode::sim::{Line, Network, SECOND, Shape, Simulation};
use anode::wire::{Addr, capsule};
use serde_json::Value;

/// Inputs of a guest: what its packets differ in.
const INPUTS: u32 = 8;

/// Rounds of all inputs.
const ROUNDS: usize = 40;

/// Code that works on the first word of its payload for some thousand steps and leaves the result in the second.
fn working(title: &str, beside: &str, work: &str) -> Bundle {
    sized(title, 4096, beside, work)
}

/// The same with this much memory.
fn sized(title: &str, bytes: u32, beside: &str, work: &str) -> Bundle {
    let text = format!(
        "(module (memory (export \"memory\") {bytes} {bytes} (pagesize 1)) (global (export \"an_arena\") i32 (i32.const 0)) {beside}
        (func (export \"capsule\") (param $ctx i32) (param $window i32) (result i32) (local $x i32) (local $i i32) \
                        (local $f f64) (local $v v128)
            (local.set $x (i32.load offset=32 (local.get $window)))
            (local.set $i (i32.const 900))
            (loop $again {work}
                (br_if $again (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))
            (i32.store offset=36 (local.get $window) (local.get $x))
            (i32.const 1)))"
    );
    bundle(title, 8, wat::parse_str(text).unwrap())
}

/// Accesses around the last byte of memories whose ends lie anywhere in a page: inputs below 4 are within, the others are not.
fn edges() -> Vec<Bundle> {
    let end = |bytes: u32, width: u32| format!("(i32.add (i32.const {}) (local.get $x))", bytes - width - 3);
    let mut all = Vec::new();
    for bytes in [4096, 4099, 65535] {
        for (name, width, access) in [
            ("load8", 1, "(drop (i32.load8_u {}))"),
            ("load64", 8, "(drop (i64.load {}))"),
            ("store32", 4, "(i32.store {} (local.get $i))"),
            ("store128", 16, "(v128.store {} (v128.const i64x2 1 2))"),
        ] {
            let work = access.replace("{}", &end(bytes, width));
            all.push(sized(&format!("{name}-{bytes}"), bytes, "", &work));
        }
    }
    // Vectors are loaded in other ways too, each with a width of its own.
    for bytes in [4099, 65535] {
        for (name, width, access) in [
            ("load128", 16, "(drop (v128.load {}))"),
            ("extend", 8, "(drop (v128.load8x8_u {}))"),
            ("splat", 8, "(drop (v128.load64_splat {}))"),
            ("zero", 4, "(drop (v128.load32_zero {}))"),
            ("lane", 2, "(local.set $v (v128.load16_lane 3 {} (local.get $v)))"),
            ("storelane", 4, "(v128.store32_lane 1 {} (local.get $v))"),
        ] {
            all.push(sized(&format!("{name}-{bytes}"), bytes, "", &access.replace("{}", &end(bytes, width))));
        }
    }
    // Addresses that are out of all bounds: 4 GiB and more, and below zero.
    let wide = "(if (i32.gt_u (local.get $x) (i32.const 3))
        (then (v128.store offset=4294967295 (local.get $x) (local.get $v))))";
    all.push(sized("wide", 4099, "", wide));
    let beyond = "(if (i32.gt_u (local.get $x) (i32.const 3))
        (then (drop (i32.load8_u offset=4294967295 (local.get $x)))))";
    let below = "(drop (i32.load8_u (i32.sub (i32.const 3) (local.get $x))))";
    all.push(sized("beyond", 4099, "", beyond));
    all.push(sized("below", 4099, "", below));
    all
}

/// Integers, floating point whose bits would tell one compiler from another, memory, calls by table, and what fails.
fn guests() -> Vec<Bundle> {
    let mix = "(local.set $x (i32.add (i32.mul (local.get $x) (i32.const 1103515245)) (local.get $i)))";
    let float = "(local.set $f (f64.div (f64.add (local.get $f) (f64.convert_i32_s (local.get $x))) (f64.sqrt \
                 (f64.convert_i32_s (local.get $i)))))
        (local.set $x (i32.wrap_i64 (i64.reinterpret_f64 (f64.sub (local.get $f) (f64.div (local.get $f) (f64.const 0))))))";
    let vectors = "(local.set $v (i8x16.shuffle 1 0 3 2 20 21 22 23 8 9 10 11 31 30 29 28 (local.get $v)
            (i16x8.q15mulr_sat_s (local.get $v) (i32x4.splat (i32.mul (local.get $x) (local.get $i))))))
        (local.set $x (i32.add (local.get $x) (i8x16.bitmask (local.get $v))))";
    let lanes = "(local.set $v (f32x4.div (f32x4.sqrt (i32x4.splat (local.get $x))) (f32x4.pmin (local.get $v) \
                 (i32x4.splat (local.get $i)))))
        (local.set $x (i32.add (local.get $x) (i32x4.extract_lane 1 (f64x2.min (local.get $v) (f64x2.neg (local.get $v))))))";
    let memory = "(i32.store offset=512 (i32.and (local.get $x) (i32.const 1020)) (i32.add (local.get $i) (i32.load \
                  offset=512 (i32.const 4))))
        (local.set $x (i32.xor (local.get $x) (i32.load offset=512 (i32.and (local.get $i) (i32.const 1020)))))";
    let beside = "(type $t (func (param i32) (result i32))) (table 2 funcref) (elem (i32.const 0) $a $b)
        (func $a (type $t) (i32.rotl (local.get 0) (i32.const 5))) (func $b (type $t) (i32.mul (local.get 0) (local.get 0)))";
    let calls = "(local.set $x (call_indirect (type $t) (i32.add (local.get $x) (local.get $i)) (i32.and (local.get $x) (i32.const 1))))";
    // Inputs from 4 on end in a division by zero, or without steps.
    let trap = "(local.set $f (f64.const 1)) (drop (i32.div_u (i32.const 1) (i32.lt_u (local.get $x) (i32.const 4))))";
    let endless = "(local.set $i (select (local.get $i) (i32.const 9) (i32.lt_u (local.get $x) (i32.const 4)))) \
                   (local.set $f (f64.const 2))";
    let deep = "(drop (call $deep (i32.mul (local.get $x) (i32.const 4)))) (local.set $f (f64.const 3))";
    let down = "(func $deep (param i32) (result i32) (if (result i32) (i32.gt_u (local.get 0) (i32.const 16))
        (then (i32.add (i32.const 1) (call $deep (local.get 0)))) (else (local.get 0))))";
    vec![
        working("mix", "", mix),
        working("float", "", float),
        working("vectors", "", vectors),
        working("lanes", "", lanes),
        working("memory", "", memory),
        working("calls", beside, calls),
        working("trap", "", trap),
        working("endless", "", endless),
        working("deep", down, deep),
        working("size", "", "(local.set $x (i32.add (local.get $x) (memory.size)))"),
        working("fill", "", "(memory.fill (i32.const 4092) (i32.const 1) (local.get $x))"),
    ]
    .into_iter()
    .chain(edges())
    .collect()
}

/// Packets with one input that are sent at the same time: enough to make code hot.
const COPIES: u64 = 6;

/// What came of packets with one input: the payloads that arrived, the steps of all runs, and what was dropped.
type Came = (Vec<Vec<u8>>, u64, u64);

/// Packets with all inputs, again and again; gives what came of each, and when the first node said that the code is optimised.
fn heat(code: &Bundle) -> (Vec<Came>, Option<u64>) {
    let network = Network::new(Shape::Line { nodes: 2 }, Line::default(), 0).unwrap();
    let mut sim = Simulation::new(network, seed(1)).unwrap();
    sim.add_code(0, code);
    sim.collect(1, 1);
    let (mut all, mut since) = (Vec::new(), None);
    for round in 0..ROUNDS as u64 {
        for input in 0..INPUTS {
            let payload = [input.to_le_bytes(), [0; 4]].concat();
            let steps = sim.totals().steps;
            let dropped = sim.totals().dropped.total();
            for _ in 0..COPIES {
                sim.inject(0, header(code.name(), sim.address(1), 9), &payload).unwrap();
            }
            assert!(sim.drain(100 * SECOND));
            let arrived = sim.take_arrivals().into_iter().map(|arrival| arrival.payload).collect();
            all.push((arrived, sim.totals().steps - steps, sim.totals().dropped.total() - dropped));
        }
        sim.run_until(sim.now().max((round + 1) * SECOND / 50));
        if since.is_none() && tier(&sim).contains("optimised") && !tier(&sim).contains("being") {
            since = Some(sim.now());
        }
    }
    (all, since)
}

fn tier(sim: &Simulation) -> String {
    let status = sim.node(0).unwrap().status();
    status.codes.iter().find_map(|code| code.tier.clone()).unwrap_or_default()
}

#[test]
fn hot_code_is_optimised_and_every_packet_comes_out_the_same() {
    for code in guests() {
        let title = code.manifest().title().to_owned();
        let (all, since) = heat(&code);
        let since = since.unwrap_or_else(|| panic!("{title} is not optimised"));
        assert!(since < 6 * SECOND / 10, "{title}: after {since} ns");
        let inputs = INPUTS as usize;
        // The very first packets wait for their code: what runs is the same.
        let first = &all[..inputs];
        for (at, came) in all.iter().enumerate() {
            assert_eq!(*came, first[at % inputs], "{title}, packets {at}: another tier, another outcome");
        }
        assert!(first.iter().any(|(arrived, _, _)| arrived.len() == COPIES as usize), "{title}");
        assert_eq!(heat(&code), (all, Some(since)), "{title}: the same seed, the same run");
    }
}

#[test]
fn what_has_little_to_do_stays_as_it_is() {
    let network = Network::new(Shape::Line { nodes: 2 }, Line::default(), 0).unwrap();
    let mut sim = Simulation::new(network, seed(1)).unwrap();
    let code = working("mix", "", "(local.set $x (i32.add (local.get $x) (local.get $i)))");
    sim.add_code(0, &code);
    sim.open(1, 1);
    for round in 0..60 {
        sim.inject(0, header(code.name(), sim.address(1), 9), &[0; 8]).unwrap();
        sim.run_until(round * SECOND / 20);
    }
    assert_eq!(tier(&sim), "fast");
}

fn code_of<'a>(status: &'a Value, code: &Bundle) -> &'a Value {
    let name = code.name().to_string();
    let codes = status["codes"].as_array().unwrap();
    codes.iter().find(|code| code["name"] == name.as_str()).unwrap_or(&Value::Null)
}

#[test]
fn a_running_node_optimises_hot_code_in_its_jail_and_says_so() {
    let Some(net) = Running::up("tiers", LINE) else { return };
    let code = guests().swap_remove(0);
    net.control("a").add_code(&code).unwrap();
    let (from, to) = (net.attach("a", 1), net.attach("b", 1).address());
    let header = capsule::Header { source: Addr::UNSPECIFIED, ..header(code.name(), to, 9) };
    let status = net.await_status("a", |status| {
        (0..200).for_each(|_| from.send(&header, &[0; 8]).unwrap());
        code_of(status, &code)["tier"] == "optimised"
    });
    assert_eq!(status["loader"]["compiler"]["optimised"], 1, "{status}");
    assert_eq!(status["loader"]["compiler"]["failed"], 0, "{status}");
}

#[test]
fn a_running_node_refuses_what_its_compiler_cannot_do_until_it_is_told_to_try_again() {
    let adjust = |node: &str, file: &mut toml::Table| {
        if node == "a" {
            file.insert("compiler".into(), toml::toml! { memory_mib = 1 }.into());
        }
    };
    let Some(net) = Running::up_with("limits", LINE, &adjust) else { return };
    let copies = "(memory.copy (i32.const 0) (i32.const 0) (i32.const 0))".repeat(900);
    let large = bundle("large", 0, module("", &format!("{copies} (i32.const 1)")));
    let small = forward();
    let mut control = net.control("a");
    control.add_code(&large).unwrap();
    control.add_code(&small).unwrap();
    let (from, mut at_b) = (net.attach("a", 1), net.attach("b", 1));
    let send = |code: &Bundle, to| {
        let header = capsule::Header { source: Addr::UNSPECIFIED, ..header(code.name(), to, 9) };
        from.send(&header, &[]).unwrap();
    };
    send(&large, at_b.address());
    let refused = net.await_status("a", |status| code_of(status, &large)["state"] == "refused");
    let why = code_of(&refused, &large)["why"].as_str().unwrap();
    assert!(why.contains("[compiler] memory_mib = 1"), "{why}");
    assert_eq!(refused["loader"]["compiler"]["refused"]["modules"].as_array().unwrap().len(), 1, "{refused}");
    send(&small, at_b.address());
    assert!(at_b.receive(PATIENCE).unwrap().is_some(), "what needs little runs\n{}", net.log("a"));
    let told = std::process::Command::new(running::ANODE).args(["code", "retry"]).arg(net.dir("a")).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let after = net.status("a");
    assert_eq!(after["loader"]["compiler"]["refused"]["modules"].as_array().unwrap().len(), 0, "{after}");
    assert!(code_of(&after, &large).is_null(), "{after}");
}
