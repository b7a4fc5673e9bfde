//! Graphs in two halves: what the program in the kernel does with a packet, and what it counts, is what the same graph does in user space.
//!
//! A user half alone and one above a kernel half run the same graph and get the same frames; what the kernel half leaves to the user half
//! goes there. `tests/net/graphs.rs` has the same on real interfaces.

use crate::channels::{Ends, PLAIN, datagram, odd, packet};
use crate::place::{Came, FAR, LEFT, Place, RIGHT, v6};
use anode::core::reason::Reason;
use anode::kernel::KernelChannels;
use anode::node::graphs::{GraphPlace, GraphSpec, GraphTraffic, ShownGraph};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::wire::Addr;

const NOW: u64 = 1_000_000_000;

fn role(name: &str, kernel_programs: u16, bandwidth: u64) -> Role {
    let grants = Grants { channels: 64, bandwidth, memory_bytes: 1 << 24, kernel_programs, ..Grants::default() };
    Role { name: name.into(), grants, ..Role::anyone(Limits::default()) }
}

fn spec(place: GraphPlace, text: &str) -> GraphSpec {
    let take = vec!["r0/ip 10.0.0.0/8".to_owned(), "r0/ip fd00:9::/64".to_owned()];
    GraphSpec { name: "g".into(), role: "graphs".into(), take, text: text.into(), place }
}

/// Both sides with the same graph.
struct Pair {
    place: Place,
    in_kernel: u64,
}

impl Pair {
    fn new(text: &str) -> Option<Pair> {
        Pair::within(text, u64::MAX)
    }

    fn within(text: &str, bandwidth: u64) -> Option<Pair> {
        let roles = vec![role("graphs", 1, bandwidth), role("none", 0, bandwidth)];
        let mut place = Place::with_roles(Limits::default(), roles)?;
        let half = KernelChannels::of(place.half(), 2, false).unwrap();
        place.above.control(NOW, |node, _| node.set_channel_halves(vec![Box::new(half)]));
        let mut pair = Pair { place, in_kernel: 0 };
        pair.apply(text).unwrap();
        Some(pair)
    }

    /// The graph becomes another one, at both sides.
    fn apply(&mut self, text: &str) -> Result<u32, String> {
        let alone = spec(GraphPlace::User, text).prepare().unwrap();
        self.place.alone.control(NOW, |node, turn| node.run_graph(turn, alone, None)).unwrap();
        let above = spec(GraphPlace::Kernel, text).prepare().unwrap();
        let swapped = self.place.above.control(NOW, |node, turn| node.run_graph(turn, above, None))?;
        assert_eq!(swapped.why, None);
        Ok(swapped.generation)
    }

    /// What comes of a frame at both sides, which must not differ.
    fn pass(&mut self, what: &str, bytes: &[u8]) -> Came {
        self.place.alone.put(NOW, 0, bytes);
        let alone = Came::from(self.place.alone.take());
        let kernel = self.place.kernel(bytes);
        self.in_kernel += u64::from(!matches!(kernel, Came::Up(_)));
        let both = match kernel {
            Came::Up(bytes) => {
                // What the kernel has dropped since is in the accounts by now.
                self.place.above.take();
                self.place.user_at(NOW, &bytes)
            }
            Came::Dropped => Came::DroppedFor(Reason::GraphDropped),
            came => came,
        };
        assert_eq!(alone, both, "{what}: {bytes:02x?}");
        both
    }

    fn shown(&mut self) -> [ShownGraph; 2] {
        let Place { alone, above, .. } = &mut self.place;
        [alone, above].map(|user| user.control(NOW, |node, _| node.graph("g")).unwrap())
    }

    fn read(&mut self, engine: &str, handler: &str) -> String {
        let Place { alone, above, .. } = &mut self.place;
        let [one, two] =
            [alone, above].map(|user| user.control(NOW, |node, _| node.read_graph("g", engine, handler)).unwrap());
        assert_eq!(one, two, "{engine}.{handler}");
        one
    }

    /// Counts of connections, packets and the domain at both sides, which must not differ.
    fn counts(&mut self) -> GraphTraffic {
        let [alone, both] = self.shown();
        assert_eq!(alone.wires, both.wires);
        let traffic = both.status.traffic;
        assert_eq!(alone.status.traffic, traffic);
        assert_eq!(traffic.came + traffic.begun, traffic.left + traffic.used + traffic.dropped + traffic.held);
        let domain = both.status.domain;
        let Place { alone, above, .. } = &mut self.place;
        let [alone, both] = [alone, above].map(|user| {
            user.control(NOW, |node, _| {
                let usage = node.domain_tree().into_iter().find(|found| found.id == domain.0).unwrap().usage;
                let channels = node.channel_list().into_iter().filter(|channel| channel.domain == domain.0);
                let channels: Vec<_> = channels.map(|channel| channel.traffic).collect();
                let drops = serde_json::to_string(&usage.drops).unwrap();
                (channels, usage.packets, usage.bytes, drops)
            })
        });
        assert_eq!(alone, both);
        traffic
    }
}

const ENCAP: &str = "EtherEncap(0x800, 02:00:00:00:00:01, 02:00:00:00:00:02)";

/// Graphs, with handlers to read afterwards.
const GRAPHS: &[(&str, &[&str])] = &[
    ("FromDevice(r0) -> c :: Counter -> Queue -> t :: ToDevice(r1);", &["c.count", "c.byte_count", "t.count"]),
    ("FromDevice(r0) -> Null -> EtherMirror -> Queue -> c :: Counter -> ToDevice(r0);", &["c.count", "c.byte_count"]),
    ("f :: FromDevice(r0) -> d :: Discard;", &["f.count", "d.count"]),
    (
        "FromDevice(r0) -> Strip(14) -> h :: CheckIPHeader(INTERFACES 10.0.1.1/24 10.0.2.1/24) -> c :: Counter \
         -> d :: DecIPTTL -> ENCAP -> Queue -> ToDevice(r1); h [1] -> Discard; d [1] -> e :: Counter -> Discard;",
        &["h.drops", "d.drops", "c.count", "c.byte_count", "e.count"],
    ),
    (
        "FromDevice(r0) -> MarkIPHeader(14) -> i :: IPClassifier(udp dst port 53 or udp dst port 5000, tcp, src 10.0.1.1 and not udp, \
         icmp type echo, dst net 10.0.9.0/24 and udp src port > 4000, -) \
         -> Paint(1) -> p :: PaintSwitch; i [1] -> Paint(2) -> p; i [2] -> Paint(3) -> p; i [3] -> Paint(4) -> p; \
         i [4] -> Paint(5) -> p; i [5] -> Paint(6) -> p; \
         p [0] -> Discard; p [1] -> a :: Counter -> Queue -> ToDevice(r1); p [2] -> b :: Counter -> Discard; \
         p [3] -> c :: Counter -> Discard; p [4] -> d :: Counter -> Discard; p [5] -> e :: Counter -> Discard; \
         p [6] -> f :: Counter -> Discard;",
        &["a.count", "b.count", "c.count", "d.count", "e.count", "f.count"],
    ),
    (
        "FromDevice(r0) -> CheckIPHeader(14) -> i :: IPFilter(deny ttl < 20, 1 ip proto 47 or tcp opt syn, \
         allow udp && (dst port 9 || ip id 7) && !(src 10.0.1.2), drop tos 16, 2 all) -> Queue -> ToDevice(r1); \
         i [1] -> a :: Counter -> Discard; i [2] -> b :: Counter -> Discard;",
        &["a.count", "a.byte_count", "b.count", "b.byte_count"],
    ),
    (
        "FromDevice(r0) -> k :: Classifier(12/0800 23/11 36/1388%fff8, 12/86dd, !12/0800, 14/45 42/??6561, 62/00000000000001, -) \
         -> Queue -> ToDevice(r1); k [1] -> a :: Counter -> Discard; k [2] -> b :: Counter -> Discard; \
         k [3] -> c :: Counter -> Discard; k [4] -> d :: Counter -> Discard; k [5] -> e :: Counter -> Discard;",
        &["a.count", "b.count", "c.count", "d.count", "e.count"],
    ),
    (
        "FromDevice(r0) -> s :: Switch(1); s [0] -> Discard; s [1] -> Strip(20) -> c :: Counter -> Unstrip(20) \
         -> CheckPaint(0) -> q :: FrontDropQueue -> Discard;",
        &["c.count", "c.byte_count"],
    ),
];

/// Packets of many kinds, most of them plain.
fn packets() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = odd().into_iter().map(|(what, bytes, ..)| (what.to_owned(), bytes)).collect();
    all.retain(|(what, _)| what != "another's link address" && what != "too large");
    for life in [1, 2, 20] {
        for (from, to) in
            [(LEFT, FAR), (Addr::v4([10, 0, 1, 2]), RIGHT), (Addr::v4([10, 0, 2, 255]), FAR), (v6(1, 1), v6(9, 9))]
        {
            for port in [9, 53, 5000, 5007] {
                for length in [0, 5, 700] {
                    let ends = Ends { from, to, ports: (4000 + u16::from(life), port), life, summed: true };
                    all.push((format!("{from} {to} {port} {length} {life}"), datagram(ends, &vec![0x65; length])));
                }
            }
        }
    }
    for flags in [0, 2, 16, 18] {
        let mut segment = [0; 24];
        (segment[12], segment[13]) = (0x50, flags);
        all.push((format!("TCP {flags}"), packet(PLAIN, 6, &segment)));
    }
    for kind in [0, 8] {
        all.push((format!("ICMP {kind}"), packet(PLAIN, 1, &[kind, 0, 0, 0, 0, 1, 0, 2])));
        all.push((format!("a short ICMP {kind}"), packet(PLAIN, 1, &[kind, 0, 0])));
    }
    // Padding is no part of the packet.
    let mut padded = packet(PLAIN, 1, &[8]);
    padded.resize(60, 8);
    all.push(("padded ICMP".into(), padded));
    all
}

#[test]
fn graphs_do_the_same_in_both_halves_and_count_the_same() {
    let Some(mut pair) = Pair::new("FromDevice(r0) -> Discard;") else { return };
    let packets = packets();
    for (text, handlers) in GRAPHS {
        let text = text.replace("ENCAP", ENCAP);
        pair.apply(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let (before, came) = (pair.in_kernel, pair.counts().came);
        for (what, bytes) in &packets {
            pair.pass(&format!("{text}: {what}"), bytes);
        }
        for handler in *handlers {
            let (engine, of) = handler.split_once('.').unwrap();
            pair.read(engine, of);
        }
        let traffic = pair.counts();
        assert!(traffic.came - came >= packets.len() as u64 / 2, "{text}: {traffic:?}");
        assert!(pair.in_kernel - before >= packets.len() as u64 * 3 / 4, "{text}");
    }
}

#[test]
fn counts_go_on_in_the_next_generation_and_what_is_written_counts_at_once() {
    let through =
        "FromDevice(r0) -> c :: Counter -> s :: Switch(0) -> Queue -> ToDevice(r1); s [1] -> d :: Counter -> Discard;";
    let Some(mut pair) = Pair::new(through) else { return };
    let bytes = datagram(PLAIN, b"plain");
    for _ in 0..3 {
        assert!(matches!(pair.pass("before", &bytes), Came::Sent(_)));
    }
    let more = through.replace("c :: Counter ->", "c :: Counter -> other :: Counter ->");
    assert_eq!(pair.apply(&more), Ok(2));
    pair.pass("after", &bytes);
    assert_eq!((pair.read("c", "count"), pair.read("other", "count")), ("4".into(), "1".into()));
    let Place { alone, above, .. } = &mut pair.place;
    for user in [alone, above] {
        user.control(NOW, |node, turn| node.write_graph(turn.now, "g", ("s", "switch"), "1")).unwrap();
        user.control(NOW, |node, turn| node.write_graph(turn.now, "g", ("c", "reset"), "")).unwrap();
    }
    assert_eq!(pair.pass("switched", &bytes), Came::DroppedFor(Reason::GraphDropped));
    assert_eq!((pair.read("c", "count"), pair.read("d", "count")), ("1".into(), "1".into()));
    assert_eq!((pair.counts().came, pair.in_kernel), (5, 5));
    let [_, both] = pair.shown();
    assert!(
        both.status.in_kernel
            && both
                .engines
                .iter()
                .all(|engine| engine.in_kernel != (engine.class == "Queue" || engine.class == "ToDevice"))
    );
}

#[test]
fn what_cannot_be_in_the_kernel_is_refused_or_runs_in_user_space_and_says_why() {
    let through = "FromDevice(r0) -> c :: Counter -> Queue -> ToDevice(r1);";
    let Some(mut pair) = Pair::new(through) else { return };
    let bytes = datagram(PLAIN, b"plain");
    pair.pass("before", &bytes);
    let mut put = |place, text: &str, role: &str, name: &str| {
        let graph = GraphSpec { role: role.into(), name: name.into(), ..spec(place, text) };
        let graph = GraphSpec { take: if name == "g" { graph.take } else { vec!["r0/ip/udp *:77".into()] }, ..graph };
        let graph = graph.prepare().unwrap();
        pair.place.above.control(NOW, |node, turn| node.run_graph(turn, graph, None))
    };
    let shaped = "FromDevice(r0) -> c :: Counter -> Queue -> s :: Shaper(9) -> ToDevice(r1);";
    let why = put(GraphPlace::Kernel, shaped, "graphs", "g").unwrap_err();
    assert_eq!(
        why,
        "graph g: it cannot run in the kernel: s :: Shaper has no form there; place = \"auto\" runs it in user space then"
    );
    let why = put(GraphPlace::Kernel, through, "none", "h").unwrap_err();
    assert!(why.contains("the role none has grants.kernel_programs = 0"), "{why}");
    let why = put(GraphPlace::Kernel, through, "graphs", "h").unwrap_err();
    assert!(why.contains("the role graphs has 1 programs in the kernel"), "{why}");
    assert_eq!(pair.place.kernel(&bytes), Came::Sent(bytes.clone()), "the one before runs on");
    let mut put = |place, text: &str| {
        let graph = spec(place, text).prepare().unwrap();
        pair.place.above.control(NOW, |node, turn| node.run_graph(turn, graph, None)).unwrap().why
    };
    assert_eq!(put(GraphPlace::Auto, shaped), Some("s :: Shaper has no form there".into()));
    assert_eq!(pair.place.kernel(&bytes), Came::Up(bytes.clone()));
    let mut put = |place, text: &str| {
        let graph = spec(place, text).prepare().unwrap();
        pair.place.above.control(NOW, |node, turn| node.run_graph(turn, graph, None)).unwrap().why
    };
    assert_eq!(put(GraphPlace::User, through), Some("it is to run in user space".into()));
    assert_eq!(put(GraphPlace::Auto, through), None);
    assert_eq!(pair.place.kernel(&bytes), Came::Sent(bytes));
    let count = pair.place.above.control(NOW, |node, _| node.read_graph("g", "c", "count"));
    assert_eq!(count.as_deref(), Ok("3"));
}

#[test]
fn frames_that_a_device_would_not_take_go_up_as_they_came() {
    let text = "FromDevice(r0) -> c :: Counter -> EtherMirror -> Queue -> ToDevice(r1);";
    let Some(mut pair) = Pair::new(text) else { return };
    for (redirected, length, in_kernel) in [(1500, 1400, true), (600, 600, false), (600, 500, true), (0, 10, false)] {
        pair.place.redirect(redirected);
        let before = pair.in_kernel;
        let came = pair.pass("a frame", &datagram(PLAIN, &vec![7; length]));
        assert!(matches!(came, Came::Sent(_)), "{length} bytes: {came:?}");
        assert_eq!(pair.in_kernel > before, in_kernel, "{length} bytes, {redirected}");
    }
    assert_eq!((pair.read("c", "count"), pair.counts().left), ("4".into(), 4));
}

#[test]
fn bandwidth_and_budget_are_those_of_both_halves() {
    // A second's bandwidth is a burst of some frames.
    let Some(mut pair) = Pair::within("FromDevice(r0) -> Queue -> ToDevice(r1);", 1000) else { return };
    let bytes = datagram(PLAIN, &[7; 900]);
    let came: Vec<_> = (0..100).map(|_| pair.place.kernel(&bytes)).collect();
    let sent = came.iter().filter(|came| matches!(came, Came::Sent(_))).count() as u64;
    assert!(
        came.iter().all(|came| matches!(came, Came::Sent(_) | Came::Dropped)) && (1..100).contains(&sent),
        "{sent}"
    );
    let [_, both] = pair.shown();
    let GraphTraffic { came, left, dropped, .. } = both.status.traffic;
    assert_eq!((came, left, dropped), (100, sent, 100 - sent));
    assert_eq!(pair.place.above.balance().unaccounted(), 0);
}
