//! Single packets through one node: frame in, frames out, what applications got, counters moved.
//!
//! The node has two overlay ports, `left` and `right`, and an Ethernet port, `wire`; it knows some codes and speaks PLAN. Each case
//! meets it as it starts. `packets.json` keeps what came of each, so a change of any verdict, byte or counter shows as a difference
//! of text. Counters are all numbers of the node's status that moved, by their path there.

use crate::guests;
use anode::code::bundle::Bundle;
use anode::code::run::wasm::{Backstop, Compiler};
use anode::driver::{Driver, Supply};
use anode::ee::plan::Config;
use anode::frame::{Frame, Link, PeerId, PortId};
use anode::node::{Node, NodeConfig, Sizes};
use anode::topology::{Neighbour, NextHop, Port, Routes};
use anode::wire::ethernet::{self, Mac, ethertype};
use anode::wire::{Addr, Digest, Prefix, anep, arp, capsule, fetch, ipv4, udp};
use plan::packet::{Header, Packet};
use plan::value::{Host, Value};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/digests/packets.json");
const HERE: Addr = Addr::v4([10, 0, 0, 2]);
const LEFT: Addr = Addr::v4([10, 0, 0, 1]);
const RIGHT: Addr = Addr::v4([10, 0, 0, 3]);
const FAR: Addr = Addr::v4([10, 0, 0, 9]);
const WIRE: [u8; 4] = [192, 0, 2, 1];
const BESIDE: [u8; 4] = [192, 0, 2, 2];
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);
const APP: u16 = 5;

/// What is given to the node: to which port, and the bytes; several in turn.
type Given = Vec<(u16, Vec<u8>)>;

struct Bed {
    driver: Driver,
    supply: Supply,
}

impl Bed {
    fn new(codes: &[Bundle]) -> Bed {
        let port = |name: &str, link, addr, prefix| Port {
            name: name.into(),
            link,
            addresses: vec![(addr, prefix)],
            mtu: 1452,
            bits_per_second: 0,
            ceiling: anode::topology::Ceiling::default(),
        };
        let overlay = |name| port(name, Link::Overlay, HERE, Prefix::host(HERE));
        let wire = Addr::v4(WIRE);
        let link = Link::Ethernet { mac: MAC, answers: true };
        let neighbour = |addr, port| Neighbour { addr, port: PortId(port), peer: PeerId(0) };
        let hop = |to: Addr, port, via| (Prefix::host(to), NextHop { port: PortId(port), via });
        let mut node = Node::new(NodeConfig {
            name: "bed".into(),
            ports: vec![overlay("left"), overlay("right"), port("wire", link, wire, Prefix::new(wire, 120))],
            neighbours: vec![neighbour(LEFT, 0), neighbour(RIGHT, 1)],
            routes: Arc::new(Routes::new([hop(LEFT, 0, LEFT), hop(RIGHT, 1, RIGHT), hop(FAR, 1, RIGHT)])),
            roles: Arc::default(),
            sizes: Sizes { state_entries: 256, ..Sizes::default() },
            seed: 7,
            kernel: false,
        });
        node.open(APP);
        node.speak_plan(Config::default());
        let mut supply = Supply::new(Compiler::new(Backstop::FuelOnly).unwrap());
        codes.iter().for_each(|code| supply.add(code));
        Bed { driver: Driver::new(node), supply }
    }

    fn receive(&mut self, now: u64, port: u16, bytes: &[u8]) {
        let mut frame = Frame::from_bytes(bytes);
        (frame.port, frame.peer) = (PortId(port), if port == 2 { PeerId::NONE } else { PeerId(0) });
        self.driver.receive(now, frame);
        self.driver.answer(now, &mut self.supply);
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        let status = self.driver.node.status();
        // It is the sum of other counters.
        assert_eq!(status.balance.unaccounted(), 0, "{:?}", status.balance);
        flatten("", &serde_json::to_value(status).unwrap(), &mut counters);
        counters.retain(|name, _| !name.starts_with("balance."));
        counters
    }

    /// What comes of these frames.
    fn outcome(mut self, given: &Given) -> Json {
        let before = self.counters();
        for (at, (port, bytes)) in given.iter().enumerate() {
            self.receive(1_000_000 * (at as u64 + 1), *port, bytes);
        }
        let after = self.counters();
        let moved = after.into_iter().filter_map(|(name, now)| {
            let then = before.get(&name).copied().unwrap_or(0);
            (now != then).then(|| (name, json!(now as i64 - then as i64)))
        });
        let frames = self
            .driver
            .out
            .frames
            .iter()
            .map(|frame| json!({"port": frame.port.0, "bytes": hex::encode(frame.bytes())}));
        let told =
            self.driver.out.told.iter().map(|(port, message)| json!({"port": port, "bytes": hex::encode(message)}));
        let deliveries = self.driver.out.deliveries.iter();
        let deliveries = deliveries.map(|got| json!({"port": got.port, "bytes": hex::encode(got.frame.bytes())}));
        json!({
            "in": given.iter().map(|(port, bytes)| json!({"port": port, "bytes": hex::encode(bytes)})).collect::<Vec<_>>(),
            "out": frames.collect::<Vec<_>>(),
            "delivered": deliveries.chain(told).collect::<Vec<_>>(),
            "moved": moved.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Every number of a value, by its path; what has a name is called by it.
fn flatten(path: &str, value: &Json, into: &mut BTreeMap<String, u64>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Json::Number(number) => drop(into.insert(path.into(), number.as_u64().unwrap_or_default())),
        Json::Object(map) => map.iter().for_each(|(name, value)| flatten(&below(name), value, into)),
        Json::Array(list) => list.iter().enumerate().for_each(|(at, value)| {
            let name = value.get("title").or(value.get("name")).and_then(Json::as_str);
            flatten(&below(&name.map_or(at.to_string(), str::to_owned)), value, into);
        }),
        _ => {}
    }
}

fn code(title: &str, body: &str) -> Bundle {
    guests::bundle(title, 0, guests::module("", body))
}

struct Codes {
    forward: Bundle,
    ping: Bundle,
    forking: Bundle,
    drops: Bundle,
    delivers: Bundle,
    wrong: Bundle,
    loops: Bundle,
    traps: Bundle,
    forges: Bundle,
}

impl Codes {
    fn new() -> Codes {
        Codes {
            forward: guests::forward(),
            ping: guests::ping(),
            forking: guests::forking(),
            drops: code("drops", "i32.const 0"),
            delivers: code("delivers", "i32.const 2"),
            wrong: code("wrong", "i32.const 3"),
            loops: code("loops", "(loop $l br $l) i32.const 1"),
            traps: code("traps", "unreachable"),
            forges: code("forges", "(i32.store (i32.add (local.get 1) (i32.const 12)) (i32.const 99)) i32.const 1"),
        }
    }

    fn all(&self) -> Vec<Bundle> {
        let Codes { forward, ping, forking, drops, delivers, wrong, loops, traps, forges } = self;
        [forward, ping, forking, drops, delivers, wrong, loops, traps, forges].map(Clone::clone).into()
    }
}

fn to(code: &Bundle, destination: Addr, bound: u32) -> capsule::Header {
    capsule::Header { app_port: APP, bound, code: code.name(), previous: LEFT, source: LEFT, destination }
}

fn packet(type_id: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; anep::HEADER + payload.len()];
    bytes[anep::HEADER..].copy_from_slice(payload);
    anep::emit_basic(&mut bytes, type_id, payload.len()).unwrap();
    bytes
}

fn capsule(header: &capsule::Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; capsule::HEADER];
    header.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    packet(anep::type_id::CAPSULE, &bytes)
}

fn message(message: &fetch::Message<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.len()];
    message.emit(&mut bytes).unwrap();
    packet(anep::type_id::FETCH, &bytes)
}

fn edited(mut bytes: Vec<u8>, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    edit(&mut bytes);
    bytes
}

/// An IPv4 packet in an Ethernet frame.
fn native(protocol: u8, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER + ipv4::HEADER];
    let header = ethernet::Repr { destination: MAC, source: OTHER, tag: None, ethertype: ethertype::IPV4 };
    header.emit(&mut bytes).unwrap();
    let ip = ipv4::Repr::new(BESIDE, WIRE, protocol, ttl, payload.len());
    ip.emit(&mut bytes[ethernet::HEADER..]).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

fn datagram(destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp::HEADER];
    udp::Repr { source_port: 9, destination_port, payload_len: payload.len() }.emit(&mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

fn asks(operation: arp::Operation) -> Vec<u8> {
    let mut bytes = vec![0; ethernet::HEADER + arp::LENGTH];
    let header = ethernet::Repr { destination: Mac([0xff; 6]), source: OTHER, tag: None, ethertype: ethertype::ARP };
    header.emit(&mut bytes).unwrap();
    let repr = arp::Repr { operation, sender_mac: OTHER, sender_ip: BESIDE, target_mac: MAC, target_ip: WIRE };
    repr.emit(&mut bytes[ethernet::HEADER..]).unwrap();
    bytes
}

fn capsules(codes: &Codes) -> Vec<(&'static str, Given)> {
    let one = |header: &capsule::Header| vec![(0, capsule(header, b"payload"))];
    let good = capsule(&to(&codes.forward, FAR, 8), b"payload");
    let unknown = capsule::Header { code: Digest([9; 32]), ..to(&codes.forward, FAR, 8) };
    let v6 = Addr([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    vec![
        ("forward", one(&to(&codes.forward, FAR, 8))),
        ("forward, twice", vec![(0, good.clone()), (0, good.clone())]),
        ("forward with the last of the bound", one(&to(&codes.forward, FAR, 1))),
        ("forward without a bound", one(&to(&codes.forward, FAR, 0))),
        ("forward with the largest bound", one(&to(&codes.forward, FAR, u32::MAX))),
        ("forward to this node: delivered", one(&to(&codes.forward, HERE, 8))),
        ("forward to where it came from", one(&to(&codes.forward, LEFT, 8))),
        ("forward to nowhere", one(&to(&codes.forward, Addr::v4([198, 51, 100, 1]), 8))),
        ("forward to the other family", one(&to(&codes.forward, v6, 8))),
        ("forward, from nobody", one(&capsule::Header { source: Addr::UNSPECIFIED, ..to(&codes.forward, FAR, 8) })),
        (
            "forward, by a previous node that is none",
            one(&capsule::Header { previous: FAR, ..to(&codes.forward, FAR, 8) }),
        ),
        ("ping passes", vec![(0, capsule(&to(&codes.ping, FAR, 8), &[0; 8]))]),
        ("ping turns round", vec![(0, capsule(&to(&codes.ping, HERE, 8), &[0; 8]))]),
        (
            "ping, shorter than its window",
            one(&to(&codes.ping, HERE, 8)).into_iter().map(|(p, b)| (p, b[..b.len() - 4].to_vec())).collect(),
        ),
        ("forking sends children", one(&to(&codes.forking, FAR, 8))),
        ("drops", one(&to(&codes.drops, FAR, 8))),
        ("delivers", one(&to(&codes.delivers, FAR, 8))),
        ("delivers to a port that nobody has", one(&capsule::Header { app_port: 6, ..to(&codes.delivers, FAR, 8) })),
        ("a verdict that does not exist", one(&to(&codes.wrong, FAR, 8))),
        ("loops", one(&to(&codes.loops, FAR, 8))),
        ("traps", one(&to(&codes.traps, FAR, 8))),
        ("forges its source", one(&to(&codes.forges, FAR, 8))),
        ("code that is not here is asked for", one(&unknown)),
        ("code that is not here, twice", vec![(0, capsule(&unknown, b"1")), (0, capsule(&unknown, b"2"))]),
        ("a capsule cut in its header", vec![(0, good[..40].to_vec())]),
        ("a payload longer than the next link carries", vec![(0, capsule(&to(&codes.forward, FAR, 8), &[0; 1400]))]),
        ("another ANEP version", vec![(0, edited(good.clone(), |b| b[0] = 9))]),
        ("another capsule version", vec![(0, edited(good.clone(), |b| b[8] = 2))]),
        ("capsule flags", vec![(0, edited(good.clone(), |b| b[9] = 1))]),
        ("a header longer than the packet", vec![(0, edited(good, |b| b[4..6].fill(0xff)))]),
    ]
}

fn others(codes: &Codes) -> Vec<(&'static str, Given)> {
    let manifest = codes.forward.objects().next().map(|object| Digest::of(object)).unwrap();
    let ask = |digest| fetch::Message::Request { nonce: 7, digest, missing: 1, requester: LEFT };
    let part = fetch::Message::Part { nonce: 7, digest: manifest, part: 0, total: 4, bytes: b"part" };
    let tagged = |discard: bool| edited(packet(0x9999, b"who knows"), |b| b[1] |= if discard { 0x80 } else { 0 });
    let inner = capsule(&to(&codes.forward, Addr::v4(WIRE), 8), b"payload");
    let mut given = vec![
        ("nothing", vec![(0, vec![])]),
        ("noise", vec![(0, vec![0xff; 60])]),
        ("an unknown type", vec![(0, tagged(false))]),
        ("an unknown type to be discarded", vec![(0, tagged(true))]),
        ("a request for a code", vec![(0, message(&ask(manifest)))]),
        ("a request for what is not here", vec![(0, message(&ask(Digest([9; 32]))))]),
        ("a part that nobody asked for", vec![(0, message(&part))]),
        (
            "a word about what nobody asked for",
            vec![(0, message(&fetch::Message::Absent { nonce: 7, digest: manifest }))],
        ),
        ("a PLAN message that is none", vec![(0, packet(anep::type_id::PLAN, b"none"))]),
        ("ARP: who has the wire", vec![(2, asks(arp::Operation::Request))]),
        ("ARP: an answer that nobody asked for", vec![(2, asks(arp::Operation::Reply))]),
        ("a capsule in UDP", vec![(2, native(udp::IP_PROTOCOL, 64, &datagram(anep::UDP_PORT, &inner)))]),
        ("a capsule in IP", vec![(2, native(anep::IP_PROTOCOL, 64, &inner))]),
        ("a capsule in IP with a wrong sum", vec![(2, edited(native(anep::IP_PROTOCOL, 64, &inner), |b| b[24] ^= 1))]),
        ("a capsule in IP at the end of its time", vec![(2, native(anep::IP_PROTOCOL, 1, &inner))]),
        ("a fragment", vec![(2, edited(native(anep::IP_PROTOCOL, 64, &inner), |b| b[20] = 0x20))]),
        ("a datagram for Linux", vec![(2, native(udp::IP_PROTOCOL, 64, &datagram(9, b"hello")))]),
        ("a frame cut in its header", vec![(2, native(anep::IP_PROTOCOL, 64, &inner)[..20].to_vec())]),
    ];
    given.extend(plan_packets());
    given
}

fn plan_packets() -> Vec<(&'static str, Given)> {
    let host = |addr: Addr| Value::Host(Host(addr.0));
    let script = crate::net::app("ping");
    let ping = |bound, destination: Addr| {
        let chunk = script.chunk("ping", [host(LEFT), host(destination)]).unwrap();
        let header = Header { destination: Host(destination.0), ..Header::injected(Host(LEFT.0), bound) };
        let bytes = Packet { header, chunk }.bytes().unwrap();
        packet(anep::type_id::PLAN, &bytes)
    };
    vec![
        ("PLAN: a ping passes", vec![(0, ping(9, FAR))]),
        ("PLAN: a ping arrives", vec![(0, ping(9, HERE))]),
        ("PLAN: a ping without a bound", vec![(0, ping(0, FAR))]),
        ("PLAN: a ping to nowhere", vec![(0, ping(9, Addr::v4([198, 51, 100, 1])))]),
        ("PLAN: a ping with the largest bound", vec![(0, ping(u32::MAX, FAR))]),
    ]
}

fn vectors() -> Json {
    let codes = Codes::new();
    let all = codes.all();
    let cases = capsules(&codes).into_iter().chain(others(&codes));
    let cases: serde_json::Map<_, _> =
        cases.map(|(name, given)| (name.into(), Bed::new(&all).outcome(&given))).collect();
    json!({
        "about": "see tests/sim/digests/packets.rs; ANODE_BLESS=1 cargo test --release --test sim digests:: writes it again",
        "cases": cases,
    })
}

#[test]
fn a_packet_becomes_what_it_became() {
    let now = vectors();
    if std::env::var_os("ANODE_BLESS").is_some() {
        std::fs::write(FILE, serde_json::to_string_pretty(&now).unwrap() + "\n").unwrap();
    }
    let known: Json = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    let (known, now) = (known["cases"].as_object().unwrap(), now["cases"].as_object().unwrap());
    let names: std::collections::BTreeSet<&String> = known.keys().chain(now.keys()).collect();
    let differences: Vec<String> = names
        .into_iter()
        .filter(|name| known.get(*name) != now.get(*name))
        .map(|name| difference(name, known.get(name), now.get(name)))
        .collect();
    assert!(
        differences.is_empty(),
        "{}\nIf that is meant: ANODE_BLESS=1 cargo test --release --test sim digests::, and say in the commit what changed.",
        differences.join("\n")
    );
}

/// Lines of the one that the other has not.
fn difference(name: &str, known: Option<&Json>, now: Option<&Json>) -> String {
    let text = |value: Option<&Json>| value.map_or(String::new(), |value| serde_json::to_string_pretty(value).unwrap());
    let (known, now) = (text(known), text(now));
    let only = |sign: char, a: &str, b: &str| -> String {
        a.lines()
            .filter(|line| !b.lines().any(|other| other == *line))
            .map(|line| format!("  {sign} {line}\n"))
            .collect()
    };
    format!("packet '{name}':\n{}{}", only('-', &known, &now), only('+', &now, &known))
}
