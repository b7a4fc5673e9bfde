//! Channels whose packets a rule over taught protocols says: which of them get a packet, and what of it.

use crate::bed::{Bed, datagram_with};
use crate::moves::{Crew, KIND, in_order, role as crew_role};
use anode::classify::taught::classifier::{Classifier, MatchMode};
use anode::classify::taught::pattern::NoNames;
use anode::classify::taught::protocols::Protocols;
use anode::classify::taught::text::{self, Vocabulary};
use anode::core::reason::Reason;
use anode::frame::{Frame, PortId, WorkerId};
use anode::graph::taught::{Classifying, RULES_MAX};
use anode::node::hosts::InProcess;
use anode::node::policy::Amendment;
use anode::node::{Effect, RuleWords};
use anode::nodeos::interface::{ChanSpec, DomainId, Error, InChanId, KeyTuple, NetSpec, NodeOs, Upcall};
use anode::schedule::Policy;
use anode::trust::Role;
use anode::trust::grants::Grants;
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::sync::{Arc, Mutex};

/// A protocol behind UDP, with a header of which a field says how long it is.
const APP: &str = "(protocol app (follows udp 2001) (hdr_len words * 4 min 4) (require version = 1)
    (field version offset 0 bit 0 bits 4) (field words offset 0 bit 4 bits 4)
    (field kind offset 1 length 1) (field stream offset 2 length 2 cost 5 flow))";

/// Channels and lengths of what came, in order.
type Told = Arc<Mutex<Vec<(InChanId, usize)>>>;

struct Tells(Told);

impl InProcess for Tells {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, channel } = upcall {
            self.0.lock().unwrap().push((channel, frame.len()));
            os.packet_free(domain, frame);
        }
    }
}

fn role(channels: u16) -> Role {
    let grants = Grants { channels, bandwidth: u64::MAX, memory_bytes: 1 << 24, ..Grants::default() };
    Role { grants, ..Role::anyone(Default::default()) }
}

fn classifying(mode: MatchMode) -> Classifying {
    let mut protocols = Protocols::standard();
    protocols.teach(APP).unwrap();
    Classifying { mode, protocols: Arc::new(protocols), ..Classifying::default() }
}

fn spec(protocol: &str, address: &str) -> ChanSpec {
    let net = NetSpec { buffers: 4096, ..NetSpec::default() };
    ChanSpec { protocol: protocol.into(), address: address.into(), net, ..ChanSpec::default() }
}

/// A node with one domain.
struct Stand {
    bed: Bed,
    domain: DomainId,
    told: Told,
}

impl Stand {
    fn new(mode: MatchMode) -> Stand {
        let mut bed = Bed::new(Policy::Wfq);
        bed.driver.node.set_classifying(classifying(mode));
        let told = Told::default();
        let domain = bed.domain(&role(4096), Box::new(Tells(told.clone())));
        Stand { bed, domain, told }
    }

    fn open(&mut self, protocol: &str, address: &str) -> Result<InChanId, Error> {
        let domain = self.domain;
        self.bed.os(domain, |os| os.inchan_create(domain, &spec(protocol, address)))
    }

    fn close(&mut self, channel: InChanId) {
        let domain = self.domain;
        self.bed.os(domain, |os| os.inchan_destroy(channel)).unwrap();
    }

    /// A frame comes; what came of it, once all have had their turns.
    fn feed(&mut self, frame: Frame) -> Vec<(InChanId, usize)> {
        self.bed.now += 1_000_000;
        self.bed.turn(|node, turn| node.receive(turn, frame));
        while let Some(ran) = self.bed.turn(|node, turn| node.run_next(turn)) {
            self.bed.driver.node.ran(ran, 1, self.bed.now);
        }
        self.told.lock().unwrap().drain(..).collect()
    }

    fn teach(&mut self, classifying: Classifying) {
        let amendment = Amendment { classifying: Some(classifying), ..Amendment::default() };
        self.bed.turn(|node, turn| node.amend(turn, amendment));
    }

    fn not_ours(&self) -> u64 {
        self.bed.driver.node.balance().not_ours
    }
}

/// A packet of the protocol, with four bytes behind its header of four.
fn app(stream: u16) -> Frame {
    let [high, low] = stream.to_be_bytes();
    datagram_with(2001, &[0x11, 3, high, low, 1, 2, 3, 4])
}

#[test]
fn a_rule_says_which_packets_and_the_protocol_what_of_them() {
    let stream = "[ip | udp | app (stream = 7) | *]";
    for (protocol, address, bytes) in [
        ("if0/rule", stream, Some(50)),
        ("*/rule", stream, Some(50)),
        ("eth0/ip/rule", stream, Some(16)),
        ("if0/ip/udp/rule", stream, Some(8)),
        ("if1/ip/udp/rule", stream, None),
        ("if0/ip/udp/rule", "[app (stream = 5..9)(kind & 1 = 1) | *]", Some(8)),
        ("if0/ip/udp/rule", "[app (stream = 8) | *]", None),
        ("if0/ip/udp/rule", "[ip (src = 10.0.0.0/24) | udp | app]", Some(8)),
        ("if0/ip/udp/rule", "[ip | udp]", None),
        ("if0/ip/udp/pcap", "udp[10:2] = 7 and src net 10.0.0.0/8", Some(8)),
        ("if0/ip/udp/pcap", "udp[10:2] = 8 or port 2002", None),
        ("if0/ip/udp/rule", "[ip | udp (dport = 2001) | *]", Some(8)),
        ("if0/ip/udp/rule/checksum", stream, None),
    ] {
        for mode in [MatchMode::First, MatchMode::All, MatchMode::Best] {
            let mut stand = Stand::new(mode);
            let channel = stand.open(protocol, address).unwrap_or_else(|why| panic!("{protocol} {address}: {why:?}"));
            let expected: Vec<_> = bytes.map(|bytes| (channel, bytes)).into_iter().collect();
            for round in 0..3 {
                assert_eq!(stand.feed(app(7)), expected, "{mode:?} {protocol} {address}, packet {round}");
            }
            stand.close(channel);
            let before = stand.not_ours();
            assert_eq!(stand.feed(app(7)), []);
            assert_eq!(stand.not_ours(), before + 1, "Linux has it");
        }
    }
}

#[test]
fn the_mode_says_which_of_the_channels_get_a_packet() {
    let rules = [
        ("if0/ip/udp/rule", "[ip | udp (dport = 2001..2005) | *]"),
        ("if0/ip/udp/rule", "[ip | udp | app (stream = 7) | *]"),
        ("if0/rule", "[ip | udp | app (stream = 7) | *]"),
        ("if0/ip/udp/rule", "[ip | udp | app (stream = 8) | *]"),
    ];
    for (mode, stream, others, expected) in [
        (MatchMode::First, 7, false, &[0][..]),
        (MatchMode::All, 7, false, &[0, 1, 2]),
        (MatchMode::Best, 7, false, &[1, 2]),
        (MatchMode::Best, 9, false, &[0]),
        (MatchMode::All, 8, false, &[0, 3]),
        // A channel of fixed fields is asked first.
        (MatchMode::First, 7, true, &[4]),
        (MatchMode::Best, 7, true, &[4]),
        (MatchMode::All, 7, true, &[0, 1, 2, 4]),
    ] {
        let mut stand = Stand::new(mode);
        let mut channels: Vec<_> =
            rules.iter().map(|(protocol, address)| stand.open(protocol, address).unwrap()).collect();
        if others {
            channels.push(stand.open("if0/ip/udp", "*:2001").unwrap());
        }
        for round in 1..4 {
            let mut came: Vec<_> = stand.feed(app(stream)).into_iter().map(|(channel, _)| channel).collect();
            came.sort_unstable();
            let expected: Vec<_> = expected.iter().map(|at| channels[*at]).collect();
            assert_eq!(came, expected, "{mode:?}, stream {stream}, packet {round}");
        }
        let balance = stand.bed.driver.node.balance();
        assert_eq!(balance.delivered, 3 * expected.len() as u64);
        assert_eq!(balance.made, 3 * (expected.len() as u64 - 1), "the last one gets the frame itself");
        let usage = stand.bed.usage(stand.domain).unwrap();
        assert_eq!(usage.packets, 3 * expected.len() as u64, "each is paid for");
    }
}

#[test]
fn one_of_a_set_that_is_over_its_budget_takes_nothing_from_others() {
    let mut stand = Stand::new(MatchMode::All);
    let poor = Role { limits: anode::trust::limits::Limits { packets_per_second: 1, ..Default::default() }, ..role(9) };
    let other = stand.bed.domain(&poor, Box::new(Tells(Told::default())));
    let all = "[ip | udp | app | *]";
    let own = stand.open("if0/ip/udp/rule", all).unwrap();
    stand.bed.os(other, |os| os.inchan_create(other, &spec("if0/ip/udp/rule", all))).unwrap();
    for _ in 0..50 {
        assert_eq!(stand.feed(app(1)), [(own, 8)]);
    }
    let drops = stand.bed.driver.node.drops().of(Reason::Budget);
    assert!((40..50).contains(&drops), "{drops}");
}

#[test]
fn rules_that_cannot_be_a_channels_are_refused() {
    let mut stand = Stand::new(MatchMode::First);
    let stream = "[app (stream = 7) | *]";
    stand.open("if0/ip/udp/rule", stream).unwrap();
    stand.open("if0/ip/udp", "*:9").unwrap();
    let long = format!("[*]{}", " ".repeat(1024));
    for (protocol, address, error) in [
        ("if0/ip/udp/rule", stream, Error::Exists),
        ("if0/ip/udp/rule", "[ip | udp (dport = 3322) | *]", Error::Exists),
        ("if0/pcap", "arp", Error::Exists),
        ("if0/rule", "[vlan | *]", Error::Unsupported),
        ("if0/anep/rule", stream, Error::Unsupported),
        ("if0/rule/ip", stream, Error::Unsupported),
        ("if7/rule", stream, Error::Unknown),
        ("if0/rule", "[ap | *]", Error::Invalid),
        ("if0/rule", "", Error::Invalid),
        ("if0/ip/tcp/rule", stream, Error::Invalid),
        ("if0/rule", &long, Error::Invalid),
    ] {
        assert_eq!(stand.open(protocol, address), Err(error), "{protocol} {address}");
    }
    // On another port, or with another payload, it is another one.
    stand.open("if1/ip/udp/rule", stream).unwrap();
    stand.open("if0/rule", stream).unwrap();
    let domain = stand.domain;
    let key = vec![KeyTuple { offset: 0, length: 1, value: 1, mask: 255 }];
    let keyed = ChanSpec { key, ..spec("if0/rule", "[*]") };
    assert_eq!(stand.bed.os(domain, |os| os.inchan_create(domain, &keyed)), Err(Error::Invalid));
    assert_eq!(
        stand.bed.os(domain, |os| os.outchan_create(domain, &spec("if0/rule", stream))),
        Err(Error::Unsupported)
    );
    let poor = stand.bed.domain(&role(1), Box::new(Tells(Told::default())));
    stand.bed.os(poor, |os| os.inchan_create(poor, &spec("if0/rule", "[app (stream = 1) | *]"))).unwrap();
    let second = stand.bed.os(poor, |os| os.inchan_create(poor, &spec("if0/rule", "[app (stream = 2) | *]")));
    assert_eq!(second, Err(Error::Limit), "its role grants one channel");
}

#[test]
fn a_node_has_so_many_rules_and_no_more() {
    let mut stand = Stand::new(MatchMode::First);
    let rule = |stream: usize| format!("[app (stream = {stream}) | *]");
    let channels: Vec<_> = (0..RULES_MAX).map(|at| stand.open("if0/ip/udp/rule", &rule(at)).unwrap()).collect();
    assert_eq!(stand.open("if0/ip/udp/rule", &rule(RULES_MAX)), Err(Error::Full));
    for stream in [0, 500, RULES_MAX - 1] {
        assert_eq!(stand.feed(app(stream as u16)), [(channels[stream], 8)]);
    }
    stand.close(channels[500]);
    assert_eq!(stand.feed(app(500)), []);
    let again = stand.open("if0/ip/udp/rule", &rule(RULES_MAX)).unwrap();
    assert_eq!(stand.feed(app(RULES_MAX as u16)), [(again, 8)]);
    // Rules of many cases count by these.
    let wide: Vec<_> = (0..40).map(|port| format!("dst port {port}")).collect();
    let mut stand = Stand::new(MatchMode::First);
    let open = |stand: &mut Stand, host: u8| {
        let filter = format!("ip src host 10.1.0.{host} and udp and ({})", wide.join(" or "));
        stand.open("if0/ip/udp/pcap", &filter)
    };
    let opened = (0..=255).map_while(|host| open(&mut stand, host).ok()).count();
    assert_eq!(opened, 4096 / 40);
    assert_eq!(open(&mut stand, 255), Err(Error::Full));
}

#[test]
fn protocols_are_taught_and_forgotten_while_packets_pass() {
    let mut stand = Stand::new(MatchMode::First);
    let channel = stand.open("if0/ip/udp/rule", "[app (stream = 7) | *]").unwrap();
    let rest = stand.open("if0/ip/udp/rule", "[ip | udp (dport = 2000..2009) | *]").unwrap();
    assert_eq!(stand.feed(app(7)), [(channel, 8)]);
    let forgotten = Classifying::default();
    assert_eq!(stand.bed.driver.node.unreadable(&forgotten).len(), 1);
    stand.teach(forgotten);
    assert_eq!(stand.feed(app(7)), [(rest, 8)], "the rule holds for nothing");
    assert_eq!(stand.open("if0/ip/udp/rule", "[app (stream = 8) | *]"), Err(Error::Invalid));
    // Another layout of the same protocol: the rule is read with it.
    let mut protocols = Protocols::standard();
    protocols.teach("(protocol app (follows udp 2001) (hdr_len 4) (field stream offset 1 length 1))").unwrap();
    stand.teach(Classifying { mode: MatchMode::All, protocols: Arc::new(protocols), ..Classifying::default() });
    assert_eq!(stand.feed(app(7)), [(rest, 8)]);
    let other = datagram_with(2001, &[0, 7, 0, 0]);
    assert_eq!(stand.feed(other), [(channel, 4), (rest, 4)]);
    stand.teach(classifying(MatchMode::First));
    assert_eq!(stand.feed(app(7)), [(channel, 8)]);
    stand.close(channel);
    stand.close(rest);
    assert_eq!(stand.feed(app(7)), []);
}

#[test]
fn words_of_rules_mean_another_thing_while_packets_pass() {
    let with = |address: &str, port: u64| {
        let hosts = [("sender".to_owned(), vec![address.parse().unwrap()])].into();
        let words = RuleWords::new(&hosts, &[("APP_PORT".to_owned(), port)].into()).unwrap();
        Classifying { words: Arc::new(words), ..classifying(MatchMode::First) }
    };
    let mut stand = Stand::new(MatchMode::First);
    let worded = ["[ip (src = sender) | udp | app (stream = 7) | *]", "[ip | udp (dport = APP_PORT) | *]"];
    assert_eq!(stand.open("if0/ip/udp/rule", worded[0]), Err(Error::Invalid), "nobody is called so");
    assert_eq!(stand.open("if0/ip/udp/pcap", "host sender"), Err(Error::Invalid), "and no name is looked up");
    let of_frame = datagram_with(2001, &[]).bytes()[26..30].iter().map(u8::to_string).collect::<Vec<_>>().join(".");
    stand.teach(with(&of_frame, 2001));
    let [first, second] = worded.map(|rule| stand.open("if0/ip/udp/rule", rule).unwrap());
    assert_eq!((stand.feed(app(7)), stand.feed(app(8))), (vec![(first, 8)], vec![(second, 8)]));
    stand.teach(with("10.9.9.9", 2001));
    assert_eq!((stand.feed(app(7)), stand.feed(app(8))), (vec![(second, 8)], vec![(second, 8)]));
    stand.teach(with("10.9.9.9", 2002));
    assert_eq!((stand.feed(app(7)), stand.feed(app(8))), (vec![], vec![]));
    stand.teach(with(&of_frame, 2002));
    assert_eq!(stand.feed(app(7)), [(first, 8)]);
    let none = classifying(MatchMode::First);
    assert_eq!(stand.bed.driver.node.unreadable(&none).len(), 2);
    stand.teach(none);
    assert_eq!(stand.feed(app(7)), [], "they hold for nothing");
    let idle: Vec<_> = stand.bed.driver.node.channel_list().into_iter().filter_map(|channel| channel.idle).collect();
    assert!(idle.len() == 2 && idle[0].contains("sender") && idle[1].contains("APP_PORT"), "{idle:?}");
    let explained = stand.bed.driver.node.explain(PortId(0), app(7).bytes());
    let told: Vec<_> =
        explained.idle.iter().map(|(channel, _, text, why)| (*channel, text.as_str(), why.clone())).collect();
    assert_eq!(told, [(first.0, worded[0], idle[0].clone()), (second.0, worded[1], idle[1].clone())]);
    assert_eq!((explained.rules.len(), stand.bed.driver.node.explain(PortId(1), app(7).bytes()).idle.len()), (0, 0));
}

#[test]
fn ports_hear_once_of_flows_that_no_rule_can_be_about_and_that_rules_are_others() {
    let mut stand = Stand::new(MatchMode::First);
    stand.open("if0/ip/udp/rule", "[ip | udp (dport = 2000..2001) | app (stream = 7) | *]").unwrap();
    let told = |stand: &mut Stand, frame: Frame| -> Vec<String> {
        stand.bed.driver.out.effects.clear();
        stand.feed(frame);
        let told = stand.bed.driver.out.effects.drain(..).filter_map(|effect| match effect {
            Effect::Foreign(port, flow) => Some(format!("{} {:?}", port.0, flow.ports)),
            _ => None,
        });
        told.collect()
    };
    let (other, port) = (|| datagram_with(2002, &[1]), datagram_with(2002, &[1]).bytes()[34..36].to_vec());
    let from = u16::from_be_bytes([port[0], port[1]]);
    assert_eq!(told(&mut stand, other()), [format!("0 [{from}, 2002]")]);
    let (ours, not_its) = (told(&mut stand, app(7)), told(&mut stand, app(8)));
    assert!(ours.is_empty() && not_its.is_empty(), "the next packet of the flow may be its own");
    stand.bed.driver.out.effects.clear();
    stand.teach(classifying(MatchMode::Best));
    let is_forgotten = |effect: &Effect| matches!(effect, Effect::NoneForeign);
    assert!(stand.bed.driver.out.effects.iter().any(is_forgotten));
}

#[test]
fn a_cut_through_channel_takes_what_a_rule_says() {
    let mut stand = Stand::new(MatchMode::First);
    let domain = stand.domain;
    let from = stand.open("if0/ip/udp/rule", "[app (stream = 7) | *]").unwrap();
    let cut = stand.bed.os(domain, |os| {
        let to = os.outchan_create(domain, &spec("if1/ip/udp", "*:9 -> 10.0.1.2:77")).unwrap();
        os.cutchan_create(from, to)
    });
    cut.unwrap();
    stand.bed.say(1, [10, 0, 1, 2], anode::wire::ethernet::Mac([2, 0, 0, 0, 1, 50]));
    assert_eq!(stand.feed(app(7)), []);
    assert_eq!(stand.feed(app(8)), []);
    stand.bed.say(1, [10, 0, 1, 2], anode::wire::ethernet::Mac([2, 0, 0, 0, 1, 50]));
    let left: Vec<_> = stand.bed.driver.out.frames.iter().filter(|frame| frame.bytes()[12..14] == [8, 0]).collect();
    assert_eq!(left.len(), 1);
    assert_eq!((&left[0].bytes()[36..38], &left[0].bytes()[42..46]), (&[0, 77][..], &[0x11, 3, 0, 7][..]));
    assert_eq!(stand.not_ours(), 1);
}

/// A rule of random tests, and the frames that it may be about.
fn random_rule(chance: &mut Xoshiro256PlusPlus) -> String {
    let mut number = |most: u32| chance.next_u32() % most;
    let ip = ["", "(src = 10.0.0.2)", "(src = 10.0.0.0/29)", "(ttl >= 65)"][number(4) as usize];
    let low = 1999 + number(4);
    let udp = match number(3) {
        0 => String::new(),
        1 => format!("(dport = {low})"),
        _ => format!("(dport = {low}..{})", low + number(3)),
    };
    let app = match number(4) {
        0 => String::new(),
        1 => " | app".into(),
        2 => format!(" | app (stream = {})", number(6)),
        _ => format!(" | app (stream = {}..5)(kind != {})", number(5), number(4)),
    };
    format!("[ip {ip} | udp {udp}{app}{}]", if number(4) == 0 { "" } else { " | *" })
}

#[test]
fn random_packets_reach_what_a_look_at_each_rule_says() {
    for seed in 0..12 {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mode = [MatchMode::First, MatchMode::All, MatchMode::Best][seed as usize % 3];
        let mut stand = Stand::new(mode);
        let protocols = classifying(mode).protocols;
        let (mut channels, mut each) = (Vec::new(), Vec::new());
        let mut oracle = |order: u32, text: &str, port: u16| {
            let mut classifier = Classifier::new((*protocols).clone(), "ethernet", MatchMode::Best, 0, 0).unwrap();
            let (known, root) = (classifier.protocols(), classifier.root());
            let wanted = text::rule(text, &mut Vocabulary { protocols: known, root, names: &mut NoNames }).unwrap();
            classifier.add(&wanted, order, ()).unwrap();
            each.push((classifier, port));
        };
        // Rules that fixed fields can say are theirs, and asked before others: here none is.
        while channels.len() < 60 {
            let (text, port) = (random_rule(&mut chance), (chance.next_u32() % 2) as u16);
            let protocol = ["if0/rule", "if1/rule"][usize::from(port)];
            if let Ok(channel) = stand.open(protocol, &text) {
                oracle(channels.len() as u32, &text, port);
                channels.push(channel);
            }
        }
        let mut closed = vec![false; channels.len()];
        for round in 0..400 {
            let bytes =
                [0x10 | (chance.next_u32() % 3) as u8, (chance.next_u32() % 4) as u8, 0, (chance.next_u32() % 7) as u8];
            let mut frame =
                datagram_with(1999 + (chance.next_u32() % 5) as u16, &bytes[..(chance.next_u32() % 5) as usize]);
            frame.port = PortId((chance.next_u32() % 2) as u16);
            let port = frame.port.0;
            let holding: Vec<_> = each
                .iter()
                .enumerate()
                .filter(|(at, (classifier, own))| {
                    !closed[*at] && *own == port && !classifier.find_by_each(frame.bytes()).is_empty()
                })
                .map(|(at, (classifier, _))| {
                    let worth = classifier.explain(frame.bytes()).rules[0].why.clone();
                    (at, worth.strip_prefix("worth ").unwrap().parse::<u32>().unwrap())
                })
                .collect();
            let most = holding.iter().map(|(_, worth)| *worth).max();
            let wanted = holding.iter().filter(|(_, worth)| mode != MatchMode::Best || Some(*worth) == most);
            let wanted: Vec<_> = wanted
                .take(if mode == MatchMode::First { 1 } else { usize::MAX })
                .map(|(at, _)| channels[*at])
                .collect();
            let mut came: Vec<_> = stand.feed(frame).into_iter().map(|(channel, _)| channel).collect();
            let mut sorted = wanted.clone();
            sorted.sort_unstable();
            came.sort_unstable();
            assert_eq!(came, sorted, "seed {seed}, round {round}, {mode:?}");
            if round % 20 == 19 {
                let at = chance.next_u32() as usize % channels.len();
                if !core::mem::replace(&mut closed[at], true) {
                    stand.close(channels[at]);
                }
            }
        }
    }
}

/// A rule of Ethernet's type, of which the kernel cannot say the same.
fn of_kind(kind: u16) -> ChanSpec {
    spec("if0/rule", &format!("[ethernet (proto = {kind:#x}) | *]"))
}

#[test]
fn rules_of_domains_at_other_workers_get_packets_that_come_by_any_of_them() {
    for mode in [MatchMode::First, MatchMode::All] {
        let mut crew = Crew::new(3, Policy::Wfq);
        crew.all.iter_mut().for_each(|driver| driver.node.set_classifying(classifying(mode)));
        let (domain, log) = crew.environment(2, &crew_role());
        let (second, copies) = crew.environment(1, &crew_role());
        crew.os(2, domain, |os| os.inchan_create(domain, &of_kind(KIND))).unwrap();
        let same = crew.os(1, second, |os| os.inchan_create(second, &of_kind(KIND)));
        assert_eq!(same.is_ok(), mode == MatchMode::All, "one that is never the first is refused everywhere");
        let all = mode == MatchMode::All;
        if all {
            let third = crew_domain(&mut crew, 0);
            crew.channel(0, third, KIND).unwrap();
        }
        for number in 0..30 {
            crew.receive((number % 3) as WorkerId, crate::moves::frame(KIND, (number % 3) as u8, number));
            if number == 15 {
                crew.move_to(2, domain, 0);
            }
        }
        crew.settle();
        in_order(&log);
        assert_eq!((log.lock().unwrap().len(), copies.lock().unwrap().len()), (30, if all { 30 } else { 0 }));
        crew.check();
        let balance = crew.balance();
        assert_eq!((balance.handed, balance.unaccounted()), (0, 0));
        assert_eq!(balance.made, if all { 60 } else { 0 });
    }
}

/// Another environment's domain.
fn crew_domain(crew: &mut Crew, worker: WorkerId) -> DomainId {
    crew.environment(worker, &crew_role()).0
}

#[test]
fn a_worker_that_begins_anew_knows_the_rules_of_others_and_gives_up_its_own() {
    let mut crew = Crew::new(2, Policy::Wfq);
    crew.all.iter_mut().for_each(|driver| driver.node.set_classifying(classifying(MatchMode::First)));
    let (own, _) = crew.environment(1, &crew_role());
    let (other, log) = crew.environment(0, &crew_role());
    crew.os(1, own, |os| os.inchan_create(own, &of_kind(KIND))).unwrap();
    crew.os(0, other, |os| os.inchan_create(other, &of_kind(KIND + 1))).unwrap();
    let again = crew.os(0, other, |os| os.inchan_create(other, &of_kind(KIND)));
    assert_eq!(again, Err(Error::Exists));
    crew.panic(1);
    crew.receive(1, crate::moves::frame(KIND + 1, 0, 1));
    crew.settle();
    assert_eq!(log.lock().unwrap().len(), 1);
    crew.os(0, other, |os| os.inchan_create(other, &of_kind(KIND))).unwrap();
    crew.receive(1, crate::moves::frame(KIND, 0, 2));
    crew.settle();
    assert_eq!(log.lock().unwrap().len(), 2);
    assert_eq!(crew.filters, 2, "ports watch for what has a channel");
}
