//! Graphs from texts, run over packets: what goes in, what comes out, and what is said of wrong ones.

use super::*;
use crate::frame::{Frame, FramePool};
use crate::graph::edges::EdgeKind;
use crate::graph::scratch::Scratch;

#[test]
fn every_class_has_an_interface_that_the_language_knows() {
    let table = ClassTable::of_parts();
    for name in engines::names() {
        assert!(table.class(name).is_some(), "{name}");
    }
    assert!(ClassTable::default().class("ToRemote").is_none(), "nobody writes it");
    assert!(table.class("xor").is_none(), "engines of channels stand in channels");
}

/// A graph at work.
struct Rig {
    graph: Graph,
    pool: FramePool,
    scratch: Scratch,
    now: u64,
    came: u64,
}

impl Rig {
    fn new(text: &str) -> Rig {
        let graph = load(text, &[])
            .unwrap_or_else(|wrong| panic!("{}", click::diagnostic::render(&wrong, "test", text, false)));
        Rig { graph, pool: FramePool::new(2048, 64), scratch: Scratch::default(), now: 1_000_000_000, came: 0 }
    }

    fn give(&mut self, device: &str, bytes: &[u8]) {
        let mut frame = Frame::from_bytes(bytes);
        frame.port = self.graph.places.port(EdgeKind::Device, device);
        self.came += 1;
        self.graph.receive(frame, self.now, &mut self.pool, &mut self.scratch);
        while self.graph.work(self.now, &mut self.pool, &mut self.scratch) {}
    }

    /// What has left, by device.
    fn out(&mut self) -> Vec<(String, Vec<u8>)> {
        let places = &self.graph.places.all;
        let of = |frame: Frame| (places[usize::from(frame.port.0)].1.clone(), frame.bytes().to_vec());
        let out: Vec<_> = self.scratch.out.drain(..).map(of).collect();
        out
    }

    fn read(&self, handler: &str) -> String {
        let (engine, handler) = handler.rsplit_once('.').unwrap();
        self.graph.read(self.graph.find(engine).unwrap(), handler).unwrap()
    }
}

#[test]
fn packets_are_pushed_wait_and_are_pulled() {
    let mut rig = Rig::new("FromDevice(a) -> c :: Counter -> q :: Queue(2) -> d :: Counter -> ToDevice(b);");
    for byte in 0..3 {
        rig.give("a", &[byte]);
    }
    assert_eq!(rig.out(), [0, 1, 2].map(|byte| ("b".to_owned(), vec![byte])));
    assert_eq!([rig.read("c.count"), rig.read("d.byte_count"), rig.read("q.length")], ["3", "3", "0"]);
}

#[test]
fn copies_leave_in_order_and_what_leads_nowhere_is_dropped() {
    let mut rig = Rig::new(
        "FromDevice(a) -> Strip(1) -> t :: Tee -> Queue -> ToDevice(b);
         t [1] -> Paint(3) -> CheckPaint(3) -> Queue -> ToDevice(c);
         t [2] -> CheckLength(1) -> Discard;",
    );
    rig.give("a", b"xyz");
    assert_eq!(rig.out(), [("b".to_owned(), b"yz".to_vec()), ("c".to_owned(), b"yz".to_vec())]);
    assert_eq!(
        (rig.scratch.dropped.len(), rig.scratch.begun),
        (1, 2),
        "the third copy is too long, and nothing is behind that"
    );
}

#[test]
fn mistakes_in_arguments_are_told_together_at_their_places() {
    let text = "FromDevice(a) -> Queue(many) -> Strip(14, 3) -> EtherEncap(0x800, 1:2) -> ToDevice(b);";
    let wrong = load(text, &[]).err().unwrap();
    let said = click::diagnostic::render(&wrong, "test", text, false);
    for part in
        ["'many' is not a number", "Strip has no more arguments", "'1:2' is not an Ethernet address", "lacks DST"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let unknown = load("FromDevice(a) -> Counterr -> Discard;", &[]).err().unwrap();
    assert!(click::diagnostic::render(&unknown, "test", "", false).contains("Counter"), "the nearest name is shown");
}

#[test]
fn schedulers_share_what_is_pulled() {
    for (sched, expected) in [
        ("RoundRobinSched", vec![0, 1, 0, 1, 0, 1]),
        ("PrioSched", vec![0, 0, 0, 1, 1, 1]),
        ("StrideSched(2, 1)", vec![0, 1, 0, 0, 1, 1]),
    ] {
        let mut rig = Rig::new(&format!(
            "a :: FromDevice(a) -> Queue -> [0] s :: {sched}; FromDevice(b) -> Queue -> [1] s;
             s -> u :: Unqueue(ACTIVE false) -> Queue -> ToDevice(c);",
        ));
        for _ in 0..3 {
            rig.give("a", &[0]);
            rig.give("b", &[1]);
        }
        let u = rig.graph.find("u").unwrap();
        rig.graph.write(u, "active", "true").unwrap().unwrap();
        while rig.graph.work(rig.now, &mut rig.pool, &mut rig.scratch) {}
        let bytes: Vec<_> = rig.out().into_iter().map(|(_, bytes)| bytes[0]).collect();
        assert_eq!(bytes, expected, "{sched}");
    }
}

#[test]
fn a_text_of_a_few_engines_is_not_expanded_to_many() {
    let inner =
        |name: &str, of: &str| format!("elementclass {name} {{ input -> {of} -> {of} -> {of} -> {of} -> output }} ");
    let bomb = format!("{}{}{}Idle -> C -> Discard;", inner("A", "Null"), inner("B", "A"), inner("C", "B"));
    assert!(load(&bomb, &[]).is_ok(), "an operator's may be");
    let why = |text: &str, most: usize| load_part(text, most).unwrap_err().remove(0).message;
    assert_eq!(why(&bomb, 8), "the configuration is too large with all its compounds");
    let long = format!("define($a {}); Idle -> Print($a$a$a$a) -> Discard;", "x".repeat(60_000));
    assert_eq!(why(&long, 3), "the configuration is too large with all its compounds");
}

/// What is wrong with a text, all of it.
fn wrong(text: &str) -> String {
    load(text, &[]).err().map_or(String::new(), |wrong| click::diagnostic::render(&wrong, "t", text, false))
}

#[test]
fn outputs_by_which_packets_would_leave_are_connected() {
    for (text, output) in [
        ("FromDevice(a) -> c :: IPClassifier(tcp, udp, -) -> Discard; c [1] -> Discard;", 2),
        ("FromDevice(a) -> c :: IPFilter(2 tcp, allow udp) -> Discard;", 2),
        ("FromDevice(a) -> c :: LinearIPLookup(10.0.0.0/8 0, 0/0 1) -> Discard;", 1),
        ("FromDevice(a) -> c :: IPRewriter(pattern 10.0.0.1 1-9 - - 0 1) -> Discard;", 1),
        ("FromDevice(a) -> c :: IPRewriter(pass 3) -> Discard;", 3),
    ] {
        let said = wrong(text);
        assert!(said.contains(&format!("output {output} of 'c' is not connected")), "{text}: {said}");
        let better = format!("{text} c [1] -> Discard; c [2] -> Discard; c [3] -> Discard;");
        assert!(!wrong(&better).contains("is not connected"), "{better}");
    }
}

#[test]
fn engines_are_named_where_they_stand() {
    let inner = "elementclass Box { input -> rw :: IPRewriter(keep 0 0) -> e :: ICMPRewriter(rw) -> output; }
                 FromDevice(a) -> Box -> Discard;";
    assert_eq!(wrong(inner), "");
    let outer = "rw :: TCPRewriter(keep 0 0); FromDevice(b) -> rw -> Discard;
                 elementclass Box { input -> ICMPRewriter(rw) -> output; } FromDevice(a) -> Box -> Discard;";
    assert_eq!(wrong(outer), "");
    let said =
        wrong("c :: Counter; FromDevice(b) -> c -> Discard; FromDevice(a) -> ICMPRewriter(c nobody) -> Discard;");
    assert!(
        said.contains("'c' is none of IPRewriter, ICMPPingRewriter at this place") && said.contains("'nobody'"),
        "{said}"
    );
    let said = wrong(
        "IPRewriterPatterns(p 1.2.3.4 5-1 - -, q 1.2.3.4 1-5 - -, q - - - -);
                      FromDevice(a) -> IPRewriter(pattern r 0 0) -> Discard;",
    );
    for part in
        ["'5-1' ends before it begins", "the pattern 'q' stands twice", "'r' is no pattern of IPRewriterPatterns"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
}
