//! The ends of channels, from text: which packets one is about, and which engines are between its protocols and its domain.
//!
//! ```text
//! protocol  = port [ "/ip" [ "/udp" | "/tcp" ] | "/anep" ] { "/" engine }      if0 · eth1/ip/udp · */ip · if2/anep · if0/ip/checksum
//!           | port [ "/ip" [ "/udp" | "/tcp" ] ] ( "/rule" | "/pcap" ) { "/" engine }      if0/rule · if0/ip/udp/pcap
//! port      = "if" number | name | "*"                            number: the port's place in the configuration
//! address   = link:      "*" | "type" number
//!             ip:        [ block "->" ] block [ "proto" number ]   10.0.0.0/24 -> 10.0.1.0/24 proto 47
//!             udp, tcp:  [ end "->" ] end                          10.0.0.7:* -> 10.0.1.0/24:5000 · *:5000
//!             anep:      "type" number
//!             rule:      a rule over taught protocols      [ip | udp (dport = 2001) | app (stream = 7) | *]
//!             pcap:      a filter of pcap-filter(7)        udp and dst port 2001
//! end       = block ":" ( number | "*" ), an IPv6 block in brackets
//! block     = address [ "/" length ] | "*"
//! ```
//!
//! Numbers are decimal, or hexadecimal behind `0x`. An empty address means `*`. What comes of it, a rule for the
//! classifier and words for the table of engines, is put into effect in the node's graphs.

use crate::classify::filter::RuleRefused;
use crate::classify::groups::MASKS;
use crate::classify::rule::{ANYWHERE, KeyTuple, Layer, Rule, TUPLES_MAX};
use crate::classify::shape::Shape;
use crate::classify::taught::language::Language;
use crate::frame::PortId;
use crate::nodeos::interface::Error;
use crate::wire::Prefix;
use std::collections::BTreeSet;

/// The protocol of an incoming channel to which its program passes packets on.
pub const PASSED: &str = "passed";

/// Parts a protocol from the names of engines behind it.
pub fn split(protocol: &str) -> (&str, Vec<&str>) {
    let is_base = |word: &&str| matches!(*word, "ip" | "udp" | "tcp" | "anep" | "rule" | "pcap");
    let mut words = protocol.split('/');
    let length = words.next().map_or(0, str::len) + words.take_while(is_base).map(|word| word.len() + 1).sum::<usize>();
    let (base, rest) = protocol.split_at(length);
    (base, rest.split('/').skip(1).collect())
}

/// Parts a protocol from the language of a rule behind it.
pub fn language(protocol: &str) -> (&str, Option<Language>) {
    match protocol.rsplit_once('/') {
        Some((base, "rule")) => (base, Some(Language::Rule)),
        Some((base, "pcap")) => (base, Some(Language::Pcap)),
        _ => (protocol, None),
    }
}

impl From<&RuleRefused> for Error {
    fn from(why: &RuleRefused) -> Error {
        match why {
            RuleRefused::Long(_) | RuleRefused::Wrong(_) => Error::Invalid,
            RuleRefused::Own(_) => Error::Exists,
            RuleRefused::Tagged => Error::Unsupported,
        }
    }
}

/// Which of so many ports a name means: its own, or `if` and a number.
pub fn port_at<'a>(name: &str, mut names: impl ExactSizeIterator<Item = &'a str>) -> Option<PortId> {
    let count = names.len();
    let numbered = || name.strip_prefix("if")?.parse().ok().filter(|at| *at < count);
    names.position(|known| known == name).or_else(numbered).map(|at: usize| PortId(at as u16))
}

/// Reads a protocol, an address and a key. `port` finds a port by its name or number.
pub fn rule(
    protocol: &str,
    address: &str,
    key: &[KeyTuple],
    port: impl Fn(&str) -> Option<PortId>,
) -> Result<Rule, Error> {
    let (name, rest) = protocol.split_once('/').unwrap_or((protocol, ""));
    let layer = match rest {
        "" => Layer::Link,
        "ip" => Layer::Ip,
        "ip/udp" => Layer::Udp,
        "ip/tcp" => Layer::Tcp,
        "anep" => Layer::Anep,
        _ => return Err(Error::Unsupported),
    };
    let port = match name {
        "*" => None,
        name => Some(port(name).ok_or(Error::Unknown)?),
    };
    if key.len() > TUPLES_MAX || !key.iter().all(KeyTuple::is_meant) {
        return Err(Error::Invalid);
    }
    let mut rule = Rule {
        port,
        layer,
        kind: None,
        source: ANYWHERE,
        destination: ANYWHERE,
        source_port: None,
        destination_port: None,
        key: key.to_vec(),
    };
    read_address(&mut rule, address).ok_or(Error::Invalid)?;
    Ok(rule)
}

/// How many shapes rules of these texts have, each a protocol and an address, and how many masks the kernel half has at most. What
/// is no rule of fixed fields counts for nothing.
pub fn shapes<'a>(texts: impl Iterator<Item = &'a str>) -> (usize, usize) {
    let read = |text: &'a str| {
        let (protocol, address) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        rule(protocol, address, &[], |_| Some(PortId(0))).ok()
    };
    let shapes: BTreeSet<Shape> = texts.filter_map(read).map(|rule| Shape::of(&rule).by_number()).collect();
    (shapes.len(), MASKS)
}

fn read_address(rule: &mut Rule, text: &str) -> Option<()> {
    let mut words = text.split_ascii_whitespace().collect::<Vec<_>>();
    let word = if rule.layer == Layer::Ip { "proto" } else { "type" };
    if let [.., name, number] = words[..]
        && name == word
        && !matches!(rule.layer, Layer::Udp | Layer::Tcp)
    {
        rule.kind = Some(number16(number)?);
        words.truncate(words.len() - 2);
    }
    let (source, destination) = match words[..] {
        [] => (None, None),
        [destination] => (None, Some(destination)),
        [source, "->", destination] => (Some(source), Some(destination)),
        _ => return None,
    };
    match rule.layer {
        // Nothing but the type.
        Layer::Link | Layer::Anep => {
            return (source.is_none() && matches!(destination, None | Some("*"))).then_some(());
        }
        Layer::Ip => {
            rule.source = source.map_or(Some(ANYWHERE), block)?;
            rule.destination = destination.map_or(Some(ANYWHERE), block)?;
            if rule.kind.is_some_and(|kind| kind > 255) {
                return None;
            }
        }
        Layer::Udp | Layer::Tcp => {
            (rule.source, rule.source_port) = source.map_or(Some((ANYWHERE, None)), end)?;
            (rule.destination, rule.destination_port) = destination.map_or(Some((ANYWHERE, None)), end)?;
        }
    }
    Some(())
}

fn number16(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn block(text: &str) -> Option<Prefix> {
    if text == "*" { Some(ANYWHERE) } else { text.parse().ok() }
}

fn end(text: &str) -> Option<(Prefix, Option<u16>)> {
    let (place, port) = text.rsplit_once(':')?;
    let place = match place.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        // An IPv6 address without brackets would swallow its port.
        None if place.contains(':') => return None,
        None => place,
    };
    let port = if port == "*" { None } else { Some(number16(port)?) };
    Some((block(place)?, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(protocol: &str, address: &str) -> Result<Rule, Error> {
        let port = |name: &str| ["if0", "eth1"].iter().position(|known| *known == name).map(|at| PortId(at as u16));
        rule(protocol, address, &[], port)
    }

    #[test]
    fn engines_stand_behind_the_protocol() {
        assert_eq!(split("if0"), ("if0", vec![]));
        assert_eq!(split("if0/ip/udp"), ("if0/ip/udp", vec![]));
        assert_eq!(split("if0/ip/udp/xor(3)/checksum"), ("if0/ip/udp", vec!["xor(3)", "checksum"]));
        assert_eq!(split("*/compress"), ("*", vec!["compress"]));
        assert_eq!(split("if0/ip/"), ("if0/ip", vec![""]));
        assert_eq!(split("if0/ip/udp/rule/checksum"), ("if0/ip/udp/rule", vec!["checksum"]));
        assert_eq!(language("if0/ip/udp/rule"), ("if0/ip/udp", Some(Language::Rule)));
        assert_eq!(language("*/pcap"), ("*", Some(Language::Pcap)));
        assert_eq!(["if0/ip", "rule", "if0/rule/udp"].map(|text| language(text).1), [None; 3]);
    }

    #[test]
    fn specifications_mean_what_they_say() {
        let block = |text: &str| text.parse::<Prefix>().unwrap();
        let any = Rule {
            port: Some(PortId(0)),
            layer: Layer::Link,
            kind: None,
            source: ANYWHERE,
            destination: ANYWHERE,
            source_port: None,
            destination_port: None,
            key: vec![],
        };
        let cases = [
            ("if0", "", any.clone()),
            ("if0", "type 0x88b5", Rule { kind: Some(0x88b5), ..any.clone() }),
            ("*/anep", "type 7", Rule { port: None, layer: Layer::Anep, kind: Some(7), ..any.clone() }),
            (
                "eth1/ip",
                "10.0.0.0/24 -> 10.0.1.9 proto 47",
                Rule {
                    port: Some(PortId(1)),
                    layer: Layer::Ip,
                    kind: Some(47),
                    source: block("10.0.0.0/24"),
                    destination: block("10.0.1.9"),
                    ..any.clone()
                },
            ),
            ("if0/ip", "proto 0x2f", Rule { layer: Layer::Ip, kind: Some(47), ..any.clone() }),
            ("if0/ip/udp", "*:5000", Rule { layer: Layer::Udp, destination_port: Some(5000), ..any.clone() }),
            (
                "if0/ip/tcp",
                "[fd00::/64]:* -> [fd01::1]:80",
                Rule {
                    layer: Layer::Tcp,
                    source: block("fd00::/64"),
                    destination: block("fd01::1"),
                    destination_port: Some(80),
                    ..any.clone()
                },
            ),
        ];
        for (protocol, address, expected) in cases {
            assert_eq!(parse(protocol, address), Ok(expected), "{protocol} {address}");
        }
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let cases = [
            ("", "", Error::Unknown),
            ("if7", "", Error::Unknown),
            ("if0/", "type", Error::Invalid),
            ("if0/ipx", "", Error::Unsupported),
            ("if0/ip/udp/x", "", Error::Unsupported),
            ("if0", "10.0.0.1", Error::Invalid),
            ("if0", "type 65536", Error::Invalid),
            ("if0/ip", "proto 256", Error::Invalid),
            ("if0/ip", "10.0.0.1 10.0.0.2", Error::Invalid),
            ("if0/ip", "10.0.0.1 -> ", Error::Invalid),
            ("if0/ip/udp", "10.0.0.1", Error::Invalid),
            ("if0/ip/udp", "fd00::1:80", Error::Invalid),
            ("if0/ip/udp", "[fd00::1:80", Error::Invalid),
            ("if0/ip/udp", "*:99999", Error::Invalid),
            ("if0/ip/udp", "*:5 type 1", Error::Invalid),
            ("if0/anep", "type 1 -> type 2", Error::Invalid),
        ];
        for (protocol, address, expected) in cases {
            assert_eq!(parse(protocol, address), Err(expected), "{protocol} {address}");
        }
        let tuple = KeyTuple { offset: 0, length: 1, value: 1, mask: 1 };
        let with = |key: &[KeyTuple]| rule("if0", "", key, |_| Some(PortId(0))).map(|rule| rule.key.len());
        assert_eq!(with(&[tuple; TUPLES_MAX]), Ok(TUPLES_MAX));
        let wrong: [Vec<KeyTuple>; 5] = [
            vec![tuple; TUPLES_MAX + 1],
            vec![KeyTuple { length: 0, ..tuple }],
            vec![KeyTuple { length: 9, ..tuple }],
            vec![KeyTuple { value: 256, mask: 256, ..tuple }],
            vec![KeyTuple { value: 3, ..tuple }],
        ];
        for key in wrong {
            assert_eq!(with(&key), Err(Error::Invalid), "{key:?}");
        }
    }
}
