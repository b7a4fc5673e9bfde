//! What the fixed fields of both halves can say of a taught rule: a rule of theirs that holds wherever it holds. Example:
//! `[ip (dst = 10.0.0.0/8) | udp (dport = 53..60) | *]` is within "UDP of IPv4 to 10.0.0.0/8".
//!
//! So the kernel half and the table of channels ([`super::shapes`]) can choose packets for a classifier of taught protocols that decides.
//! A fixed rule may say the same, and then there is nothing left to decide. Frames with a tag are no packets of fixed rules.

use super::headers::{TCP, UDP};
use super::rule::{ANYWHERE, Layer, Rule};
use super::taught::bits::Bits;
use super::taught::pattern::{Case, Op, Spot};
use super::taught::protocols::Protocols;
use crate::wire::ethernet::ethertype;
use crate::wire::{Addr, Prefix};

/// A fixed rule around a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedRule {
    /// It holds of every packet without a tag of which the case holds.
    pub rule: Rule,
    /// And of no other.
    pub is_same: bool,
}

const DESTINATION_PORT: Bits = Bits::bytes(2, 2);

/// All addresses of IPv4.
pub(super) const V4: Prefix = Prefix { addr: Addr([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0]), length: 96 };

/// The fixed rule around a case; nothing if packets of the case have a tag, or do not begin with Ethernet's header.
pub fn around(protocols: &Protocols, case: &Case) -> Option<FixedRule> {
    let names: Vec<&str> = case.holds.way.iter().map_while(|id| Some(&*protocols.one(*id)?.name)).collect();
    let (first, inner) = names.split_first()?;
    if *first != "ethernet" || inner.contains(&"vlan") {
        return None;
    }
    let rule = Rule {
        port: None,
        layer: Layer::Link,
        kind: None,
        source: ANYWHERE,
        destination: ANYWHERE,
        source_port: None,
        destination_port: None,
        key: Vec::new(),
    };
    let mut found = FixedRule { rule, is_same: case.fails.is_empty() && !case.holds.ends };
    match *inner {
        [] => {
            // A frame with a tag is of the case, and not of the rule.
            found.is_same = false;
            found.rule.kind = number(case, 0, Bits::bytes(12, 2));
        }
        ["ip", ref more @ ..] => found.v4(case, more, implied(protocols, case)),
        // Fixed rules see behind IPv6's further headers.
        ["ip6", ..] => (found.rule.kind, found.is_same) = (Some(ethertype::IPV6), false),
        ["arp", ..] => (found.rule.kind, found.is_same) = (Some(ethertype::ARP), false),
        _ => found.is_same = false,
    }
    Some(found)
}

/// The one number that a case wants somewhere.
fn number(case: &Case, header: u8, bits: Bits) -> Option<u16> {
    case.holds.tests.iter().find_map(|(spot, op)| match op {
        Op::Range(low, high) if is_at(spot, header, bits) && low == high => u16::try_from(*low).ok(),
        _ => None,
    })
}

fn is_at(spot: &Spot, header: u8, bits: Bits) -> bool {
    (spot.header, spot.bits) == (header, bits)
}

/// The longest prefix around what a case wants of an address of IPv4, and whether it is the same.
fn block(case: &Case, bits: Bits) -> (Prefix, bool) {
    let wanted = case.holds.tests.iter().find_map(|(spot, op)| match op {
        Op::Range(low, high) if is_at(spot, 1, bits) => Some((*low, *high)),
        _ => None,
    });
    let Some((low, high)) = wanted else { return (V4, true) };
    let length = (low ^ high).leading_zeros();
    let free = u32::MAX.checked_shr(length).unwrap_or(0);
    let is_same = low & free == 0 && high & free == free;
    (Prefix::new(Addr::v4((low & !free).to_be_bytes()), 96 + length as u8), is_same)
}

/// The port by which what is behind a transport follows it, which no test says once more.
fn implied(protocols: &Protocols, case: &Case) -> Option<u16> {
    let [transport, inner] = *case.holds.way.get(2..4)? else { return None };
    let (transport, inner) = (protocols.one(transport)?, protocols.one(inner)?);
    transport.next.as_ref().filter(|next| next.bits == DESTINATION_PORT)?;
    let mut follows = inner.follows.iter().filter(|(below, _)| *below == transport.name);
    let (_, value) = follows.next()?;
    if follows.next().is_some() { None } else { u16::try_from(*value).ok() }
}

impl FixedRule {
    /// Of IPv4, and what is behind it.
    fn v4(&mut self, case: &Case, more: &[&str], implied: Option<u16>) {
        const SOURCE: Bits = Bits::bytes(12, 4);
        const DESTINATION: Bits = Bits::bytes(16, 4);
        const PROTOCOL: Bits = Bits::bytes(9, 1);
        const SOURCE_PORT: Bits = Bits::bytes(0, 2);
        let (source, source_is_same) = block(case, SOURCE);
        let (destination, destination_is_same) = block(case, DESTINATION);
        (self.rule.source, self.rule.destination) = (source, destination);
        self.is_same &= source_is_same && destination_is_same;
        let mut said = vec![(1, SOURCE), (1, DESTINATION), (1, PROTOCOL)];
        let protocol = number(case, 1, PROTOCOL);
        let layer = match more.first() {
            Some(&"udp") => Some((Layer::Udp, UDP)),
            Some(&"tcp") => Some((Layer::Tcp, TCP)),
            _ => None,
        };
        match layer.filter(|(_, own)| protocol.is_none_or(|wanted| wanted == u16::from(*own))) {
            Some((layer, _)) => {
                self.rule.layer = layer;
                self.rule.source_port = number(case, 2, SOURCE_PORT);
                self.rule.destination_port = number(case, 2, DESTINATION_PORT).or(implied);
                said.extend([(2, SOURCE_PORT), (2, DESTINATION_PORT)]);
                // Of TCP fixed rules take shorter headers, too.
                self.is_same &= layer == Layer::Udp && more.len() == 1;
            }
            None => {
                (self.rule.layer, self.rule.kind) = (Layer::Ip, protocol);
                self.is_same &= more.is_empty();
            }
        }
        let ports = [(SOURCE_PORT, self.rule.source_port), (DESTINATION_PORT, self.rule.destination_port)];
        self.is_same &= case.holds.tests.iter().all(|(spot, op)| {
            let is_number = matches!(op, Op::Range(low, high) if low == high);
            let is_block = spot.header == 1 && spot.bits != PROTOCOL;
            let is_port = ports.iter().any(|(bits, port)| is_at(spot, 2, *bits) && port.is_some());
            let is_range = matches!(op, Op::Range(..));
            said.contains(&(spot.header, spot.bits))
                && is_range
                && (is_block || is_number && (spot.header == 1 || is_port))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::headers::Layers;
    use super::super::shapes::Demux;
    use super::super::taught::classifier::{Classifier, MatchMode};
    use super::super::taught::pattern::NoNames;
    use super::super::taught::text::Vocabulary;
    use super::super::taught::{pcap, text};
    use super::*;
    use crate::frame::PortId;

    /// Frames with values that the rules name, and with others; some are damaged, pieces, or not IPv4.
    fn frames() -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for protocol in [17, 6, 1] {
            for (last, port) in (0..6).flat_map(|last| [51u16, 53, 60, 61].map(|port| (last, port))) {
                let mut frame = vec![2; 12];
                frame.extend([
                    8,
                    0,
                    0x45,
                    0,
                    0,
                    40,
                    0,
                    0,
                    0,
                    0,
                    64,
                    protocol,
                    0,
                    0,
                    10,
                    0,
                    0,
                    last,
                    10,
                    0,
                    0,
                    5 - last,
                ]);
                frame.extend(port.to_be_bytes());
                frame.extend(53u16.to_be_bytes());
                frame.extend([0, 20, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
                match last {
                    0 => frame[21] = 1,
                    1 => frame[46] = 0x20,
                    _ => {}
                }
                let sum = crate::wire::checksum::checksum(&frame[14..34]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
                if last == 2 && port == 60 {
                    frame[24] ^= 1;
                }
                frames.push(frame);
            }
        }
        frames.push([&[2; 12][..], &[8, 6, 0, 1, 8, 0, 6, 4], &[0; 30]].concat());
        frames.push([&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 64], &[1; 32]].concat());
        frames
    }

    #[test]
    fn a_fixed_rule_holds_wherever_the_taught_one_does_and_only_there_if_it_says_so() {
        let frames = frames();
        for (text, same) in [
            ("[ip | *]", 1),
            ("[ip (src = 10.0.0.2) | *]", 1),
            ("[ip (dst = 10.0.0.0/30)(proto = 6) | *]", 1),
            ("[ip (dst = 10.0.0.1..10.0.0.2) | *]", 0),
            ("[ip | udp (dport = 53) | *]", 1),
            ("[ip (src = 10.0.0.2/31) | udp (sport = 53)(dport = 53) | *]", 1),
            ("[ip | udp (sport = 53..60) | *]", 0),
            ("[ip | udp (dport = 53)]", 0),
            ("[ip | tcp (sport = 60) | *]", 0),
            ("[ip (ttl = 64) | *]", 0),
            ("[ip (proto & 1 = 1) | *]", 0),
            ("[icmp | *]", 0),
            ("[ip6 | *]", 0),
            ("[ethernet (proto = 0x806) | *]", 0),
            ("[*]", 0),
            ("udp port 53 or arp", 2),
            ("udp src port 53 and not host 10.0.0.3", 0),
        ] {
            let mut classifier = Classifier::new(Protocols::standard(), "ethernet", MatchMode::All, 0, 0).unwrap();
            let (protocols, root) = (classifier.protocols(), classifier.root());
            let mut known = Vocabulary { protocols, root, names: &mut NoNames };
            let read =
                if text.starts_with('[') { text::rule(text, &mut known) } else { pcap::filter(text, &mut known) };
            let wanted = read.unwrap();
            let cases = wanted.cases(root).unwrap();
            let around: Vec<_> = cases.iter().map(|case| around(protocols, case).unwrap()).collect();
            assert_eq!(around.iter().filter(|fixed| fixed.is_same).count(), same, "{text}: {around:?}");
            classifier.add(&wanted, 0, ()).unwrap();
            let mut holding = 0;
            for frame in &frames {
                let holds = !classifier.find(frame).is_empty();
                holding += usize::from(holds);
                let fixed = around.iter().any(|fixed| {
                    let mut demux = Demux::with_secret(7);
                    demux.add(&fixed.rule, ()).unwrap();
                    Layers::of(frame).is_some_and(|layers| demux.find(PortId(0), &layers, frame).is_some())
                });
                let right = if same == around.len() { holds == fixed } else { fixed || !holds };
                assert!(right, "{text}: {holds}, {fixed}: {frame:02x?}");
            }
            assert!(holding > 0 && holding <= frames.len(), "{text} holds of {holding}");
        }
    }

    #[test]
    fn packets_with_tags_have_no_fixed_rule() {
        let protocols = Protocols::standard();
        let root = protocols.id("ethernet").unwrap();
        let mut known = Vocabulary { protocols: &protocols, root, names: &mut NoNames };
        let wanted = text::rule("[vlan (id = 5) | ip | *]", &mut known).unwrap();
        assert_eq!(around(&protocols, &wanted.cases(root).unwrap()[0]), None);
    }
}
