//! The wire formats as data: bytes in, value or error out.
//!
//! Three kinds of test for every parser: fixed packets (good ones written out by hand and checked with
//! tcpdump, bent ones with the reason they are refused), round trips of random values, and totality: every
//! truncation and every mutation of every byte of a good packet is parsed by every parser.

use crate::reading;
use anode::wire::{Addr, Digest, Error, anep, arp, capsule, checksum, ethernet, fetch, icmp, ipv4, ipv6, udp};
use anode::wire::{proof, revocation};
use proptest::prelude::*;

/// Parses `bytes` as everything, and reads every field of what was recognised.
fn parse_as_everything(bytes: &[u8]) {
    TARGETS.iter().for_each(|(_, read)| read(bytes));
}

type Target = (&'static str, fn(&[u8]));

/// The fuzz targets: a parser each.
const TARGETS: &[Target] = &[
    ("ethernet", reading::ethernet),
    ("arp", reading::arp),
    ("ipv4", reading::ipv4),
    ("ipv6", reading::ipv6),
    ("udp", reading::udp),
    ("icmp", reading::icmp),
    ("anep", reading::anep),
    ("capsule", reading::capsule),
    ("fetch", reading::fetch),
    ("revocation", reading::revocation),
    ("hello", reading::hello),
    ("part", reading::part),
    ("checksum", reading::checksum),
    ("plan_message", reading::plan_message),
];

/// Byte strings made to break a parser, or that once did, and the rule they are about.
const REGRESSIONS: &[(&str, &str)] = &[
    ("an ANEP option of length zero must not be read for ever", "01000ac0 0003 000c 00770000"),
    ("an ANEP header longer than its packet is no header", "01000ac0 ffff 0008"),
    ("an ANEP checksum option without room for a checksum is refused", "01000ac0 0003 000c 00030001"),
    ("an IPv4 option of length zero ends the list", "46000018 00000000 40110000 0a000001 0a000002 07000000"),
    (
        "IPv6 extension headers that are all the same end somewhere",
        "60000000 0050 3c 40 20010db8000000000000000000000001 20010db8000000000000000000000002 \
         3c000000000000003c000000000000003c000000000000003c000000000000003c000000000000003c000000000000003c\
         000000000000003c000000000000003c000000000000003c00000000000000",
    ),
    (
        "an IPv6 authentication header may reach behind the packet",
        "60000000 0008 33 40 20010db8000000000000000000000001 20010db8000000000000000000000002 11ff000000000000",
    ),
    ("a UDP length below its header is refused", "0cfa0cfa00070000"),
    (
        "a neighbour option of length zero must not be read for ever",
        "8700000000000000 fe800000000000000000000000000002 0100000000000000",
    ),
    (
        "a part behind the object's end is refused",
        "0102ffff00000000 0000000000000000000000000000000000000000000000000000000000000000 00010000",
    ),
    ("a piece behind its message's end is refused", "80020200 00000001 00000004 0000"),
    ("a message of no bytes has no pieces", "80000200 00000001 00000000"),
    (
        "an object of no bytes has no parts",
        "0102000000000000 0000000000000000000000000000000000000000000000000000000000000000 00000000",
    ),
];

#[test]
fn what_once_broke_a_parser_does_so_no_more() {
    for (rule, bytes) in REGRESSIONS {
        let bytes = hex(bytes);
        assert!(!bytes.is_empty(), "{rule}");
        parse_as_everything(&bytes);
    }
}

#[test]
fn every_parser_has_a_fuzz_target() {
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
}

/// Writes the samples where the fuzzer looks for its first inputs.
#[test]
#[ignore = "writes target/fuzz-seeds; see fuzz/README.md"]
fn write_fuzz_seeds() {
    for (name, _) in TARGETS {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz-seeds").join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (at, sample) in samples().iter().enumerate() {
            // A parser's own header begins behind the outer ones: every layer's beginning is a seed.
            for skip in [0, 14, 18, 34, 42, 50, 54, 62].into_iter().filter(|skip| *skip < sample.len()) {
                std::fs::write(folder.join(format!("seed-{at}-{skip}")), &sample[skip..]).unwrap();
            }
        }
    }
}

fn here() -> Addr {
    "2001:db8::1".parse().unwrap()
}

fn there() -> Addr {
    "2001:db8::2".parse().unwrap()
}

fn hex(text: &str) -> Vec<u8> {
    hex::decode(text.split_whitespace().collect::<String>()).unwrap()
}

fn header() -> capsule::Header {
    capsule::Header {
        app_port: 7,
        bound: 64,
        code: Digest::of(b"code"),
        previous: Addr::v4([10, 0, 0, 1]),
        source: Addr::v4([10, 0, 0, 9]),
        destination: Addr::v4([10, 0, 0, 2]),
    }
}

/// A capsule in its ANEP packet.
fn anep_capsule(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; anep::HEADER + capsule::HEADER];
    anep::emit_basic(&mut bytes, anep::type_id::CAPSULE, capsule::HEADER + payload.len()).unwrap();
    header().emit(&mut bytes[anep::HEADER..]).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

/// `payload` in a datagram to port 3322 in a packet in a frame.
fn frame(v6: bool, tag: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 18 + 40 + 8 + payload.len()];
    let ethertype = if v6 { ethernet::ethertype::IPV6 } else { ethernet::ethertype::IPV4 };
    let (source, destination) = (ethernet::Mac([2, 0, 0, 0, 0, 1]), ethernet::Mac([2, 0, 0, 0, 0, 2]));
    let mut at = ethernet::Repr { destination, source, tag, ethertype }.emit(&mut bytes).unwrap();
    let length = udp::HEADER + payload.len();
    let (source, destination) = if v6 { (here(), there()) } else { (Addr::v4([10, 0, 0, 9]), Addr::v4([10, 0, 0, 2])) };
    at += if v6 {
        ipv6::Repr::new(source, destination, udp::IP_PROTOCOL, 64, length).emit(&mut bytes[at..]).unwrap()
    } else {
        let ends = (source.bytes_v4().unwrap(), destination.bytes_v4().unwrap());
        ipv4::Repr::new(ends.0, ends.1, udp::IP_PROTOCOL, 64, length).emit(&mut bytes[at..]).unwrap()
    };
    bytes.truncate(at + length);
    let datagram = &mut bytes[at..];
    let repr = udp::Repr { source_port: 50000, destination_port: anep::UDP_PORT, payload_len: payload.len() };
    repr.emit(datagram).unwrap();
    datagram[udp::HEADER..].copy_from_slice(payload);
    udp::PacketMut::new_checked(datagram).unwrap().fill_checksum(source, destination);
    bytes
}

/// A good packet of every kind.
fn samples() -> Vec<Vec<u8>> {
    let data = [0x5a; fetch::PART];
    let name = Digest::of(b"object");
    let request = fetch::Message::Request { nonce: 9, digest: name, missing: 0b101, requester: here() };
    let part = fetch::Message::Part { nonce: 9, digest: name, part: 1, total: 1100, bytes: &data[..76] };
    let absent = fetch::Message::Absent { nonce: 9, digest: name };
    let fetches = [request, part, absent].map(|message| {
        let mut bytes = vec![0; anep::HEADER + message.len()];
        anep::emit_basic(&mut bytes, anep::type_id::FETCH, message.len()).unwrap();
        message.emit(&mut bytes[anep::HEADER..]).unwrap();
        bytes
    });
    let options = anep::Repr {
        type_id: anep::type_id::CAPSULE,
        discard_if_unknown: false,
        source: Some(anep::Identifier::Ip(Addr::v4([10, 0, 0, 1]))),
        destination: Some(anep::Identifier::Ip(here())),
        authentication: Some((1, b"cert")),
        checksum: true,
        payload: &anep_capsule(b"x")[anep::HEADER..],
    };
    let mut with_options = vec![0; options.len()];
    options.emit(&mut with_options).unwrap();
    let mut samples = vec![
        frame(false, None, &anep_capsule(b"payload")),
        frame(true, Some(7), &anep_capsule(b"payload")),
        frame(true, None, &with_options),
        with_options,
        anep_capsule(b""),
        anep_capsule(b"")[anep::HEADER..].to_vec(),
    ];
    samples.extend(fetches.iter().map(|bytes| bytes[anep::HEADER..].to_vec()));
    samples.extend(fetches.iter().map(|bytes| frame(false, None, bytes)));
    samples.extend(CASES_GOOD.iter().map(|(_, bytes)| hex(bytes)));
    samples
}

/// Good packets written out by hand; tcpdump agrees with their checksums and contents.
const CASES_GOOD: &[(&str, &str)] = &[
    (
        "arp request, padded",
        "ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002 \
         000000000000000000000000000000000000",
    ),
    (
        "icmp echo request",
        "020000000002 020000000001 0800 4500001c 00004000 40 01 26df 0a000001 0a000002 0800 f7f4 0001 000a",
    ),
    (
        "neighbour solicitation",
        "3333ff000002 020000000001 86dd 60000000 0020 3a ff fe800000000000000000000000000001 \
         ff0200000000000000000001ff000002 8700 7a97 00000000 fe800000000000000000000000000002 0101 020000000001",
    ),
    (
        "ipv4 with router alert",
        "01005e000016 020000000001 0800 46c00020 00004000 01 02 fa00 0a000001 e0000016 94040000 1100 eeff 00000000",
    ),
    (
        "revocation of a code, between neighbours with a key",
        "01000ac3000b00b8 00040009 686d6163 00000005 0063eb89da4ed001 56de7c2991750a086b95c2d3a816d433 01030000 \
         000000006b49d200 1111111111111111111111111111111111111111111111111111111111111111 \
         2222222222222222222222222222222222222222222222222222222222222222 \
         33333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333333",
    ),
    (
        "udp in extension headers",
        "020000000002 020000000001 86dd 60000000 0018 00 40 20010db8000000000000000000000001 \
         20010db8000000000000000000000002 3c00 0502 0000 0100 1100 0104 00000000 0cfa 0cfa 0008 8a75",
    ),
];

#[test]
fn packets_written_out_by_hand_are_read() {
    let good: std::collections::HashMap<_, _> = CASES_GOOD.iter().map(|(name, bytes)| (*name, hex(bytes))).collect();
    let payload = |name: &str| ethernet::FrameView::new_checked(&good[name]).unwrap().payload().to_vec();

    let request = arp::Repr::parse(&payload("arp request, padded")).unwrap();
    assert_eq!((request.sender_ip, request.target_ip), ([10, 0, 0, 1], [10, 0, 0, 2]));

    let bytes = payload("icmp echo request");
    let packet = ipv4::Packet::new_checked(&bytes).unwrap();
    assert!(packet.verify_checksum() && packet.dont_fragment());
    let echo = icmp::Echo { identifier: 1, sequence: 10, data: &[] };
    assert_eq!(icmp::V4::parse(packet.payload()), Ok(icmp::V4::EchoRequest(echo)));

    let bytes = payload("neighbour solicitation");
    let packet = ipv6::Packet::new_checked(&bytes).unwrap();
    let target: Addr = "fe80::2".parse().unwrap();
    assert_eq!(packet.destination(), icmp::solicited_node(target));
    assert_eq!(ethernet::Mac::of_multicast(packet.destination()).0, good["neighbour solicitation"][..6]);
    let message = icmp::V6::parse(packet.payload(), packet.source(), packet.destination(), packet.hop_limit());
    let source_mac = Some(ethernet::Mac([2, 0, 0, 0, 0, 1]));
    assert_eq!(message, Ok(icmp::V6::Solicitation { target, source_mac }));

    let bytes = payload("ipv4 with router alert");
    let packet = ipv4::Packet::new_checked(&bytes).unwrap();
    assert!(packet.verify_checksum());
    let options: Vec<_> = packet.options().collect();
    assert_eq!(options, vec![Ok(ipv4::Opt { kind: 148, data: &[0, 0] })]);

    let bytes = payload("udp in extension headers");
    let packet = ipv6::Packet::new_checked(&bytes).unwrap();
    assert_eq!((packet.protocol(), packet.header_len()), (17, 56));
    let datagram = udp::Packet::new_checked(packet.payload()).unwrap();
    assert!(datagram.verify_checksum(packet.source(), packet.destination()));
}

#[test]
fn proofs_and_revocations_written_out_by_hand_are_read_and_bent_ones_refused() {
    let bytes = hex(CASES_GOOD.iter().find(|(name, _)| name.starts_with("revocation")).unwrap().1);
    let packet = anep::Packet::new_checked(&bytes).unwrap();
    let found = proof::Repr::of(&packet).unwrap();
    assert_eq!((found.key, found.counter, found.code[0]), (5, 1_800_000_000_000_000_000 / 64 + 1, 0x56));
    assert_eq!((packet.type_id(), packet.header_len()), (anep::type_id::REVOCATION, anep::HEADER + proof::PROOF));
    let repr = revocation::Repr {
        what: revocation::What::Code,
        unix_s: 1_800_000_000,
        subject: [0x11; 32],
        signer: [0x22; 32],
        signature: [0x33; 64],
    };
    assert_eq!(revocation::Repr::parse(packet.payload()), Ok(repr));
    assert_eq!(repr.bytes(), packet.payload());
    let good = repr.bytes();
    for (at, value, error) in [
        (0, 0, Error::Version),
        (0, 2, Error::Version),
        (1, 0, Error::Malformed),
        (1, 4, Error::Malformed),
        (2, 1, Error::Malformed),
        (3, 1, Error::Malformed),
    ] {
        let mut bent = good;
        bent[at] = value;
        assert_eq!(revocation::Repr::parse(&bent), Err(error), "byte {at} = {value}");
    }
    for length in 0..good.len() {
        assert_eq!(revocation::Repr::parse(&good[..length]), Err(Error::Truncated), "{length}");
    }
    assert_eq!(revocation::Repr::parse(&[&good[..], &[0]].concat()), Err(Error::Length));
}

#[test]
fn a_capsule_is_found_under_all_its_headers() {
    for (v6, tag) in [(false, None), (true, None), (false, Some(100)), (true, Some(100))] {
        let bytes = frame(v6, tag, &anep_capsule(b"hello"));
        let frame = ethernet::FrameView::new_checked(&bytes).unwrap();
        assert_eq!(frame.vlan(), tag);
        let datagram = if v6 {
            let packet = ipv6::Packet::new_checked(frame.payload()).unwrap();
            let datagram = udp::Packet::new_checked(packet.payload()).unwrap();
            assert!(datagram.verify_checksum(packet.source(), packet.destination()));
            datagram
        } else {
            let packet = ipv4::Packet::new_checked(frame.payload()).unwrap();
            let datagram = udp::Packet::new_checked(packet.payload()).unwrap();
            assert!(datagram.verify_checksum(packet.source(), packet.destination()));
            datagram
        };
        let packet = anep::Packet::new_checked(datagram.payload()).unwrap();
        assert_eq!(packet.type_id(), anep::type_id::CAPSULE);
        assert_eq!(capsule::Header::parse(packet.payload()), Ok(header()));
        assert_eq!(capsule::Packet::new_checked(packet.payload()).unwrap().payload(), b"hello");
    }
}

/// Fetch messages that are refused, and why: offset and value of the bent bytes.
#[test]
fn bent_fetch_messages_are_refused_with_the_reason() {
    let name = Digest::of(b"object");
    let request = fetch::Message::Request { nonce: 1, digest: name, missing: 1, requester: here() };
    let part = fetch::Message::Part { nonce: 1, digest: name, part: 0, total: 4, bytes: b"four" };
    let absent = fetch::Message::Absent { nonce: 1, digest: name };
    let cases: [(fetch::Message<'_>, usize, u8, Error); 10] = [
        (request, 0, 2, Error::Version),
        (request, 1, 0, Error::Malformed),
        (request, 1, 9, Error::Malformed),
        (request, 3, 1, Error::Malformed),
        (request, 47, 0, Error::Malformed),
        (part, 3, 1, Error::Malformed),
        (part, 43, 5, Error::Truncated),
        (part, 43, 3, Error::Length),
        (part, 43, 0, Error::Malformed),
        (absent, 2, 1, Error::Malformed),
    ];
    for (message, at, value, error) in cases {
        let mut bytes = vec![0; message.len()];
        message.emit(&mut bytes).unwrap();
        assert_eq!(fetch::Message::parse(&bytes), Ok(message));
        bytes[at] = value;
        assert_eq!(fetch::Message::parse(&bytes), Err(error), "{message:?} byte {at} = {value}");
    }
}

#[test]
fn padding_of_a_request_is_zero_and_what_it_holds_is_ignored() {
    let request = fetch::Message::Request { nonce: 1, digest: Digest::of(b""), missing: !0, requester: here() };
    let mut bytes = vec![0xff; request.len()];
    request.emit(&mut bytes).unwrap();
    assert!(bytes[64..].iter().all(|byte| *byte == 0));
    bytes[64..].fill(0xaa);
    assert_eq!(fetch::Message::parse(&bytes), Ok(request));
    // A sender that does not pay is understood; the server answers with what the length allows.
    assert_eq!(fetch::Message::parse(&bytes[..64]), Ok(request));
    assert_eq!(fetch::reply_budget(64), 0);
}

#[test]
fn every_truncation_of_every_sample_is_parsed_by_every_parser() {
    for sample in samples() {
        for length in 0..=sample.len() {
            parse_as_everything(&sample[..length]);
            // The same at the end of a page of garbage: lengths that reach too far must not.
            let mut padded = sample[..length].to_vec();
            padded.extend_from_slice(&[0xff; 16]);
            parse_as_everything(&padded);
        }
    }
}

#[test]
fn every_value_of_every_header_byte_is_parsed_by_every_parser() {
    for sample in samples() {
        // Past the headers a byte is payload like any other: every 16th value stands for all.
        for at in 0..sample.len() {
            let mut bent = sample.clone();
            for value in (0..=255u8).step_by(if at < 160 { 1 } else { 16 }) {
                bent[at] = value;
                parse_as_everything(&bent);
            }
        }
    }
}

#[test]
fn every_proper_prefix_of_a_header_is_truncated() {
    let name = Digest::of(b"");
    let absent = fetch::Message::Absent { nonce: 0, digest: name };
    let mut bytes = [0; 40];
    absent.emit(&mut bytes).unwrap();
    let capsule = anep_capsule(b"")[anep::HEADER..].to_vec();
    for length in 0..40 {
        assert_eq!(fetch::Message::parse(&bytes[..length]), Err(Error::Truncated));
    }
    for length in 0..capsule::HEADER {
        assert_eq!(capsule::Header::parse(&capsule[..length]), Err(Error::Truncated));
    }
    for length in 0..anep::HEADER + capsule::HEADER {
        assert_eq!(anep::Packet::new_checked(&anep_capsule(b"")[..length]), Err(Error::Truncated));
    }
}

fn addr_v6() -> impl Strategy<Value = Addr> {
    any::<[u8; 16]>().prop_map(Addr).prop_filter("means IPv4", |addr| !addr.is_v4())
}

fn addr() -> impl Strategy<Value = Addr> {
    prop_oneof![any::<[u8; 4]>().prop_map(Addr::v4), addr_v6()]
}

fn mac() -> impl Strategy<Value = ethernet::Mac> {
    any::<[u8; 6]>().prop_map(ethernet::Mac)
}

fn identifier() -> impl Strategy<Value = anep::Identifier> {
    prop_oneof![addr().prop_map(anep::Identifier::Ip), any::<[u8; 6]>().prop_map(anep::Identifier::Ethernet)]
}

proptest! {
    #[test]
    fn random_bytes_are_parsed_by_every_parser(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        parse_as_everything(&bytes);
    }

    #[test]
    fn ethernet_round_trips(destination in mac(), source in mac(), tag: Option<u16>, ethertype: u16) {
        prop_assume!(tag.is_some() || ethertype != ethernet::ethertype::VLAN);
        let repr = ethernet::Repr { destination, source, tag, ethertype };
        let mut bytes = [0; 18];
        let length = repr.emit(&mut bytes).unwrap();
        prop_assert_eq!(ethernet::Repr::parse(&ethernet::FrameView::new_checked(&bytes[..length]).unwrap()), repr);
    }

    #[test]
    fn arp_round_trips(sender_mac in mac(), target_mac in mac(), sender_ip: [u8; 4], target_ip: [u8; 4], asks: bool) {
        let operation = if asks { arp::Operation::Request } else { arp::Operation::Reply };
        let repr = arp::Repr { operation, sender_mac, sender_ip, target_mac, target_ip };
        let mut bytes = [0; arp::LENGTH];
        repr.emit(&mut bytes).unwrap();
        prop_assert_eq!(arp::Repr::parse(&bytes), Ok(repr));
    }

    #[test]
    fn ipv4_round_trips_and_changes_keep_the_checksum(
        addrs: [[u8; 4]; 4], protocol: u8, ttl in 2u8.., tos: u8, identification: u16, fragment: u16,
        words in prop::collection::vec(any::<[u8; 4]>(), 0..=10), payload_len in 0usize..600,
    ) {
        let options = words.concat();
        let [source, destination, new_source, new_destination] = addrs;
        let repr = ipv4::Repr {
            source, destination, protocol, ttl, tos, identification, fragment, options: &options, payload_len,
        };
        let mut bytes = vec![0; repr.header_len() + payload_len];
        repr.emit(&mut bytes).unwrap();
        prop_assert_eq!(ipv4::Repr::parse(&ipv4::Packet::new_checked(&bytes).unwrap()), Ok(repr));
        let mut packet = ipv4::PacketMut::new_checked(&mut bytes).unwrap();
        packet.decrement_ttl();
        packet.set_source(new_source);
        packet.set_destination(new_destination);
        let expected = ipv4::Repr { ttl: ttl - 1, source: new_source, destination: new_destination, ..repr };
        prop_assert_eq!(ipv4::Repr::parse(&ipv4::Packet::new_checked(&bytes).unwrap()), Ok(expected));
    }

    #[test]
    fn ipv6_round_trips(
        source in addr_v6(), destination in addr_v6(), hop_limit: u8, traffic_class: u8,
        flow_label in 0u32..0x10_0000, payload_len in 0usize..600, protocol in 61u8..,
    ) {
        let repr = ipv6::Repr { source, destination, protocol, hop_limit, traffic_class, flow_label, payload_len };
        let mut bytes = vec![0; ipv6::HEADER + payload_len];
        repr.emit(&mut bytes).unwrap();
        prop_assert_eq!(ipv6::Repr::parse(&ipv6::Packet::new_checked(&bytes).unwrap()), repr);
    }

    #[test]
    fn udp_checksums_verify_and_notice_one_changed_bit(
        source in addr(), destination in addr(), ports: (u16, u16),
        payload in prop::collection::vec(any::<u8>(), 0..200), bit: prop::sample::Index,
    ) {
        let (source_port, destination_port) = ports;
        let repr = udp::Repr { source_port, destination_port, payload_len: payload.len() };
        let mut bytes = vec![0; udp::HEADER];
        repr.emit(&mut bytes).unwrap();
        bytes.extend_from_slice(&payload);
        udp::PacketMut::new_checked(&mut bytes).unwrap().fill_checksum(source, destination);
        let packet = udp::Packet::new_checked(&bytes).unwrap();
        prop_assert_eq!(packet.payload(), &payload[..]);
        prop_assert_eq!(udp::Repr::parse(&packet, source, destination), Ok(repr));
        let bit = bit.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let noticed = match udp::Packet::new_checked(&bytes) {
            // Over IPv4 a checksum that became zero says that there is none.
            Ok(packet) => packet.checksum() == 0 || !packet.verify_checksum(source, destination),
            Err(_) => true,
        };
        prop_assert!(noticed);
    }

    #[test]
    fn icmp_round_trips(source in addr_v6(), destination in addr_v6(), numbers: (u16, u16, u8, u16, u32), mac in prop::option::of(mac()),
                        flags: (bool, bool, bool), data in prop::collection::vec(any::<u8>(), 0..200)) {
        let (identifier, sequence, code, mtu, mtu6) = numbers;
        let (router, solicited, overrides) = flags;
        let echo = icmp::Echo { identifier, sequence, data: &data };
        for message in [
            icmp::V4::EchoRequest(echo), icmp::V4::EchoReply(echo),
            icmp::V4::Unreachable { code: 4, mtu, quote: &data }, icmp::V4::TimeExceeded { code, quote: &data },
        ] {
            let mut bytes = vec![0; message.len()];
            message.emit(&mut bytes).unwrap();
            prop_assert_eq!(icmp::V4::parse(&bytes), Ok(message));
        }
        prop_assume!(destination.0[0] != 0xff && source.0[0] != 0xff && !source.is_unspecified());
        for message in [
            icmp::V6::EchoRequest(echo), icmp::V6::EchoReply(echo), icmp::V6::Unreachable { code, quote: &data },
            icmp::V6::TooBig { mtu: mtu6, quote: &data }, icmp::V6::TimeExceeded { code, quote: &data },
            icmp::V6::Solicitation { target: source, source_mac: mac },
            icmp::V6::Advertisement { target: source, target_mac: mac, router, solicited, overrides },
        ] {
            let mut bytes = vec![0; message.len()];
            message.emit(&mut bytes, source, destination).unwrap();
            prop_assert_eq!(icmp::V6::parse(&bytes, source, destination, 255), Ok(message));
        }
    }

    #[test]
    fn anep_round_trips_with_any_options(
        type_id: u16, discard_if_unknown: bool, source in prop::option::of(identifier()), checksum: bool,
        destination in prop::option::of(identifier()), payload in prop::collection::vec(any::<u8>(), 0..200),
        scheme: u32, words in prop::option::of(prop::collection::vec(any::<[u8; 4]>(), 0..20)),
    ) {
        let value = words.as_ref().map(|words| words.concat());
        let authentication = value.as_deref().map(|value| (scheme, value));
        let repr = anep::Repr {
            type_id, discard_if_unknown, source, destination, authentication, checksum, payload: &payload,
        };
        let mut bytes = vec![0xff; repr.len() + 3];
        let length = repr.emit(&mut bytes).unwrap();
        prop_assert_eq!(length, repr.len());
        let packet = anep::Packet::new_checked(&bytes).unwrap();
        prop_assert_eq!(packet.header_len(), repr.header_len());
        prop_assert_eq!(anep::Repr::parse(&packet), Ok(repr));
    }

    #[test]
    fn capsules_round_trip_and_setters_agree_with_the_repr(
        app_port: u16, bound: u32, code: [u8; 32], addrs: [[u8; 16]; 3], payload in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let [previous, source, destination] = addrs.map(Addr);
        let header = capsule::Header { app_port, bound, code: Digest(code), previous, source, destination };
        let mut bytes = vec![0; capsule::HEADER];
        header.emit(&mut bytes).unwrap();
        bytes.extend_from_slice(&payload);
        prop_assert_eq!(capsule::Header::parse(&bytes), Ok(header));
        let mut other = vec![0; capsule::HEADER];
        self::header().emit(&mut other).unwrap();
        other[capsule::CODE..capsule::PREVIOUS].copy_from_slice(&code);
        let mut packet = capsule::PacketMut::new_checked(&mut other).unwrap();
        packet.set_app_port(app_port);
        packet.set_bound(bound);
        packet.set_previous(previous);
        packet.set_source(source);
        packet.set_destination(destination);
        prop_assert_eq!(&other[..], &bytes[..capsule::HEADER]);
    }

    #[test]
    fn fetch_messages_round_trip(
        nonce: u32, digest: [u8; 32], missing in 1u64.., requester in addr(),
        total in 1u32..=fetch::MAX_OBJECT as u32, part: prop::sample::Index,
    ) {
        let digest = Digest(digest);
        let object = vec![0x77; fetch::MAX_OBJECT];
        let part = part.index(fetch::parts(total) as usize) as u16;
        let bytes = &object[..fetch::part_len(part, total).unwrap()];
        for message in [
            fetch::Message::Request { nonce, digest, missing, requester },
            fetch::Message::Part { nonce, digest, part, total, bytes },
            fetch::Message::Absent { nonce, digest },
        ] {
            let mut buf = vec![0xff; message.len()];
            prop_assert_eq!(message.emit(&mut buf), Ok(message.len()));
            prop_assert_eq!(fetch::Message::parse(&buf), Ok(message));
        }
    }

    #[test]
    fn replies_never_exceed_three_times_the_request(length in 0usize..30_000) {
        let reply = anep::HEADER + 44 + fetch::PART;
        prop_assert!(fetch::reply_budget(length) as usize * reply <= 3 * (length + anep::HEADER));
    }

    #[test]
    fn an_updated_checksum_equals_a_new_one(
        mut words in prop::collection::vec(any::<u16>(), 1..40), at: prop::sample::Index, new: u16,
    ) {
        let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
        // Bytes that are all zero are the one case in which the two zeroes differ (RFC 1624 §3).
        words.push(0x4500);
        let before = checksum::checksum(&bytes(&words));
        let at = at.index(words.len() - 1);
        let old = std::mem::replace(&mut words[at], new);
        prop_assert_eq!(checksum::update(before, old, new), checksum::checksum(&bytes(&words)));
    }

    #[test]
    fn a_sum_in_pieces_is_the_sum_of_the_whole(bytes in prop::collection::vec(any::<u8>(), 0..200), cut: prop::sample::Index) {
        let cut = cut.index(bytes.len() + 1) / 2 * 2;
        let (a, b) = bytes.split_at(cut);
        prop_assert_eq!(checksum::Sum::new().bytes(a).bytes(b).finish(), checksum::checksum(&bytes));
    }
}
