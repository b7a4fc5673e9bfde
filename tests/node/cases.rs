//! One node, one packet, data in and data out: the effect of every input, and the one counter that it moves.
//!
//! Each case gives the node a capsule (or garbage) and says what must come of it: a frame sent, a
//! delivery, or a drop under exactly one reason. The code is real wasm, compiled and run.

use crate::node_bench::{Bench, FAR, HERE, LEFT, drops_one, header, module, packet};
use anode::core::reason::Reason;
use anode::frame::{Frame, PeerId};
use anode::wire::{Addr, Digest, anep, capsule};

#[test]
fn verdicts_are_carried_out() {
    for (body, expected) in [
        ("i32.const 0", drops_one(Reason::Code)),
        ("i32.const 1", (1, 0, vec![])),
        ("i32.const 2", (0, 1, vec![])),
        ("i32.const 0x70002", drops_one(Reason::NoApplication)),
        ("i32.const 0x50002", (0, 1, vec![])),
        ("i32.const 3", drops_one(Reason::Verdict)),
        ("i32.const -1", drops_one(Reason::Verdict)),
    ] {
        let mut bench = Bench::new();
        bench.driver.node.open(5);
        let code = bench.add(0, &module("", "", body));
        bench.receive(0, &packet(&header(code), b"x"));
        assert_eq!(bench.outcome(), expected, "{body}");
    }
}

#[test]
fn code_that_misbehaves_is_stopped_and_counted() {
    let grow = "(memory.grow (i32.const 1)) drop i32.const 1";
    let send = "(import \"anode\" \"an_send\" (func $send (param i32) (result i32)))";
    for (name, imports, rest, body, reason) in [
        ("loops", "", "", "(loop $l br $l) i32.const 1", Reason::Fuel),
        ("calls itself for ever", "", "(func $f (result i32) call $f)", "call $f", Reason::Stack),
        (
            "moves more bytes than it may take steps",
            "",
            "",
            "(memory.fill (i32.const 1024) (i32.const 1) (i32.const 60000)) i32.const 1",
            Reason::Fuel,
        ),
        ("unreachable", "", "", "unreachable", Reason::Trap),
        ("divides by zero", "", "", "(i32.div_u (i32.const 1) (i32.const 0))", Reason::Trap),
        ("reads outside", "", "", "(i32.load (i32.const 65533))", Reason::Trap),
        ("writes outside", "", "", "(i32.store (i32.const -4) (i32.const 1)) i32.const 1", Reason::Trap),
        ("grows", "", "", grow, Reason::CodeRefused),
        ("imports a stranger", "(import \"env\" \"x\" (func))", "", "i32.const 1", Reason::CodeRefused),
        ("imports an unknown call", "(import \"anode\" \"an_root\" (func))", "", "i32.const 1", Reason::CodeRefused),
        ("imports with a wrong type", "(import \"anode\" \"an_now\" (func))", "", "i32.const 1", Reason::CodeRefused),
        ("hides a global", "", "(global $g (mut i32) (i32.const 0))", "i32.const 1", Reason::CodeRefused),
        ("starts by itself", "", "(func $s) (start $s)", "i32.const 1", Reason::CodeRefused),
        (
            "points outside",
            "(import \"anode\" \"an_node_name\" (func $n (param i32) (result i32)))",
            "",
            "(call $n (i32.const 65530))",
            Reason::Trap,
        ),
        ("fails after sending", send, "", "(drop (call $send (i32.const 1))) unreachable", Reason::Trap),
        ("forges its source", "", "", "(i32.store (i32.const 76) (i32.const 99)) i32.const 1", Reason::Source),
    ] {
        let mut bench = Bench::new();
        let code = bench.add(0, &module(imports, rest, body));
        bench.receive(0, &packet(&header(code), b"x"));
        assert_eq!(bench.outcome(), drops_one(reason), "{name}");
        // The node serves others as before.
        let good = bench.add(0, &module("", "", "i32.const 1"));
        bench.receive(0, &packet(&header(good), b"x"));
        assert_eq!(bench.outcome().0, 1, "after code that {name}");
    }
}

#[test]
fn malformed_packets_move_one_counter_and_nothing_else() {
    let mut bench = Bench::new();
    let code = bench.add(16, &module("", "", "i32.const 1"));
    let good = packet(&header(code), &[0; 16]);
    let with = |edit: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        edit(&mut bytes);
        bytes
    };
    for (name, bytes, reason) in [
        ("nothing", vec![], Reason::MalformedAnep),
        ("noise", vec![0xff; 60], Reason::MalformedAnep),
        ("a truncated ANEP header", good[..7].to_vec(), Reason::MalformedAnep),
        ("a packet shorter than it says", good[..50].to_vec(), Reason::MalformedAnep),
        ("a header longer than the packet", with(&|b| b[4..6].copy_from_slice(&[0xff, 0xff])), Reason::MalformedAnep),
        ("another ANEP version", with(&|b| b[0] = 9), Reason::MalformedAnep),
        ("another capsule version", with(&|b| b[8] = 2), Reason::MalformedCapsule),
        ("unknown capsule flags", with(&|b| b[9] = 1), Reason::MalformedCapsule),
        ("a capsule cut in its header", packet(&header(code), b"")[..40].to_vec(), Reason::MalformedAnep),
        ("an unknown type to be discarded", with(&|b| (b[1], b[2], b[3]) = (0x80, 0x99, 0x99)), Reason::UnknownType),
        ("an unknown type for nobody", with(&|b| (b[2], b[3]) = (0x99, 0x99)), Reason::UnknownType),
        ("a payload shorter than the window", packet(&header(code), &[0; 15]), Reason::Window),
        ("no resource bound", packet(&capsule::Header { bound: 0, ..header(code) }, &[0; 16]), Reason::Bound),
        (
            "no route",
            packet(&capsule::Header { destination: Addr::v4([192, 0, 2, 1]), ..header(code) }, &[0; 16]),
            Reason::NoRoute,
        ),
        ("more than the link carries", packet(&header(code), &[0; 1400]), Reason::TooBig),
    ] {
        let before: u64 = bench.drops().total();
        let counted = bench.drops().of(reason);
        bench.receive(0, &bytes);
        assert_eq!(bench.drops().of(reason), counted + 1, "{name}");
        assert_eq!(bench.drops().total(), before + 1, "{name}");
        assert!(bench.driver.out.frames.is_empty() && bench.driver.out.deliveries.is_empty(), "{name}");
    }
    bench.receive(0, &good);
    assert_eq!(bench.driver.out.frames.len(), 1);
}

#[test]
fn a_stranger_is_not_listened_to() {
    let mut bench = Bench::new();
    let code = bench.add(0, &module("", "", "i32.const 1"));
    let mut frame = Frame::from_bytes(&packet(&header(code), b"x"));
    frame.peer = PeerId::NONE;
    bench.driver.turn(1, |node, turn| node.receive(turn, frame));
    assert_eq!(bench.outcome(), drops_one(Reason::Stranger));
}

#[test]
fn a_capsule_to_the_node_itself_runs_once_and_is_delivered() {
    let mut bench = Bench::new();
    bench.driver.node.open(5);
    let code = bench.add(0, &module("", "", "i32.const 1"));
    let to_itself = capsule::Header { source: Addr::UNSPECIFIED, destination: HERE, bound: 0, ..header(code) };
    let mut bytes = vec![0; capsule::HEADER];
    to_itself.emit(&mut bytes).unwrap();
    bench.driver.turn(1, |node, turn| node.inject(turn, Frame::from_bytes(&bytes))).unwrap();
    bench.settle();
    assert_eq!(bench.outcome(), (0, 1, vec![]));
}

#[test]
fn every_hop_spends_the_bound_and_children_split_it() {
    let send = "(import \"anode\" \"an_send\" (func $send (param i32) (result i32)))";
    let mut bench = Bench::new();
    let body = "(drop (call $send (i32.const 3))) (drop (call $send (i32.const 99))) i32.const 1";
    let code = bench.add(0, &module(send, "", body));
    bench.receive(0, &packet(&header(code), b"x"));
    let bounds: Vec<u32> = bench
        .driver
        .out
        .frames
        .iter()
        .map(|frame| capsule::Header::parse(&frame.bytes()[anep::HEADER..]).unwrap().bound)
        .collect();
    // 8 came in: the child took 3 and has spent 1 on its hop, the rest spent 1 too.
    assert_eq!(bounds, [2, 4]);
}

#[test]
fn nothing_but_soft_state_survives_a_packet() {
    // Tries to count packets in a global, in memory, in the arena and on the other end of the page,
    // and forwards only if it sees none of them.
    let rest = "(global $g (export \"g\") (mut i32) (i32.const 0))";
    let body = "
        (if (i32.or (i32.or (global.get $g) (i32.load (i32.const 4096)))
                    (i32.or (i32.load (i32.const 65532)) (i32.load (i32.const 200))))
            (then (return (i32.const 0))))
        (global.set $g (i32.const 1))
        (i32.store (i32.const 4096) (i32.const 1))
        (i32.store (i32.const 65532) (i32.const 1))
        (i32.store (i32.const 200) (i32.const 1))
        i32.const 1";
    let mut bench = Bench::new();
    let code = bench.add(0, &module("", rest, body));
    for _ in 0..10 {
        bench.receive(0, &packet(&header(code), b"x"));
    }
    assert_eq!(bench.outcome(), (10, 0, vec![]));
    // Nor after a packet whose code failed half-way.
    let failing = module("", rest, &format!("{body} drop unreachable"));
    let code = bench.add(0, &failing);
    bench.receive(0, &packet(&header(code), b"x"));
    bench.receive(0, &packet(&header(code), b"x"));
    assert_eq!(bench.drops().happened().collect::<Vec<_>>(), [(Reason::Trap, 2)]);
}

#[test]
fn what_calls_write_does_not_survive_a_packet_and_code_that_only_reads_sees_its_own_packet() {
    // Each call writes where no packet before may have left anything; the code itself has no store.
    for (call, kind, arguments) in [
        ("an_node_name", "(param i32)", "(i32.const 4096)"),
        ("an_neighbour", "(param i32 i32)", "(i32.const 0) (i32.const 4096)"),
        ("an_route", "(param i32 i32)", "(i32.const 80) (i32.const 4096)"),
    ] {
        let import = format!("(import \"anode\" \"{call}\" (func $call {kind} (result i32)))");
        let is_clean = "(i64.eqz (i64.or (i64.load (i32.const 4096)) (i64.load (i32.const 4104))))";
        let body = format!(
            "(if (i32.eqz {is_clean}) (then (return (i32.const 0)))) (drop (call $call {arguments}))
             (i32.eqz {is_clean})"
        );
        let mut bench = Bench::new();
        let code = bench.add(0, &module(&import, "", &body));
        for _ in 0..3 {
            bench.receive(0, &packet(&header(code), b"x"));
        }
        assert_eq!(bench.outcome(), (3, 0, vec![]), "{call}");
    }
    let mut bench = Bench::new();
    let import = "(import \"anode\" \"an_store\" (func $store (param i32 i64 i32) (result i32)))";
    let stores = "(drop (call $store (i32.const 0) (i64.const 0x7a) (i32.const 1))) i32.const 1";
    let code = bench.add(1, &module(import, "", stores));
    bench.receive(0, &packet(&header(code), b"x"));
    assert_eq!(bench.driver.out.frames.pop().and_then(|frame| frame.bytes().last().copied()), Some(b'z'));
    let mut bench = Bench::new();
    let code = bench.add(1, &module("", "", "(i32.eq (i32.load8_u (i32.const 96)) (i32.const 0x78))"));
    for payload in [b"x", b"y", b"x", b"z"] {
        bench.receive(0, &packet(&header(code), payload));
    }
    assert_eq!(bench.outcome(), (2, 0, vec![(Reason::Code, 2)]));
}

#[test]
fn soft_state_is_kept_for_its_time_and_per_code() {
    let add = "(import \"anode\" \"an_state_add\" (func $add (param i64 i64 i32) (result i64)))";
    // Forwards the first packet only, and counts for 10 ms.
    let body = "(i64.eq (call $add (i64.const 1) (i64.const 1) (i32.const 10)) (i64.const 1))";
    let mut bench = Bench::new();
    let code = bench.add(0, &module(add, "", body));
    for (at, sent) in [(1, 1), (2, 1), (9_000_000, 1), (30_000_000, 2)] {
        bench.now = at;
        bench.receive(0, &packet(&header(code), b"x"));
        assert_eq!(bench.driver.out.frames.len(), sent, "at {at} ns");
    }
    let other = bench.add(0, &module(add, "(func)", body));
    assert_ne!(code, other);
    bench.receive(0, &packet(&header(other), b"x"));
    assert_eq!(bench.driver.out.frames.len(), 3, "another code has a state of its own");
}

#[test]
fn two_nodes_in_one_process_share_nothing_but_the_run_time() {
    let (mut a, mut b) = (Bench::new(), Bench::new());
    let code = a.add(0, &module("", "", "i32.const 1"));
    a.receive(0, &packet(&header(code), b"x"));
    b.receive(0, &packet(&header(code), b"x"));
    assert_eq!(a.outcome(), (1, 0, vec![]));
    assert_eq!(b.driver.node.status().fetch.capsules, 1, "the other one does not know the code");
}

#[test]
fn keeping_soft_state_for_no_time_removes_it() {
    let imports = "(import \"anode\" \"an_state_put\" (func $put (param i64 i32 i32) (result i32)))
        (import \"anode\" \"an_state_get\" (func $get (param i64 i32) (result i32)))";
    // Forwards if the key was there, is not after it was put for no time, and neither call failed.
    let body = "
        (if (call $put (i64.const 1) (i32.const 1024) (i32.const 1000)) (then (return (i32.const 0))))
        (if (call $get (i64.const 1) (i32.const 2048)) (then (return (i32.const 0))))
        (if (call $put (i64.const 1) (i32.const 1024) (i32.const 0)) (then (return (i32.const 0))))
        (i32.eq (call $get (i64.const 1) (i32.const 2048)) (i32.const -1))";
    let mut bench = Bench::new();
    let code = bench.add(0, &module(imports, "", body));
    bench.receive(0, &packet(&header(code), b"x"));
    assert_eq!(bench.outcome(), (1, 0, vec![]));
    let usage = bench.status().codes[0].usage.clone().unwrap();
    assert_eq!(usage.state_entries, 0);
}

#[test]
fn code_delivers_no_forged_source_either() {
    for (body, bound) in [("i32.const 2", 8), ("i32.const 1", 0)] {
        let mut bench = Bench::new();
        bench.driver.node.open(5);
        let body = format!("(i32.store (i32.const 76) (i32.const 99)) {body}");
        let code = bench.add(0, &module("", "", &body));
        let to_here = capsule::Header { destination: HERE, bound, ..header(code) };
        bench.receive(0, &packet(&to_here, b"x"));
        assert_eq!(bench.outcome(), drops_one(Reason::Source), "{body}");
    }
}

#[test]
fn an_unknown_type_does_not_go_back_to_where_it_came_from() {
    let mut bench = Bench::new();
    let mut repr = anep::Repr {
        type_id: 0x9999,
        discard_if_unknown: false,
        source: None,
        destination: Some(anep::Identifier::Ip(FAR)),
        authentication: None,
        checksum: false,
        payload: b"x",
    };
    let mut bytes = vec![0; repr.len()];
    repr.emit(&mut bytes).unwrap();
    bench.receive(0, &bytes);
    assert_eq!(bench.outcome(), (1, 0, vec![]));
    bench.driver.out.frames.clear();
    repr.destination = Some(anep::Identifier::Ip(LEFT));
    let mut bytes = vec![0; repr.len()];
    repr.emit(&mut bytes).unwrap();
    bench.receive(0, &bytes);
    assert_eq!(bench.outcome(), drops_one(Reason::WayBack));
}

#[test]
fn a_log_line_says_which_code_wrote_it_when_that_has_gone() {
    let imports = "(import \"anode\" \"an_log\" (func $log (param i32 i64) (result i32)))";
    let mut bench = Bench::new();
    let codes: Vec<Digest> = (1..3)
        .map(|tag| {
            let body = format!("(drop (call $log (i32.const {tag}) (i64.const 0))) i32.const 0");
            let code = bench.add(0, &module(imports, "", &body));
            bench.receive(0, &packet(&header(code), b"x"));
            assert!(bench.driver.turn(bench.now, |node, turn| node.remove_code(turn, &code)));
            code
        })
        .collect();
    let lines = bench.log();
    assert_eq!(lines.iter().map(|line| (line.code, line.tag)).collect::<Vec<_>>(), [(codes[0], 1), (codes[1], 2)]);
}

#[test]
fn code_whose_calls_are_too_deep_traps_and_says_so() {
    // Two steps for each call, and room for its many results on the processor's stack: that ends before the steps do.
    let results = "i64 ".repeat(16);
    let deep = format!("(func $f (result {results}) call $f)");
    let body = format!("call $f {} i32.const 1", "drop ".repeat(16));
    let mut bench = Bench::new();
    let code = bench.add(0, &module("", &deep, &body));
    bench.receive(0, &packet(&header(code), b"x"));
    assert_eq!(bench.outcome(), drops_one(Reason::Stack));
    let trap = bench.log().last().and_then(|line| line.trap).unwrap();
    assert_eq!(trap.kind, "its calls are too deep for the stack");
}
