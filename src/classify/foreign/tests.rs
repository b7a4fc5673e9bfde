//! What is written down of a flow is right for all of its packets, whatever rules say.

use super::*;
use crate::classify::fields::tests::frame;
use crate::classify::taught::classifier::{Classifier, MatchMode};
use crate::classify::taught::pattern::NoNames;
use crate::classify::taught::text::Vocabulary;
use crate::classify::taught::{pcap, text};

const APP: &str =
    "(protocol app (follows udp 2001) (hdr_len 4) (field kind offset 1 length 1) (field stream offset 2 length 2 flow))
    (protocol odd (follows udp 2002 2003) (hdr_len 4) (field kind offset 0 length 1))
    (protocol own (follows ip 200) (hdr_len 4) (field kind offset 0 length 1))";

fn sum(bytes: &mut [u8]) {
    if bytes[12] == 8 {
        bytes[24..26].fill(0);
        let sum = checksum(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Packets of some flows: each differs from the one before in some bytes only.
fn flows() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (v4, protocol) in [true, false].into_iter().flat_map(|v4| [UDP, TCP].map(|protocol| (v4, protocol))) {
        for port in [53u16, 2001, 2002, 2005, 5000] {
            for host in [1, 2] {
                let mut bytes = frame(v4, protocol);
                let transport = if v4 { 34 } else { 54 };
                bytes[transport + 2..transport + 4].copy_from_slice(&port.to_be_bytes());
                bytes[if v4 { 29 } else { 37 }] = host;
                sum(&mut bytes);
                all.push(bytes);
            }
        }
    }
    for protocol in [1, 47, 200] {
        let mut bytes = frame(true, UDP);
        bytes[23] = protocol;
        sum(&mut bytes);
        all.push(bytes);
    }
    all
}

/// The same flow in other packets, and packets that are none of it.
fn others(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for at in 0..bytes.len() {
        for bit in [1, 0x10, 0x80] {
            let mut other = bytes.to_vec();
            other[at] ^= bit;
            all.push(other.clone());
            sum(&mut other);
            all.push(other);
        }
    }
    let mut longer = bytes.to_vec();
    longer.extend([7; 9]);
    all.push(longer);
    all
}

fn classifier(protocols: &Protocols) -> Classifier<u32> {
    Classifier::new(protocols.clone(), "ethernet", MatchMode::All, 0, 7).unwrap()
}

#[test]
fn what_is_foreign_is_foreign_for_every_packet_of_its_flow() {
    let mut protocols = Protocols::standard();
    protocols.teach(APP).unwrap();
    // How many of the flows are foreign to each.
    for (rule, foreign) in [
        ("[*]", 0),
        ("[ip | udp (dport = 53) | *]", 41),
        ("[ip | udp (dport = 2001..2009) | app (stream = 7) | *]", 41),
        ("[app (kind = 0) | *]", 41),
        ("[odd (kind = 0) | *]", 33),
        ("[own (kind = 0) | *]", 42),
        ("[ip (src = 10.1.2.1) | udp (dport = 2000..2004) | *]", 41),
        ("[ip (ttl < 64) | *]", 20),
        ("[ip6 (hops < 64) | *]", 23),
        ("[ip6 (src = fd00:0102:0304:0506:0708:090a:0b0c:0d02) | *]", 33),
        ("[ip | tcp (flags & TH_SYN = TH_SYN) | *]", 33),
        ("[ip (proto & 1 = 1) | *]", 31),
        ("udp port 53 and not host 10.1.2.1", 40),
        ("not tcp", 20),
        ("not udp port 53", 4),
        ("udp[8] = 7", 23),
        ("ip[8] < 5", 20),
        ("tcp[13] & 2 != 0 or arp", 23),
        ("ether src 02:00:00:00:00:01", 0),
        ("icmp", 42),
        ("not ip[1] = 3", 0),
        ("[ip]", 20),
    ] {
        let mut exact = classifier(&protocols);
        let root = exact.root();
        let mut known = Vocabulary { protocols: &protocols, root, names: &mut NoNames };
        let read = if rule.starts_with('[') { text::rule(rule, &mut known) } else { pcap::filter(rule, &mut known) };
        let wanted = read.unwrap_or_else(|mistake| panic!("{}", mistake.show("rule", rule)));
        let mut wide = classifier(&protocols);
        wide.add(&widened(&protocols, &wanted, root).unwrap(), 0, 0).unwrap();
        exact.add(&wanted, 0, 0).unwrap();
        let mut count = 0;
        for bytes in flows() {
            let flow = ForeignFlow::of(&bytes).unwrap();
            let is_foreign = wide.find(&bytes).is_empty();
            count += u32::from(is_foreign);
            for other in [vec![bytes.clone()], others(&bytes)].concat() {
                let holds = !exact.find(&other).is_empty();
                assert!(
                    !holds || !wide.find(&other).is_empty() || ForeignFlow::of(&other).is_none(),
                    "{rule}: {other:02x?}"
                );
                if ForeignFlow::of(&other) == Some(flow) {
                    assert_eq!(wide.find(&other).is_empty(), is_foreign, "{rule}: {bytes:02x?} and {other:02x?}");
                    assert!(!(is_foreign && holds), "{rule}: {bytes:02x?} and {other:02x?}");
                }
            }
        }
        assert_eq!(count, foreign, "{rule}");
    }
}

#[test]
fn packets_with_anything_unusual_have_no_flow() {
    type Edit = fn(&mut Vec<u8>);
    let edits: [(&str, bool, u8, Edit); 14] = [
        ("a piece of a packet", true, UDP, |bytes| bytes[21] = 1),
        ("more pieces", true, UDP, |bytes| bytes[20] = 0x20),
        ("options", true, UDP, |bytes| bytes[14] = 0x46),
        ("another version", true, UDP, |bytes| bytes[14] = 0x65),
        ("a length beyond the frame", true, UDP, |bytes| bytes[16] = 1),
        ("a length below its header", true, UDP, |bytes| bytes[17] = 19),
        ("another length of UDP", true, UDP, |bytes| bytes[39] += 1),
        ("a header of TCP that is too short", true, TCP, |bytes| bytes[46] = 0x40),
        ("a header of TCP beyond the packet", true, TCP, |bytes| bytes[46] = 0x70),
        ("active networking", true, UDP, |bytes| bytes[36..38].copy_from_slice(&anep::UDP_PORT.to_be_bytes())),
        ("active networking in IP", true, UDP, |bytes| bytes[23] = anep::IP_PROTOCOL),
        ("a further header", false, UDP, |bytes| bytes[20] = 0),
        ("a mapped address", false, UDP, |bytes| {
            bytes[22..34].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255])
        }),
        ("a tag", true, UDP, |bytes| bytes[12] = 0x81),
    ];
    for (what, v4, protocol, edit) in edits {
        let mut bytes = frame(v4, protocol);
        assert!(ForeignFlow::of(&bytes).is_some(), "{what}");
        edit(&mut bytes);
        sum(&mut bytes);
        assert_eq!(ForeignFlow::of(&bytes), None, "{what}");
    }
    let mut damaged = frame(true, UDP);
    damaged[24] ^= 1;
    assert_eq!(ForeignFlow::of(&damaged), None, "a wrong sum");
    for length in 0..frame(true, UDP).len() {
        assert_eq!(ForeignFlow::of(&frame(true, UDP)[..length]), None, "{length} bytes");
    }
}
