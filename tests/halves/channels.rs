//! Channels in two halves: cut-through in the kernel half gives the same packets and counts as a user half alone.
//!
//! A user half alone and one above a kernel half have the same channels and get the same frames; what the kernel half leaves to
//! the user half goes there. `tests/net/channels.rs` has the same on real interfaces.

use crate::dice::Dice;
use crate::place::{Came, FAR, LEFT, MACS, OWN_LEFT, OWN_MACS, Place, RIGHT, v6};
use anode::classify::fields::{Field, HeaderKind};
use anode::core::reason::Reason;
use anode::graph::Traffic;
use anode::kernel::KernelChannels;
use anode::node::hosts::InProcess;
use anode::node::{Node, Turn};
use anode::nodeos::interface::{ChanSpec, CutChanId, DomainId, InChanId, KeyTuple, NetSpec, NodeOs, OutChanId, Upcall};
use anode::trust::Role;
use anode::trust::grants::Grants;
use anode::trust::limits::Limits;
use anode::wire::ethernet::{self, ethertype};
use anode::wire::{Addr, checksum, ipv4, ipv6, udp};

const NOW: u64 = 1_000_000_000;

/// Takes what comes.
struct Sink;

impl InProcess for Sink {
    fn upcall(&mut self, os: &mut dyn NodeOs, domain: DomainId, upcall: Upcall) {
        if let Upcall::Packet { frame, .. } = upcall {
            os.packet_free(domain, frame);
        }
    }
}

/// A cut-through channel by its two ends, or an incoming channel alone.
#[derive(Clone, Debug)]
struct Wanted {
    from: [&'static str; 2],
    key: Vec<KeyTuple>,
    to: Option<[&'static str; 2]>,
    bandwidth: u64,
}

const fn cut(from: [&'static str; 2], to: [&'static str; 2]) -> Wanted {
    Wanted { from, key: Vec::new(), to: Some(to), bandwidth: 0 }
}

/// Names of what was made.
#[derive(Clone, Copy, Debug)]
struct Made {
    from: InChanId,
    to: Option<OutChanId>,
    cut: Option<CutChanId>,
}

fn role(limits: Limits, bandwidth: u64) -> Role {
    let grants = Grants { channels: 256, bandwidth, ..Grants::default() };
    Role { grants, ..Role::anyone(limits) }
}

fn make(node: &mut Node, turn: &mut Turn<'_>, domain: DomainId, wanted: &[Wanted]) -> Vec<Made> {
    node.with_os(turn, domain, |os| {
        let spec = |[protocol, address]: [&str; 2]| ChanSpec {
            protocol: protocol.into(),
            address: address.into(),
            ..ChanSpec::default()
        };
        let one = |wanted: &Wanted| {
            let from = os.inchan_create(domain, &ChanSpec { key: wanted.key.clone(), ..spec(wanted.from) }).unwrap();
            let net = NetSpec { bandwidth: wanted.bandwidth, ..NetSpec::default() };
            let to = wanted.to.map(|to| os.outchan_create(domain, &ChanSpec { net, ..spec(to) }).unwrap());
            Made { from, to, cut: to.map(|to| os.cutchan_create(from, to).unwrap()) }
        };
        wanted.iter().map(one).collect()
    })
}

/// Both sides with the same channels.
struct Pair {
    place: Place,
    domain: DomainId,
    made: Vec<Made>,
    /// Frames, and those that ended in the kernel.
    frames: u64,
    in_kernel: u64,
}

impl Pair {
    fn new(wanted: &[Wanted]) -> Option<Pair> {
        Pair::within(wanted, Limits::default(), u64::MAX)
    }

    fn within(wanted: &[Wanted], limits: Limits, bandwidth: u64) -> Option<Pair> {
        let mut place = Place::new()?;
        let half = KernelChannels::of(place.half(), 2, false).unwrap();
        place.above.control(NOW, |node, _| node.set_channel_halves(vec![Box::new(half)]));
        let begin = |node: &mut Node, turn: &mut Turn<'_>| {
            let (_, domain) = node.attach("t", &role(limits, bandwidth), Box::new(Sink)).unwrap();
            (domain, make(node, turn, domain, wanted))
        };
        place.alone.control(NOW, begin);
        let (domain, made) = place.above.control(NOW, begin);
        Some(Pair { place, domain, made, frames: 0, in_kernel: 0 })
    }

    /// What comes of a frame at both sides.
    fn pass(&mut self, bytes: &[u8]) -> (Came, Came) {
        self.place.alone.put(NOW, 0, bytes);
        let alone = Came::from(self.place.alone.take());
        let kernel = self.place.kernel(bytes);
        self.frames += 1;
        self.in_kernel += u64::from(matches!(kernel, Came::Sent(_)));
        let both = match kernel {
            Came::Up(bytes) => self.place.user_at(NOW, &bytes),
            came => came,
        };
        (alone, both)
    }

    /// The same, which must not differ.
    fn same(&mut self, what: &str, bytes: &[u8]) -> Came {
        let (alone, both) = self.pass(bytes);
        assert_eq!(alone, both, "{what}: {bytes:02x?}");
        both
    }

    /// What has gone through all channels, and the domain's packets, bytes and drops, at both sides.
    fn accounts(&mut self) -> [(Vec<Traffic>, String); 2] {
        let domain = self.domain;
        let look = |node: &mut Node, _: &mut Turn<'_>| {
            // Those of the domain: the node has some of its own.
            let of_domain = node.channel_list().into_iter().filter(|channel| channel.domain == domain.0);
            let channels = of_domain.map(|channel| channel.traffic).collect();
            let tree = node.domain_tree();
            let usage = &tree.iter().find(|found| found.id == domain.0).unwrap().usage;
            (
                channels,
                format!(
                    "{} packets, {} bytes, {}",
                    usage.packets,
                    usage.bytes,
                    serde_json::to_string(&usage.drops).unwrap()
                ),
            )
        };
        [self.place.alone.control(NOW, look), self.place.above.control(NOW, look)]
    }

    fn in_kernel(&mut self) -> u64 {
        let list = self.place.above.control(NOW, |node, _| node.channel_list());
        list.iter().filter_map(|channel| channel.in_kernel).sum()
    }
}

/// What is between Ethernet and payload.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub from: Addr,
    pub to: Addr,
    pub ports: (u16, u16),
    pub life: u8,
    pub summed: bool,
}

pub const PLAIN: Ends = Ends { from: LEFT, to: FAR, ports: (4000, 9), life: 33, summed: true };

pub fn datagram(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; udp::HEADER];
    let header = udp::Repr { source_port: ends.ports.0, destination_port: ends.ports.1, payload_len: payload.len() };
    header.emit(&mut segment).unwrap();
    segment.extend(payload);
    if ends.summed {
        udp::PacketMut::new_checked(&mut segment).unwrap().fill_checksum(ends.from, ends.to);
    }
    packet(ends, udp::IP_PROTOCOL, &segment)
}

pub fn packet(ends: Ends, protocol: u8, segment: &[u8]) -> Vec<u8> {
    let v4 = ends.from.is_v4();
    let mut bytes = vec![0; 14 + if v4 { 20 } else { 40 }];
    let ethertype = if v4 { ethertype::IPV4 } else { ethertype::IPV6 };
    ethernet::Repr { destination: OWN_MACS[0], source: MACS[0], tag: None, ethertype }.emit(&mut bytes).unwrap();
    if let (Some(from), Some(to)) = (ends.from.bytes_v4(), ends.to.bytes_v4()) {
        ipv4::Repr::new(from, to, protocol, ends.life, segment.len()).emit(&mut bytes[14..]).unwrap();
    } else {
        ipv6::Repr::new(ends.from, ends.to, protocol, ends.life, segment.len()).emit(&mut bytes[14..]).unwrap();
    }
    bytes.extend(segment);
    bytes
}

/// IP both ways by addresses; UDP by ports, with headers of the channel's and of the packet's; one by a key; one that is nobody's cut.
fn all() -> Vec<Wanted> {
    let key = vec![KeyTuple { offset: 1, length: 2, value: 0x6561, mask: 0xffff }];
    vec![
        cut(["if0/ip", "10.0.9.0/24"], ["if1/ip", "* proto 17"]),
        cut(["if0/ip", "fd00:9::/64"], ["*/ip", "* proto 17"]),
        cut(["if0/ip", "10.0.2.0/24 proto 47"], ["if1/ip", "10.0.2.1 proto 47"]),
        cut(["if0/ip/udp", "*:5000"], ["if1/ip/udp", "*:6000 -> *:*"]),
        cut(["if0/ip/udp", "*:5001"], ["*/ip/udp", "10.0.2.254:7000 -> 10.0.9.77:8000"]),
        cut(["if0/ip/udp", "[fd00:1::/64]:* -> *:5001"], ["if1/ip/udp", "[fd00:2::fe]:7000 -> [fd00:9::7]:8000"]),
        Wanted { key, ..cut(["if0/ip/udp", "*:5003"], ["if1/ip/udp", "*:6001 -> *:*"]) },
        Wanted { to: None, ..cut(["*/ip/udp", "10.0.9.0/24:5002"], ["", ""]) },
        cut(["if0/ip/udp/checksum", "*:5004"], ["if1/ip/udp", "*:6002 -> *:*"]),
    ]
}

fn sent(came: &Came) -> &[u8] {
    let Came::Sent(bytes) = came else { panic!("{came:?}") };
    bytes
}

#[test]
fn packets_are_cut_through_alike() {
    let Some(mut pair) = Pair::new(&all()) else { return };
    let (near6, far6) = (v6(1, 1), v6(9, 9));
    for (number, (from, to)) in [(LEFT, FAR), (near6, far6)].into_iter().enumerate() {
        for port in [9, 5000, 5001] {
            for length in [0, 1, 2, 7, 64, 1400] {
                let before = pair.in_kernel;
                let ends = Ends { from, to, ports: (4000, port), ..PLAIN };
                let bytes = datagram(ends, &vec![length as u8; length]);
                let came = pair.same("a datagram", &bytes);
                let out = sent(&came);
                let ip = if number == 0 { 20 } else { 40 };
                assert_eq!(out.len(), bytes.len());
                assert_eq!(out[14 + ip + 8..], bytes[14 + ip + 8..], "the payload");
                assert_eq!(pair.in_kernel, before + 1, "port {port}, {length} bytes");
            }
        }
    }
    let [alone, both] = pair.accounts();
    assert_eq!(alone, both);
    assert_eq!(pair.in_kernel(), 36);
}

/// A frame, whether it is sent or else under which reason it ends, and whether the kernel half does that.
pub type Odd = (&'static str, Vec<u8>, Result<(), Option<Reason>>, bool);

pub fn odd() -> Vec<Odd> {
    let plain = datagram(PLAIN, b"plain");
    let udp = |port| Ends { ports: (4000, port), ..PLAIN };
    let mend = |bytes: &mut Vec<u8>| {
        bytes[24..26].fill(0);
        let sum = checksum::checksum(&bytes[14..14 + usize::from(bytes[14] & 15) * 4]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    };
    let edited = |at: usize, value: u8, mended: bool| {
        let mut bytes = plain.clone();
        bytes[at] = value;
        if mended {
            mend(&mut bytes);
        }
        bytes
    };
    let mut options = plain.clone();
    options[14] = 0x46;
    options.splice(34..34, [1, 1, 1, 0]);
    options[17] += 4;
    mend(&mut options);
    let mut padded = plain.clone();
    padded.resize(padded.len() + 9, 7);
    let mut damaged = datagram(udp(5000), b"damaged");
    *damaged.last_mut().unwrap() ^= 1;
    let none = datagram(Ends { summed: false, ..udp(5000) }, b"no sum");
    let none6 = Ends { from: v6(1, 1), to: v6(9, 9), ports: (1, 5000), summed: false, ..PLAIN };
    let large = datagram(PLAIN, &[7; 1480]);
    // What is expected, and whether the kernel half does it.
    vec![
        ("plain", plain.clone(), Ok(()), true),
        ("padded", padded, Ok(()), true),
        ("one hop left", datagram(Ends { life: 1, ..PLAIN }, b"x"), Err(Some(Reason::TimeToLive)), false),
        ("two hops left", datagram(Ends { life: 2, ..PLAIN }, b"x"), Ok(()), true),
        ("a wrong sum", edited(24, plain[24] ^ 1, false), Err(None), false),
        ("options", options, Ok(()), false),
        ("a first fragment", edited(20, 0x20, true), Ok(()), false),
        ("a later fragment", edited(21, 9, true), Ok(()), false),
        ("too large", large, Err(Some(Reason::TooBig)), false),
        (
            "no route",
            datagram(Ends { to: Addr::v4([192, 0, 2, 1]), ..udp(5000) }, b"x"),
            Err(Some(Reason::NoRoute)),
            false,
        ),
        ("another port's route", datagram(Ends { to: LEFT, ..udp(5000) }, b"x"), Err(Some(Reason::NoRoute)), false),
        ("another's link address", edited(5, 0x77, false), Err(None), false),
        ("a damaged payload", damaged, Ok(()), true),
        ("no sum", none, Ok(()), true),
        ("no sum over IPv6", datagram(none6, b"x"), Ok(()), false),
        ("the key", datagram(udp(5003), b"heard"), Ok(()), true),
        ("not the key", datagram(udp(5003), b"other"), Ok(()), true),
        ("an end in the user half", datagram(udp(5002), b"x"), Err(None), false),
        ("a module", datagram(udp(5004), b"x"), Err(Some(Reason::MalformedModule)), false),
        ("GRE", packet(Ends { to: RIGHT, ..PLAIN }, 47, b"what"), Ok(()), true),
        ("nobody's", datagram(Ends { to: RIGHT, ..PLAIN }, b"x"), Err(None), false),
        ("the node's own", datagram(Ends { to: OWN_LEFT, ..PLAIN }, b"x"), Err(None), false),
        ("TCP", packet(PLAIN, 6, &[0; 20]), Ok(()), false),
    ]
}

#[test]
fn what_is_unusual_is_left_to_the_user_half_and_comes_out_alike() {
    let Some(mut pair) = Pair::new(&all()) else { return };
    for (what, bytes, expected, in_kernel) in odd() {
        for round in 0..3 {
            let before = pair.in_kernel;
            // A host that is another's answers nobody: the user half does not see it, since its socket's filter does not take it.
            let came =
                if what == "another's link address" { pair.place.kernel(&bytes) } else { pair.same(what, &bytes) };
            match (&came, expected) {
                (Came::Sent(_), Ok(())) | (Came::Dropped | Came::Up(_), Err(None)) => {}
                (Came::DroppedFor(reason), Err(Some(expected))) => assert_eq!(*reason, expected, "{what}"),
                (came, expected) => panic!("{what}: {came:?} instead of {expected:?}"),
            }
            assert_eq!(pair.in_kernel > before, in_kernel, "{what}, round {round}");
        }
    }
    let [alone, both] = pair.accounts();
    assert_eq!(alone, both);
}

/// Frames of UDP with one byte of a field changed, wherever the list of fields has it.
fn with_another_field(ends: Ends) -> Vec<(Field, Vec<u8>)> {
    let mut all = Vec::new();
    let v4 = ends.from.is_v4();
    let start = |header| match header {
        HeaderKind::Ethernet => Some(0),
        HeaderKind::V4 => v4.then_some(14),
        HeaderKind::V6 => (!v4).then_some(14),
        HeaderKind::Transport => Some(if v4 { 34 } else { 54 }),
    };
    for field in Field::ALL {
        let places = field.places().iter().filter_map(|place| Some((place, start(place.header)?)));
        for at in places.flat_map(|(place, start)| start + place.at..start + place.at + place.bytes) {
            let mut bytes = datagram(ends, b"what");
            bytes[at] ^= 1;
            if v4 {
                bytes[24..26].fill(0);
                let sum = checksum::checksum(&bytes[14..34]);
                bytes[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            all.push((field, bytes));
        }
    }
    all
}

/// One rule that asks for all fields of UDP: it holds of its frame, and of none in which a field has another byte.
#[test]
fn the_kernel_half_reads_the_fields_of_the_list() {
    let rules = [
        cut(["if0/ip/udp", "10.0.1.1:4000 -> 10.0.9.9:5000"], ["if1/ip/udp", "*:6000 -> *:*"]),
        cut(["if0/ip/udp", "[fd00:1::1]:4000 -> [fd00:9::9]:5000"], ["if1/ip/udp", "*:6000 -> *:*"]),
    ];
    let ends = [(Addr::v4([10, 0, 1, 1]), Addr::v4([10, 0, 9, 9])), (v6(1, 1), v6(9, 9))];
    let Some(mut pair) = Pair::new(&rules) else { return };
    for (from, to) in ends {
        let ends = Ends { from, to, ports: (4000, 5000), ..PLAIN };
        let (good, before) = (datagram(ends, b"what"), pair.in_kernel);
        assert!(matches!(pair.same("as the rule asks", &good), Came::Sent(_)));
        assert_eq!(pair.in_kernel, before + 1);
        for (field, bytes) in with_another_field(ends) {
            let came = pair.same(&format!("another {field:?}"), &bytes);
            assert!(!matches!(came, Came::Sent(_)), "another {field:?}: {bytes:02x?}");
        }
        assert_eq!(pair.in_kernel, before + 1);
    }
}

/// A frame of any kind: mostly of channels, sometimes with something wrong.
fn by_chance(dice: &mut Dice) -> Vec<u8> {
    let v4 = dice.chance(600);
    let to = if dice.chance(800) { dice.host(1, v4) } else { dice.known_addr(v4) };
    let ports = (*dice.pick(&[1, 4000, 4001]), *dice.pick(&[9, 5000, 5001, 5002, 5003, 5004, 7]));
    let life = if dice.chance(900) { 64 } else { dice.below(4) as u8 };
    let ends = Ends { from: dice.host(0, v4), to, ports, life, summed: !dice.chance(100) };
    let most = if dice.chance(50) { 1500 } else { 40 };
    let length = dice.below(most);
    let payload = if dice.chance(300) { b"hearing".to_vec() } else { dice.bytes(length) };
    let mut bytes = match dice.below(20) {
        0 => packet(ends, 47, &payload),
        1 => packet(ends, 6, &dice.bytes(40)),
        2 => packet(ends, 44, &dice.bytes(40)),
        _ => datagram(ends, &payload),
    };
    if dice.chance(100) {
        let more = dice.below(20);
        bytes.resize(bytes.len() + more, 9);
    }
    if dice.chance(150) {
        let at = 14 + dice.below((bytes.len() - 14).min(56));
        bytes[at] = *dice.pick(&[0, 1, 0x45, 0x46, 0x60, 0xff, 0x20, 0x80]);
        if v4 && dice.chance(700) && bytes[14] & 15 >= 5 && bytes.len() >= 14 + usize::from(bytes[14] & 15) * 4 {
            bytes[24..26].fill(0);
            let sum = checksum::checksum(&bytes[14..14 + usize::from(bytes[14] & 15) * 4]);
            bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        }
    }
    if dice.chance(50) {
        let length = 15 + dice.below(bytes.len() - 15);
        bytes.truncate(length);
    }
    bytes
}

#[test]
fn frames_by_chance_come_out_alike() {
    let number = |name: &str, other: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(other);
    let (seed, cases) = (number("SEED", 1), number("ANODE_CASES", 20_000));
    println!("SEED={seed} ANODE_CASES={cases}");
    let Some(mut pair) = Pair::new(&all()) else { return };
    let mut dice = Dice::new(seed);
    for case in 0..cases {
        let bytes = by_chance(&mut dice);
        pair.same(&format!("case {case} of seed {seed}"), &bytes);
    }
    let [alone, both] = pair.accounts();
    assert_eq!(alone, both);
    println!("{} of {} in the kernel", pair.in_kernel, pair.frames);
    assert!(pair.in_kernel * 10 > pair.frames * 4, "{} of {}", pair.in_kernel, pair.frames);
}

/// Blocks of one beginning, the wide one made first and last: each packet goes by the narrowest that has it.
#[test]
fn blocks_within_blocks_are_cut_through_alike() {
    let wide = || cut(["if0/ip/udp", "10.0.0.0/16:5000"], ["if1/ip/udp", "*:6000 -> *:*"]);
    let narrow = || cut(["if0/ip/udp", "10.0.0.0/21:5000"], ["if1/ip/udp", "*:6001 -> *:*"]);
    for wanted in [[wide(), narrow()], [narrow(), wide()]] {
        let Some(mut pair) = Pair::new(&wanted) else { return };
        for (to, port) in [(RIGHT, 6001u16), (FAR, 6000)] {
            let came = pair.same("a datagram", &datagram(Ends { to, ports: (4000, 5000), ..PLAIN }, b"abc"));
            assert_eq!(sent(&came)[34..36], port.to_be_bytes(), "{to}");
        }
        assert_eq!(pair.in_kernel(), 2);
    }
}

#[test]
fn nothing_is_cut_through_once_a_channel_or_its_domain_has_ended() {
    let wanted = [cut(["if0/ip", "10.0.9.0/24"], ["if1/ip", "* proto 17"])];
    let Some(mut pair) = Pair::new(&wanted) else { return };
    let (bytes, domain) = (datagram(PLAIN, b"x"), pair.domain);
    let passes = |pair: &Pair| matches!(pair.place.kernel(&bytes), Came::Sent(_));
    let Made { from, to, cut: first } = pair.made[0];
    let (to, first) = (to.unwrap(), first.unwrap());
    assert!(passes(&pair));
    let end = |pair: &mut Pair, work: &dyn Fn(&mut dyn NodeOs)| {
        pair.place.above.control(NOW, |node, turn| node.with_os(turn, domain, |os| work(os)));
    };
    end(&mut pair, &|os| os.cutchan_destroy(first).unwrap());
    assert!(!passes(&pair), "the cut-through channel is no more");
    end(&mut pair, &|os| assert!(os.cutchan_create(from, to).is_ok()));
    assert!(passes(&pair));
    end(&mut pair, &|os| os.outchan_destroy(to).unwrap());
    assert!(!passes(&pair), "the outgoing channel is no more");
    let again = |os: &mut dyn NodeOs| {
        let to = ChanSpec { protocol: "if1/ip".into(), address: "* proto 17".into(), ..ChanSpec::default() };
        let to = os.outchan_create(domain, &to).unwrap();
        os.cutchan_create(from, to).unwrap();
    };
    end(&mut pair, &again);
    assert!(passes(&pair));
    end(&mut pair, &|os| os.inchan_destroy(from).unwrap());
    assert!(!passes(&pair), "the incoming channel is no more");
    pair.place.above.control(NOW, |node, turn| make(node, turn, domain, &wanted));
    assert!(passes(&pair));
    // More specific: it gets the packet, and nobody cuts it through.
    end(&mut pair, &|os| {
        let spec = ChanSpec { protocol: "if0/ip/udp".into(), address: "*:9".into(), ..ChanSpec::default() };
        os.inchan_create(domain, &spec).unwrap();
    });
    assert!(!passes(&pair), "it is another channel's");
    let seven = datagram(Ends { ports: (1, 7), ..PLAIN }, b"x");
    assert!(matches!(pair.place.kernel(&seven), Came::Sent(_)));
    end(&mut pair, &|os| os.domain_terminate(domain).unwrap());
    assert!(!matches!(pair.place.kernel(&seven), Came::Sent(_)), "the domain is no more");
}

#[test]
fn a_channel_of_one_port_and_one_of_all_ports_leave_each_other_their_packets() {
    let of = |port: &'static str, out: &'static str| cut([port, "*:5000"], ["if1/ip/udp", out]);
    let wanted = [of("if0/ip/udp", "*:6000 -> *:*"), of("*/ip/udp", "*:6001 -> *:*")];
    let bytes = datagram(Ends { ports: (4000, 5000), ..PLAIN }, b"x");
    for (gone, left) in [(0, 6001_u16), (1, 6000)] {
        let Some(mut pair) = Pair::new(&wanted) else { return };
        let (domain, in_chan) = (pair.domain, pair.made[gone].from);
        assert_eq!(sent(&pair.same("both", &bytes))[34..36], 6000_u16.to_be_bytes(), "the port's own comes first");
        let end = |node: &mut Node, turn: &mut Turn<'_>| {
            node.with_os(turn, domain, |os| os.inchan_destroy(in_chan).unwrap());
        };
        pair.place.alone.control(NOW, end);
        pair.place.above.control(NOW, end);
        assert_eq!(sent(&pair.same("one", &bytes))[34..36], left.to_be_bytes(), "{gone} has ended");
        assert_eq!(pair.in_kernel, 2);
    }
}

#[test]
fn places_in_the_kernel_are_given_back() {
    let Some(mut pair) = Pair::new(&[]) else { return };
    let (bytes, domain) = (datagram(PLAIN, b"x"), pair.domain);
    // More than there are places.
    for _ in 0..3000 {
        let wanted = Wanted { bandwidth: 1 << 20, ..cut(["if0/ip", "10.0.9.0/24"], ["if1/ip", "* proto 17"]) };
        let made = pair.place.above.control(NOW, |node, turn| make(node, turn, domain, &[wanted]));
        pair.place.above.control(NOW, |node, turn| {
            node.with_os(turn, domain, |os| {
                os.inchan_destroy(made[0].from).unwrap();
                os.outchan_destroy(made[0].to.unwrap()).unwrap();
            })
        });
    }
    let wanted = cut(["if0/ip", "10.0.9.0/24"], ["if1/ip", "* proto 17"]);
    pair.place.above.control(NOW, |node, turn| make(node, turn, domain, &[wanted]));
    assert!(matches!(pair.place.kernel(&bytes), Came::Sent(_)));
    assert_eq!(pair.in_kernel(), 1, "counted from nothing");
}

/// Frames until one is refused, at most so many: how many passed in the kernel.
fn until_refused(pair: &mut Pair, bytes: &[u8], most: u64) -> u64 {
    (0..most).take_while(|_| matches!(pair.place.kernel(bytes), Came::Sent(_))).count() as u64
}

/// Keeps this thread on one CPU: each takes its own shares of what may be used.
fn stay_here() {
    let mut here = rustix::thread::CpuSet::new();
    here.set(rustix::thread::sched_getcpu());
    rustix::thread::sched_setaffinity(None, &here).unwrap();
}

#[test]
fn bandwidth_of_the_channel_and_of_the_domain_is_one_for_both_halves() {
    let wanted = |bandwidth| [Wanted { bandwidth, ..cut(["if0/ip", "10.0.9.0/24"], ["if1/ip", "* proto 17"]) }];
    stay_here();
    // A packet at once is always allowed: 65,536 bytes; at a rate of one byte a second none comes back meanwhile.
    for (of_channel, of_domain) in [(1, u64::MAX), (0, 1)] {
        let Some(mut pair) = Pair::within(&wanted(of_channel), Limits::default(), of_domain) else { return };
        let bytes = datagram(PLAIN, &[7; 1000]);
        let whole = 65_536 / bytes.len() as u64;
        assert_eq!(until_refused(&mut pair, &bytes, 1000), whole);
        assert_eq!(pair.place.kernel(&bytes), Came::Dropped);
        // The user half spends of the same: a first fragment is its.
        let mut fragment = bytes.clone();
        fragment[20] = 0x20;
        fragment[24..26].fill(0);
        let sum = checksum::checksum(&fragment[14..34]);
        fragment[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(pair.place.user_at(NOW, &fragment), Came::DroppedFor(Reason::Bandwidth));
        let [_, (channels, usage)] = pair.accounts();
        assert_eq!(channels[0].packets, whole + 3);
        assert_eq!((channels[1].packets, channels[1].bytes), (whole, whole * bytes.len() as u64));
        assert_eq!(channels[1].dropped, if of_channel == 1 { 3 } else { 0 });
        assert!(usage.contains("bandwidth"), "{usage}");
        assert_eq!(pair.in_kernel(), whole + 2);
    }
}

#[test]
fn bandwidth_is_that_of_frames_as_they_leave_in_both_halves() {
    stay_here();
    let udp = cut(["if0/ip/udp", "*:5000"], ["if1/ip/udp", "*:6000 -> *:*"]);
    let routed = cut(["if0/ip", "10.0.9.0/24"], ["if1/ip", "* proto 17"]);
    let to_channel = |from, to| Ends { from, to, ports: (4000, 5000), ..PLAIN };
    let padded = |mut bytes: Vec<u8>| {
        bytes.resize(60, 0);
        bytes
    };
    let (v4, v6) = (to_channel(LEFT, FAR), to_channel(v6(1, 1), v6(9, 9)));
    for (what, wanted, bytes, leaving) in [
        ("empty", &udp, datagram(v4, b""), 42),
        ("empty over IPv6", &udp, datagram(v6, b""), 62),
        ("padded", &udp, padded(datagram(v4, b"")), 42),
        ("with a payload", &udp, datagram(v4, &[7; 500]), 542),
        ("routed", &routed, datagram(PLAIN, b""), 42),
        ("routed and padded", &routed, padded(datagram(PLAIN, b"")), 42),
    ] {
        for (of_channel, of_domain) in [(1, u64::MAX), (0, 1)] {
            let wanted = [Wanted { bandwidth: of_channel, ..wanted.clone() }];
            let Some(mut pair) = Pair::within(&wanted, Limits::default(), of_domain) else { return };
            let whole = 65_536 / leaving;
            assert_eq!(until_refused(&mut pair, &bytes, 4000), whole, "{what}, in the kernel");
            let alone = &mut pair.place.alone;
            let passes = || {
                alone.put(NOW, 0, &bytes);
                Came::from(alone.take())
            };
            let came: Vec<_> = std::iter::repeat_with(passes).take(whole as usize + 1).collect();
            let passed = came.iter().filter(|came| matches!(came, Came::Sent(_))).count() as u64;
            assert_eq!(passed, whole, "{what}, in the user half");
            assert_eq!(came.last(), Some(&Came::DroppedFor(Reason::Bandwidth)), "{what}");
        }
    }
}

#[test]
fn the_packet_budget_of_the_domain_is_one_for_both_halves() {
    stay_here();
    let limits = Limits { packets_per_second: 200, ..Limits::default() };
    let wanted = [cut(["if0/ip", "10.0.9.0/24"], ["if1/ip", "* proto 17"])];
    let Some(mut pair) = Pair::within(&wanted, limits, u64::MAX) else { return };
    let bytes = datagram(PLAIN, b"x");
    // A tenth of a second's worth, and what comes back meanwhile: far from the thousand that are tried.
    let passed = until_refused(&mut pair, &bytes, 1000);
    assert!((20..300).contains(&passed), "{passed}");
    let [_, (channels, _)] = pair.accounts();
    assert_eq!((channels[0].packets, channels[0].dropped), (passed + 1, 1));
}

/// Blocks in each other, to a port and to any, each with another way out: more shapes than the kernel half has masks.
fn of_many_shapes() -> Vec<Wanted> {
    let leaked = |text: String| -> &'static str { text.leak() };
    let mut all = Vec::new();
    for length in 13..=27 {
        for (port, out) in [("5000", 6000), ("*", 6100)] {
            let from = leaked(format!("10.0.9.8/{length}:{port}"));
            all.push(cut(["if0/ip/udp", from], ["if1/ip/udp", leaked(format!("*:{} -> *:*", out + length))]));
        }
    }
    for length in [16, 33, 48, 64] {
        let from = leaked(format!("[fd00:9::/{length}]:*"));
        all.push(cut(["if0/ip/udp", from], ["if1/ip/udp", leaked(format!("*:{} -> *:*", 6200 + length))]));
    }
    all
}

#[test]
fn rules_of_more_shapes_than_masks_are_cut_through_alike() {
    let wanted = of_many_shapes();
    let Some(mut pair) = Pair::new(&wanted) else { return };
    let mut dice = Dice::new(3);
    for case in 0..3_000 {
        let bytes = by_chance(&mut dice);
        pair.same(&format!("case {case}"), &bytes);
    }
    let [alone, both] = pair.accounts();
    assert_eq!(alone, both);
    assert!(pair.in_kernel * 10 > pair.frames * 3, "{} of {} in the kernel", pair.in_kernel, pair.frames);
}
