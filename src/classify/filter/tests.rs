//! Rules as channels have them: what ports hear of each, and what is refused.

use super::*;
use crate::nodeos::channel;

const APP: &str =
    "(protocol app (follows udp 2001) (hdr_len 4) (field kind offset 0 length 2) (field stream offset 2 length 2))";

fn read(protocol: &str, text: &str) -> Result<TaughtRule, RuleRefused> {
    let mut protocols = Protocols::standard();
    protocols.teach(APP).unwrap();
    let hosts = [("db".to_owned(), vec!["10.0.0.7".parse().unwrap()])].into();
    let words = RuleWords::new(&hosts, &[("APP_PORT".to_owned(), 2001)].into()).unwrap();
    let port = |name: &str| name.strip_prefix("if")?.parse().ok().map(PortId);
    let (base, language) = channel::language(protocol);
    let head = channel::rule(base, "", &[], port).unwrap();
    TaughtRule::read(text, language.unwrap(), (head.port, head.layer), &protocols, &words)
}

/// A specification of fixed fields, as what comes of it; `!`: the Linux stack has the frames, too.
fn fixed(text: &str) -> Watch {
    let (is_shared, text) = text.strip_prefix('!').map_or((false, text), |text| (true, text));
    let (protocol, address) = text.split_once(' ').unwrap_or((text, ""));
    let port = |name: &str| name.strip_prefix("if")?.parse().ok().map(PortId);
    let rule = channel::rule(protocol, address, &[], port).unwrap();
    // An address of any family says nothing; the ports hear of IPv4's.
    let rule = if rule.layer == Layer::Link { rule } else { in_v4(rule) };
    Watch { rule, is_shared }
}

#[test]
fn ports_hear_of_a_rule_what_the_kernel_can_look_at() {
    let cases: [(&str, &str, &[&str]); 15] = [
        ("if0/rule", "[ip | udp (dport = 53) | *]", &["if0/ip/udp *:53"]),
        ("if0/ip/udp/rule", "[ip | udp (dport = 53) | *]", &["if0/ip/udp *:53"]),
        ("if0/ip/rule", "[ip | udp (dport = 53) | *]", &["!if0/ip/udp *:53"]),
        ("*/rule", "[ip (proto = 89) | *]", &["*/ip proto 89"]),
        ("if1/ip/udp/rule", "[ip | udp (dport = 2001) | app (stream = 7) | *]", &["!if1/ip/udp *:2001"]),
        ("if0/rule", "[ip (src = 10.0.0.0/8) | udp (dport = 53) | *]", &["!if0/ip/udp *:53"]),
        ("if0/rule", "[ip | udp (sport = 53) | *]", &["!if0/ip proto 17"]),
        ("if0/rule", "[ip | tcp (dport = 80) | *]", &["!if0/ip/tcp *:80"]),
        ("if0/rule", "[ip | udp (dport = 5..9) | *]", &["!if0/ip proto 17"]),
        ("if0/rule", "[ip | *]", &["!if0 type 0x800"]),
        ("if0/rule", "[ip6 | udp (dport = 53) | *]", &["!if0 type 0x86dd"]),
        ("if0/rule", "[ethernet (src = 02:00:00:00:00:01) | *]", &["!if0"]),
        ("if0/pcap", "udp dst port 53", &["if0/ip/udp *:53", "!if0 type 0x86dd"]),
        (
            "if0/pcap",
            "udp dst port 53 and host 10.0.0.1 or tcp",
            &["!if0/ip/udp *:53", "!if0/ip proto 6", "!if0 type 0x86dd"],
        ),
        ("if0/ip/udp/pcap", "dst port 53", &["if0/ip/udp *:53", "!if0 type 0x86dd"]),
    ];
    for (protocol, text, expected) in cases {
        let rule = read(protocol, text).unwrap_or_else(|why| panic!("{text}: {why}"));
        let mut expected: Vec<_> = expected.iter().map(|text| fixed(text)).collect();
        expected.iter_mut().for_each(|watch| watch.rule.port = rule.port);
        let missing: Vec<_> = expected.iter().filter(|watch| !rule.watches.contains(watch)).collect();
        assert!(missing.is_empty() && rule.watches.len() == expected.len(), "{protocol} {text}: {:?}", rule.watches);
    }
}

#[test]
fn a_rule_of_fixed_fields_is_one_where_it_hands_over_the_same() {
    for (protocol, text, same) in [
        ("if0/ip/udp/rule", "[ip | udp (dport = 53) | *]", Some("if0/ip/udp *:53")),
        ("if0/rule", "[ip | udp (dport = 53) | *]", None),
        ("if0/ip/rule", "[ip (proto = 89) | *]", Some("if0/ip proto 89")),
        ("if0/ip/udp/rule", "[ip | udp (dport = 53)]", None),
        ("if0/ip/udp/rule", "[ip | udp (dport = 2001) | app (stream = 7) | *]", None),
        ("if0/ip/udp/pcap", "ip and dst port 53", Some("if0/ip/udp *:53")),
    ] {
        let rule = read(protocol, text).unwrap();
        assert_eq!(rule.same, same.map(|text| fixed(text).rule), "{protocol} {text}");
    }
}

#[test]
fn what_no_channel_can_have_is_refused_with_the_reason() {
    let long = format!("[ip | *]{}", " ".repeat(RULE_BYTES_MAX));
    for (protocol, text, why) in [
        ("if0/rule", &*long, "a rule has at most 1024 bytes, this one has 1032"),
        ("if0/rule", "[ip (scr = 10.0.0.1) | *]", "ip has no field 'scr'; do you mean 'src'?"),
        ("if0/rule", "[apq | *]", "no protocol 'apq' is taught; do you mean 'app'"),
        ("if0/rule", "ip", "rule:1:1"),
        ("if0/pcap", "[ip | *]", "rule:1:1"),
        ("if0/rule", "", "rule:1:1"),
        ("if0/rule", "[ip (src = 10.0.0.1)(src = 10.0.0.2) | *]", "this can never hold"),
        ("if0/ip/tcp/rule", "[ip | udp | *]", "this can never hold"),
        ("if0/rule", "[ip | udp (dport = 3322) | *]", "ANEP is the node's own"),
        ("if0/rule", "[ip (proto = 107) | *]", "ANEP is the node's own"),
        ("if0/rule", "[anep | *]", "ANEP is the node's own"),
        ("if0/pcap", "arp or udp", "address resolution is the node's own"),
        ("if0/rule", "[vlan (id = 5) | ip | *]", "frames with a VLAN's tag"),
    ] {
        let refused = read(protocol, text).unwrap_err().to_string();
        assert!(refused.contains(why), "{protocol} {text}: {refused}");
    }
}

#[test]
fn a_rule_with_words_is_no_fixed_one_since_they_may_mean_another_thing() {
    for (worded, plain) in [
        ("[ip (src = db) | udp | *]", "[ip (src = 10.0.0.7) | udp | *]"),
        ("[ip | udp (dport = APP_PORT) | *]", "[ip | udp (dport = 2001) | *]"),
    ] {
        let (worded, plain) = (read("if0/ip/udp/rule", worded).unwrap(), read("if0/ip/udp/rule", plain).unwrap());
        assert!(worded.same.is_none() && plain.same.is_some());
        assert_eq!(worded.watches, plain.watches, "ports hear the same of both");
    }
    for (protocol, text, why) in [
        ("if0/ip/udp/rule", "[ip (src = dc) | *]", "no host of this name has one"),
        ("if0/ip/udp/rule", "[ip6 (src = db) | *]", "no host of this name has one"),
        ("if0/ip/udp/rule", "[udp (dport = APP_PART) | *]", "no number and no known constant"),
        ("if0/ip/pcap", "host dc", "no host of this name is known"),
    ] {
        let refused = read(protocol, text).unwrap_err().to_string();
        assert!(refused.contains(why), "{text}: {refused}");
    }
}
