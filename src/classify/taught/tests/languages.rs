//! The languages: what means the same, and what is said of what is wrong.

use super::sets::frame;
use super::*;
use std::net::IpAddr;

/// Two hosts.
struct Hosts;

impl HostNames for Hosts {
    fn addresses(&mut self, name: &str) -> Vec<IpAddr> {
        let addr = |text: &str| text.parse().unwrap();
        match name {
            "Discovery.Space.Net" => vec![addr("10.0.0.1"), addr("fd00::1")],
            "Earth.Space.Net" => vec![addr("10.0.0.2"), addr("10.0.0.3")],
            _ => vec![],
        }
    }
}

fn packets() -> Vec<Vec<u8>> {
    let ip = |last: u32| 0x0a00_0000 | last;
    vec![
        frame([ip(1), ip(2)], [9, 2001], 17, b"\x01\x02"),
        frame([ip(1), ip(3)], [9, 2001], 17, b""),
        frame([ip(1), ip(2)], [9, 2002], 17, b""),
        frame([ip(1), ip(2)], [9, 2001], 6, b""),
        frame([ip(2), ip(1)], [2001, 9], 17, b"\x01\x02\x03\x04"),
        // ARP: who has 10.0.0.2, says 10.0.0.1.
        [&[255; 6][..], &[2; 6], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[2; 6], &[10, 0, 0, 1], &[0; 6], &[10, 0, 0, 2]]
            .concat(),
    ]
}

/// Of which packets a rule is.
fn holds(text: &str) -> Vec<usize> {
    let mut classifier = classifier(MatchMode::All, 64);
    add_with(&mut classifier, 0, text, &mut Hosts).unwrap_or_else(|why| panic!("{text}: {why}"));
    let packets = packets();
    let holding: Vec<_> = (0..packets.len()).filter(|at| !classifier.find(&packets[*at]).is_empty()).collect();
    let by_each: Vec<_> = (0..packets.len()).filter(|at| !classifier.find_by_each(&packets[*at]).is_empty()).collect();
    assert_eq!(holding, by_each, "{text}");
    holding
}

#[test]
fn the_rule_of_the_paper_holds_for_its_packets() {
    let paper = "[ethernet (proto = ETHERTYPE_IP) | ip (src = Discovery.Space.Net)(dst = Earth.Space.Net) \
                 (proto = IPPROTO_UDP) | udp (dport = 2001) | *]";
    assert_eq!(holds(paper), [0, 1]);
    assert_eq!(holds("[ethernet (proto = ETHERTYPE_IP) | ip (src = 10.0.0.1) | udp (dport = 2001) | *]"), [0, 1]);
}

#[test]
fn tests_of_all_kinds_hold_for_what_they_say() {
    for (rule, wanted) in [
        ("[*]", &[0, 1, 2, 3, 4, 5][..]),
        ("[ethernet]", &[]),
        ("[ip]", &[]),
        ("[udp]", &[0, 1, 2, 4]),
        ("[arp]", &[5]),
        ("[arp (op = ARPOP_REQUEST) (tpa = 10.0.0.0/24)]", &[5]),
        ("[ip (proto = 17) | *]", &[0, 1, 2, 4]),
        ("[ip (proto != 17) | *]", &[3]),
        ("[ip (dst = 10.0.0.2/31) | *]", &[0, 1, 2, 3]),
        ("[ip (dst = 10.0.0.1..10.0.0.2) | *]", &[0, 2, 3, 4]),
        ("[udp (dport = 2002..3000)]", &[2]),
        ("[udp (dport > 2001)]", &[2]),
        ("[udp (dport < 2001)]", &[4]),
        ("[udp (dport & 0xfff0 = 0x7d0)]", &[0, 1, 2]),
        ("[udp (dport & 1 != 1)]", &[2]),
        ("[tcp (flags & TH_SYN = TH_SYN)]", &[3]),
        ("[ethernet (src = 02:00:00:00:00:02) | ip | udp | *]", &[0, 1, 2, 4]),
        ("[ethernet (dst & 01:00:00:00:00:00 = 01:00:00:00:00:00) | *]", &[5]),
        ("udp", &[0, 1, 2, 4]),
        ("host 10.0.0.2", &[0, 2, 3, 4, 5]),
        ("src host Discovery.Space.Net", &[0, 1, 2, 3, 5]),
        ("10.0.0.1 or 10.0.0.3", &[]),
        ("host 10.0.0.1 and 10.0.0.3", &[1]),
        ("dst net 10.0.0.2/31", &[0, 1, 2, 3, 5]),
        ("ip dst net 10.0.0.2/31 and not tcp", &[0, 1, 2]),
        ("port 2001", &[0, 1, 3, 4]),
        ("udp src or dst port 2001", &[0, 1, 4]),
        ("src and dst portrange 1-3000", &[0, 1, 2, 3, 4]),
        ("dst port 2001 or 2002", &[0, 1, 2, 3]),
        ("ip proto 6 or arp", &[3, 5]),
        ("ether proto 0x806", &[5]),
        ("ip proto udp && !(dst port 2001)", &[2, 4]),
        ("ether host 02:00:00:00:00:01", &[0, 1, 2, 3, 4]),
        ("udp[8] = 1", &[0, 4]),
        ("udp[8:2] = 0x102 and not udp[8:4] > 0", &[0]),
        ("tcp[13] & 2 != 0", &[3]),
        ("tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn", &[3]),
        ("tcp[tcpflags] & tcp-ack != 0", &[]),
        ("ip[9] = IPPROTO_TCP", &[3]),
        ("ip[8] >= 64 and ip[9] != 6", &[0, 1, 2, 4]),
        ("not (port 2001 or arp)", &[2]),
    ] {
        if rule.starts_with("10.") {
            // A host without its word is no primitive here, and is said to be none.
            assert!(add(&mut classifier(MatchMode::All, 0), 0, rule).unwrap_err().contains("is not expected here"));
            continue;
        }
        assert_eq!(holds(rule), wanted, "{rule}");
    }
}

#[test]
fn addresses_of_ipv6_are_compared_whole() {
    let mut packet = vec![2; 12];
    packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 9, 17, 64]);
    packet.extend(raw("fd00:1::2"));
    packet.extend(raw("fd00:1::3"));
    packet.extend([0, 9, 0, 53, 0, 9, 0, 0, b'x']);
    for (rule, wanted) in [
        ("[ip6 (src = fd00:1::2) | udp | *]", true),
        ("[ip6 (src = fd00:1::/32) | *]", true),
        ("[ip6 (src = fd00:1::/33)(dst = fd00:1::2/127) | udp (dport = 53)]", true),
        ("[ip6 (src = fd00:1::4/126) | *]", false),
        ("net fd00:1::/64 and port 53", true),
        ("ip6 host fd00:1::3", true),
        ("src host fd00:1::3", false),
        ("udp port 53 and udp[8] = 120", true),
    ] {
        let mut classifier = classifier(MatchMode::All, 64);
        add(&mut classifier, 0, rule).unwrap_or_else(|why| panic!("{rule}: {why}"));
        assert_eq!(!classifier.find(&packet).is_empty(), wanted, "{rule}");
        // Addresses and ports are all that a flow's key has room for.
        let fits = !rule.contains('[') || rule.starts_with('[');
        assert_eq!(classifier.knows(&packet), fits, "{rule}");
    }
}

/// The bytes of an address.
fn raw(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().unwrap().to_bits().to_be_bytes()
}

#[test]
fn wrong_rules_are_refused_with_the_place_and_the_remedy() {
    for (rule, what) in [
        ("", "0: an empty filter: say what is wanted"),
        ("[ip", "3: ']' is expected here, not the end of the text"),
        ("[ipp | *]", "1: no protocol 'ipp' is taught; do you mean 'ip' or 'ip6'?"),
        ("[ip (scr = 1.2.3.4)]", "5: ip has no field 'scr'; do you mean 'src'?"),
        ("[udp (colour = 1)]", "6: udp has no field 'colour'; it has sport, dport, length, checksum"),
        ("[ip (src = 1.2.3)]", "11: '1.2.3' is no address of IPv4, and no host of this name has one"),
        ("[ip (src = 10.0.0.1/24)]", "11: 10.0.0.1/24 has bits behind its first 24"),
        ("[ip (src = 10.0.0.0/33)]", "11: a prefix of src has at most 32 bits"),
        ("[udp (dport = 70000)]", "14: dport has 16 bits: 70000 does not fit"),
        ("[udp (dport = 9..3)]", "14: the range ends before it begins"),
        ("[udp (dport < 0)]", "6: this can never hold"),
        ("[udp (dport ~ 3)]", "12: '~' is no part of this language"),
        ("[udp (dport * 3)]", "6: dport has no comparison: = != < <= > >="),
        (
            "[ethernet (proto = ETHERTYPE_IPX) | *]",
            "19: 'ETHERTYPE_IPX' is no number and no known constant; do you mean \
          'ETHERTYPE_IP' or 'ETHERTYPE_IPV6' or 'ETHERTYPE_ARP'?",
        ),
        ("[ethernet (proto = ETHERTYPE_ARP) | ip]", "11: this can never hold: ip follows ethernet at [2048]"),
        ("[ip (version = 6)]", "5: this can never hold: ip requires version = 4"),
        ("[ethernet | udp]", "12: udp is not right behind ethernet: write ethernet | ip | udp"),
        ("[udp | ip]", "7: ip does not follow udp: its definition needs (follows udp …)"),
        (
            "[ethernet (src > 02:00:00:00:00:00)]",
            "11: src has more than 32 bits: it can be compared with a value, a prefix or \
          a mask, not with a range",
        ),
        ("[udp (dport & 1 = 2)]", "6: this can never hold: the value has bits that the mask has not"),
        ("[udp (dport = 1)(dport = 2)]", "this rule can never hold: its parts contradict each other"),
        ("udp and tcp", "this rule can never hold: its parts contradict each other"),
        ("gateway snup", "0: 'gateway' is a word of pcap filters that rules do not have"),
        ("ip and vlan 3", "7: 'vlan' is a word of pcap filters that rules do not have"),
        ("ip broadcast", "3: 'broadcast' is a word of pcap filters that rules do not have"),
        (
            "net 10.0.0.0 mask 255.0.0.0",
            "13: 'mask' is a word of pcap filters that rules do not have: write net ADDRESS/LENGTH",
        ),
        ("ip[0] + 1 = 3", "6: '+' computes: rules compare bytes with numbers, without arithmetic"),
        ("ip[ip[0]] = 3", "3: the offset in bytes must be a number"),
        ("ip[tcpflags] = 3", "3: tcpflags is of tcp, not of ip"),
        (
            "tcp[tcpflags] & tcp-sin != 0",
            "16: the mask must be a number, and 'tcp-sin' is no name of one; do you mean 'tcp-fin' or 'tcp-syn' or 'tcp-ack'?",
        ),
        ("tcp[13] & (2|4 != 0", "15: ')' is expected here, not '!='"),
        ("tcp[13] = PORT_ANEP", "8: this can never hold"),
        ("tcp[13] & PORT_ANEP = 0", "10: the mask is at most 255, and PORT_ANEP is 3322"),
        ("ip[0:3] = 3", "0: the number of bytes is 1, 2 or 4"),
        ("ip[0] > 255", "6: this can never hold"),
        ("ip[0] & 3 > 1", "10: masked bytes can be = or !=, not >"),
        ("prot 3", "0: 'prot' is not expected here; do you mean 'port' or 'proto' or 'not'?"),
        ("udp udp", "4: 'udp' is no address, and no host of this name is known"),
        ("port domian", "5: 'domian' is no port: a number up to 65535, or a known service, as https"),
        ("icmp port 3", "0: icmp has no ports: tcp and udp have"),
        ("host nowhere", "5: 'nowhere' is no address, and no host of this name is known"),
        ("(udp", "4: ')' is expected here, not the end of the text"),
        ("udp)", "3: ')' is not expected here"),
        ("not", "3: a value is expected here, not the end of the text"),
    ] {
        let refused = add(&mut classifier(MatchMode::All, 0), 0, rule).unwrap_err();
        assert_eq!(refused, what, "{rule}");
    }
    let deep = format!("{}udp{}", "(".repeat(1000), ")".repeat(1000));
    assert!(add(&mut classifier(MatchMode::All, 0), 0, &deep).unwrap_err().contains("64 within each other"));
}

/// A wrong text, and what is said of it.
const WRONG_DEFINITIONS: &[(&str, &str)] = &[
    ("(protocol ip (hdr_len 4))", "10: ip is taught already: forget it first, or choose another name"),
    (
        "(protocol a (hdr_len 4)) (protocol a (hdr_len 4))",
        "35: a is taught already: forget it first, or choose another name",
    ),
    ("(protocol a)", "10: a has no hdr_len: how long is its header?"),
    ("(protocol a (hdr_len 0))", "21: a header has at least one byte: say `min 1`, or how many it has"),
    (
        "(protocol a (hdr_len n * 4) (field n offset 0 length 1))",
        "21: a header has at least one byte: say `min 1`, or how many it has",
    ),
    ("(protocol a (hdr_len m * 4 min 4) (field n offset 0 length 1))", "21: a has no field 'm'; do you mean 'n'?"),
    ("(protocol a (hdr_len n min 400) (field n offset 0 length 1))", "21: this length is at most 255, and never 400"),
    (
        "(protocol a (hdr_len 4) (field n offset 3 length 2))",
        "31: field n reads beyond the header: it ends at byte 5, and a \
      header may have only 4",
    ),
    ("(protocol a (hdr_len 4) (field n offset 0 length 1) (field n offset 1 length 1))", "59: there are two fields n"),
    ("(protocol a (hdr_len 4) (field n offset 0 bit 8 bits 1))", "46: the first bit is at most 7, not 8"),
    (
        "(protocol a (hdr_len 40) (field n offset 0 length 9))",
        "32: field n has more than 64 bits, which only addresses of IPv6 have",
    ),
    (
        "(protocol a (hdr_len 4) (field n offset 0 length 2 format ip))",
        "58: what has the format ip has 32 bits, not 16",
    ),
    ("(protocol a (hdr_len 4) (feild n offset 0 length 2))", "25: there is no clause 'feild'; do you mean 'field'?"),
    ("(protocol a (hdr_len 4) (hdr_len 5))", "25: hdr_len is said twice"),
    ("(protocol a (hdr_len 4) (require n = 3))", "33: a has no field 'n'; it has "),
    ("(protocol a (hdr_len 4) (field n offset 0 length 1) (require n = 300))", "61: n can never be 300: it has 8 bits"),
    ("(protocol a (hdr_len 4) (field n offset 0 length 1) (require n = 3) (require n = 4))", "77: n is required twice"),
    ("(protocol a (hdr_len 4) (follows ethernet 0x800))", "10: a and ip contradict: both follow ethernet at 2048"),
    ("(protocol a (hdr_len 4) (follows ethernet 0x10000))", "10: a follows ethernet at 65536, which proto cannot be"),
    ("(protocol a (hdr_len 4) (follows icmp 3))", "10: a follows icmp, which has no field that says what is next"),
    (
        "(protocol a (hdr_len 4) (follows ethernot 3))",
        "10: a follows 'ethernot', but no protocol 'ethernot' is taught; do you mean 'ethernet'?",
    ),
    ("(protocol a (hdr_len 4) (follows ethernet))", "41: the value at which it follows is expected here, not ')'"),
    (
        "(protocol a (hdr_len 4) (next n) (follows a 3) (field n offset 0 length 1))",
        "10: a would be behind itself: a > a",
    ),
    (
        "(protocol a (hdr_len 4) (next n) (follows b 3) (field n offset 0 length 1)) \
         (protocol b (hdr_len 4) (next n) (follows a 3) (field n offset 0 length 1))",
        "10: a would be behind itself: a > b > a",
    ),
    (
        "(protocol 9a (hdr_len 4))",
        "10: the name of a protocol is a letter, and up to 31 letters, digits and underscores",
    ),
    ("(protocl a)", "1: 'protocol' is expected here, not 'protocl'"),
];

#[test]
fn wrong_definitions_are_refused_with_the_place_and_the_remedy() {
    for (text, what) in WRONG_DEFINITIONS {
        let mut protocols = Protocols::standard();
        let before = protocols.all().count();
        let Mistake { at, what: said } = protocols.teach(text).unwrap_err();
        assert_eq!(format!("{at}: {said}"), *what, "{text}");
        assert_eq!(protocols.all().count(), before, "all of a text or nothing");
    }
}

#[test]
fn the_standard_protocols_are_there_and_can_be_read_again() {
    let protocols = Protocols::standard();
    let names: Vec<_> = protocols.all().map(|(_, protocol)| &*protocol.name).collect();
    assert_eq!(names, ["ethernet", "vlan", "arp", "ip", "ip6", "icmp", "udp", "tcp", "anep"]);
}

#[test]
fn a_trace_says_why() {
    let mut classifier = classifier(MatchMode::First, 64);
    add(&mut classifier, 0, "[ip (src = 10.0.0.9) | *]").unwrap();
    add(&mut classifier, 1, "[udp (dport = 2001) | *]").unwrap();
    add(&mut classifier, 2, "[tcp]").unwrap();
    add(&mut classifier, 3, "udp and not host 10.0.0.1").unwrap();
    let trace = classifier.explain(&packets()[0]);
    assert_eq!(
        trace.headers.iter().map(|header| (&*header.name, header.start)).collect::<Vec<_>>(),
        [("ethernet", 0), ("ip", 14), ("udp", 34)]
    );
    assert!(trace.headers[1].fields.contains(&("src".into(), "10.0.0.1".into())));
    assert_eq!(trace.stop, "nothing is taught that follows udp at 2001");
    let why: Vec<_> = trace.rules.iter().map(|rule| (rule.holds, &*rule.why)).collect();
    assert_eq!(
        why,
        [
            (false, "ip src is 10.0.0.1, not 0xa000009 in these 32 bits"),
            (true, "worth 1"),
            (false, "it has no tcp"),
            (false, "what it excludes holds")
        ]
    );
    assert_eq!(trace.answer, [1]);
}
