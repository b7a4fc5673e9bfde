//! Graphs in two halves: what the program in the kernel does with a packet, and what it counts, is what the same graph does in user space.
//!
//! A user half alone and one above a kernel half run the same graph and get the same frames; what the kernel half leaves to the user half
//! goes there. `tests/net/graphs.rs` has the same on real interfaces.

mod places;
mod translator;

use crate::channels::{Ends, PLAIN, datagram, odd, packet};
use crate::place::{Came, FAR, LEFT, OWN_MACS, Place, RIGHT, v6};
use anode::core::reason::Reason;
use anode::frame::{Link, PortId};
use anode::kernel::KernelChannels;
use anode::node::graphs::{GraphPlace, GraphSpec, GraphTraffic, ProgramWalk, ShownGraph, Swapped, WalkEnd};
use anode::node::places::PortPlaced;
use anode::node::policy::Amendment;
use anode::topology::{Ceiling, Port};
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
        self.apply_at(GraphPlace::Kernel, text).map(|swapped| {
            let may_go_up = text.contains("IPRewriter");
            assert_eq!((swapped.in_kernel, swapped.why.is_some()), (true, may_go_up));
            swapped.generation
        })
    }

    fn apply_at(&mut self, place: GraphPlace, text: &str) -> Result<Swapped, String> {
        let alone = spec(GraphPlace::User, text).prepare().unwrap();
        self.place.alone.control(NOW, |node, turn| node.run_graph(turn, alone, None)).unwrap();
        let above = spec(place, text).prepare().unwrap();
        self.place.above.control(NOW, |node, turn| node.run_graph(turn, above, None))
    }

    /// What comes of a frame at both sides, which must not differ.
    fn pass(&mut self, what: &str, bytes: &[u8]) -> Came {
        self.place.alone.put(NOW, 0, bytes);
        let alone = Came::from(self.place.alone.take());
        let way = self.place.above.control(NOW, |node, _| node.explain(PortId(0), bytes)).program;
        let kernel = self.place.kernel(bytes);
        walks_as_it_went(what, way, &kernel);
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
/// What has passed in the kernel is what comes of the plan when it is followed for people.
fn walks_as_it_went(what: &str, way: Option<ProgramWalk>, kernel: &Came) {
    match kernel {
        Came::Sent(bytes) => {
            let ProgramWalk { engines, end, .. } = way.unwrap_or_else(|| panic!("{what}: no program has it"));
            assert!(matches!(&end, WalkEnd::Leaves(_, left) if left == bytes), "{what}: {end:02x?}, not {bytes:02x?}");
            assert!(engines.len() > 2 && engines[0].starts_with("FromDevice@"), "{what}: {engines:?}");
        }
        Came::Dropped => assert_eq!(way.map(|way| way.end), Some(WalkEnd::Dropped), "{what}"),
        _ => {}
    }
}

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

/// Graphs with engines that have no form in the kernel: why packets go up, some engines that are there, and some that are not; handlers.
type InParts = (&'static str, &'static str, &'static [&'static str], &'static [&'static str], &'static [&'static str]);

const IN_PARTS: &[InParts] = &[
    (
        "FromDevice(r0) -> c :: Counter -> MarkIPHeader(14) -> i :: IPClassifier(udp dst port 9, -) -> a :: Counter \
         -> EtherMirror -> Queue -> ToDevice(r1); i [1] -> b :: Counter -> t :: Tee -> Queue -> ToDevice(r0); \
         t [1] -> d :: Counter -> Discard;",
        "t :: Tee has no form there",
        &["c", "i", "a"],
        &["b", "t", "d"],
        &["c.count", "c.byte_count", "a.count", "a.byte_count", "b.count", "b.byte_count", "d.count"],
    ),
    // Padding is off before a filter, and a hop is spent before an engine that has no form.
    (
        "FromDevice(r0) -> c :: Counter -> Strip(14) -> CheckIPHeader -> b :: Counter -> h :: DecIPTTL \
         -> i :: IPClassifier(icmp type echo, udp dst port 53, tcp, -) -> ENCAP -> e :: Counter -> Queue -> ToDevice(r1); \
         i [1] -> ENCAP -> m :: RandomSample(1) -> Queue -> ToDevice(r0); i [2] -> Discard; i [3] -> f :: Counter -> Discard; \
         h [1] -> x :: Tee -> Discard; x [1] -> Discard;",
        "m :: RandomSample has no form there; x :: Tee has no form there",
        &["c", "b", "h", "i", "e", "f"],
        &["m", "x"],
        &["c.count", "c.byte_count", "b.byte_count", "h.drops", "e.count", "e.byte_count", "f.count", "f.byte_count"],
    ),
    // Most of a router.
    (
        "FromDevice(r0) -> h :: HostEtherFilter(OWN) -> Paint(1) -> Strip(14) -> CheckIPHeader -> c :: Counter \
         -> rt :: LinearIPLookup(10.0.9.0/24 0, 10.0.0.0/16 10.0.2.9 1, 10.0.2.2/32 0, 10.0.2.0/24 2); \
         rt [0] -> d :: Counter -> DropBroadcasts -> t :: PaintTee(2) -> g :: IPGWOptions(10.0.2.254) -> FixIPSrc(10.0.2.254) \
         -> l :: DecIPTTL -> f :: IPFragmenter(760) -> ENCAP -> Queue -> ToDevice(r1); \
         t [1] -> Discard; g [1] -> Discard; l [1] -> Discard; f [1] -> Discard; rt [1] -> e :: Counter -> Discard; \
         rt [2] -> k :: IPFragmenter(300) -> x :: Counter -> Discard;",
        "f :: IPFragmenter: longer packets are cut there; k :: IPFragmenter: longer packets are cut there",
        &["h", "c", "rt", "d", "t", "g", "l", "f", "e", "k", "x"],
        &[],
        &["c.count", "d.byte_count", "l.drops", "e.count", "x.count", "x.byte_count"],
    ),
    // A test of what has been changed cannot be done before the change: there packets go up.
    (
        "FromDevice(r0) -> s :: Classifier(23/11, -) -> Strip(14) -> ENCAP -> k :: Classifier(0/020000000002, -) \
         -> Queue -> ToDevice(r1); k [1] -> t :: Tee -> Discard; t [1] -> Discard; s [1] -> d :: Counter -> Discard;",
        "t :: Tee has no form there",
        &["s", "d"],
        &["t"],
        &["d.count", "d.byte_count"],
    ),
];

#[test]
fn packets_of_engines_without_a_form_go_up_as_they_came_and_are_counted_once() {
    let Some(mut pair) = Pair::new("FromDevice(r0) -> Discard;") else { return };
    let packets = packets();
    for (text, why, there, up, handlers) in IN_PARTS {
        let text = text.replace("ENCAP", ENCAP).replace("OWN", &OWN_MACS[0].to_string());
        // What some packets need in user space is no reason not to be in the kernel; an engine that has no form is.
        let placed = pair.place.above.control(NOW, |node, turn| {
            let graph = spec(GraphPlace::Kernel, &text).prepare().unwrap();
            node.run_graph(turn, graph, None)
        });
        match placed {
            Err(refused) => assert!(why.split("; ").any(|why| refused.contains(why)), "{text}: {refused}"),
            Ok(_) => assert!(up.is_empty(), "{text}"),
        }
        let swapped = pair.apply_at(GraphPlace::Auto, &text).unwrap_or_else(|why| panic!("{text}: {why}"));
        assert!(swapped.in_kernel, "{text}: {swapped:?}");
        let mut said: Vec<_> = swapped.why.as_deref().unwrap_or_default().split("; ").collect();
        said.sort_unstable();
        assert_eq!(said.join("; "), *why, "{text}");
        let before = pair.in_kernel;
        for (what, bytes) in &packets {
            pair.pass(&format!("{text}: {what}"), bytes);
        }
        let in_kernel = pair.in_kernel - before;
        assert!((10..packets.len() as u64).contains(&in_kernel), "{text}: {in_kernel} of {}", packets.len());
        for handler in *handlers {
            let (engine, of) = handler.split_once('.').unwrap();
            pair.read(engine, of);
        }
        pair.counts();
        let [_, both] = pair.shown();
        let places = |names: &[&str], in_kernel| {
            let named = both.engines.iter().filter(|engine| names.contains(&&*engine.name)).collect::<Vec<_>>();
            assert_eq!(named.len(), names.len(), "{text}");
            named.iter().for_each(|engine| assert_eq!(engine.in_kernel, in_kernel, "{text}: {}", engine.name));
        };
        places(there, true);
        places(up, false);
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
    // All packets would go up.
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
fn a_graph_goes_up_when_all_its_packets_would_and_when_its_port_goes_and_comes_back() {
    let text = "FromDevice(r0) -> c :: Counter -> s :: Switch(0) -> Queue -> ToDevice(r1); \
                s [1] -> t :: Tee -> Discard; t [1] -> Discard;";
    let Some(mut pair) = Pair::new(text) else { return };
    let bytes = datagram(PLAIN, b"plain");
    let write = |pair: &mut Pair, value: &str| {
        let Place { alone, above, .. } = &mut pair.place;
        for user in [alone, above] {
            user.control(NOW, |node, turn| node.write_graph(turn.now, "g", ("s", "switch"), value)).unwrap();
        }
    };
    let place = |pair: &mut Pair, name: &str| {
        pair.place.above.control(NOW, |node, turn| {
            let link = Link::Ethernet { mac: OWN_MACS[1], answers: false };
            let (name, ceiling) = (name.into(), Ceiling::default());
            let is = Port { name, link, addresses: Vec::new(), mtu: 1500, bits_per_second: 0, ceiling };
            node.amend(turn, Amendment { placed: vec![PortPlaced { port: PortId(1), is }], ..Amendment::default() });
        });
    };
    let placed = |pair: &mut Pair| {
        let [_, both] = pair.shown();
        (both.status.in_kernel, both.status.why)
    };
    for _ in 0..2 {
        pair.pass("there", &bytes);
        assert_eq!(placed(&mut pair), (true, String::new()));
        write(&mut pair, "1");
        assert_eq!(placed(&mut pair), (false, "t :: Tee has no form there".into()));
        pair.pass("up", &bytes);
        write(&mut pair, "0");
    }
    pair.pass("there again", &bytes);
    assert_eq!((pair.in_kernel, pair.read("c", "count").as_str(), pair.counts().came), (3, "5", 5));
    for _ in 0..2 {
        place(&mut pair, "other");
        let (in_kernel, why) = placed(&mut pair);
        assert!(!in_kernel && why.contains("one of its devices has no kernel half"), "{why}");
        assert_eq!(pair.place.kernel(&bytes), Came::Up(bytes.clone()));
        place(&mut pair, "r1");
        assert_eq!(placed(&mut pair), (true, String::new()));
        assert_eq!(pair.place.kernel(&bytes), Came::Sent(bytes.clone()));
    }
    assert_eq!(pair.place.above.balance().unaccounted(), 0);
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
