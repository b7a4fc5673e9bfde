//! Flows of which no rule over taught protocols can hold. Example: of all UDP, which a rule over a range of ports watches, that to
//! port 53. Their packets are Linux's, and the kernel need not copy them to the node (`bpf/foreign.h`).
//!
//! A flow is what packets without anything unusual in them are told apart by: addresses, protocol, ports. What a rule says of anything
//! else is left out ([`widened`]), and so is what it says must not be, unless that is about these alone. What is left holds for all such
//! packets of a flow or for none, and wherever the rule does: if it holds for one packet of none of the rules, no rule can ever hold for
//! another one of the flow. The kernel half reads packets in the same way (`src/kernel/vectors.rs`).

use super::headers::{TCP, UDP};
use super::rule::{Layer, Rule};
use super::taught::bits::Bits;
use super::taught::pattern::{Case, Op, Pattern, Spot, Wanted};
use super::taught::protocol::ProtocolId;
use super::taught::protocols::Protocols;
use crate::wire::checksum::checksum;
use crate::wire::ethernet::ethertype;
use crate::wire::{Addr, anep};

/// Where the header behind Ethernet's begins.
const START: usize = 14;

/// What packets without anything unusual in them are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForeignFlow {
    /// From.
    pub source: Addr,
    /// To.
    pub destination: Addr,
    /// What is in the IP packet.
    pub protocol: u8,
    /// Ports of UDP and TCP, from and to; else zero.
    pub ports: [u16; 2],
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl ForeignFlow {
    /// The flow of an Ethernet frame: nothing if there is anything unusual in it (a fragment, options or further headers, a wrong
    /// length or sum), or if it is the node's own.
    pub fn of(bytes: &[u8]) -> Option<ForeignFlow> {
        match half(bytes, 12)? {
            ethertype::IPV4 => ForeignFlow::of_v4(bytes),
            ethertype::IPV6 => ForeignFlow::of_v6(bytes),
            _ => None,
        }
    }

    fn of_v4(bytes: &[u8]) -> Option<ForeignFlow> {
        let head: &[u8; 20] = bytes.get(START..)?.first_chunk()?;
        let length = usize::from(half(head, 2)?);
        if head[0] != 0x45 || half(head, 6)? & 0x3fff != 0 || checksum(head) != 0 {
            return None;
        }
        let segment = bytes.get(START + head.len()..START + length)?;
        let addr = |at: usize| Some(Addr::v4(*head.get(at..)?.first_chunk()?));
        let (protocol, source, destination) = (head[9], addr(12)?, addr(16)?);
        Some(ForeignFlow { source, destination, protocol, ports: ports(protocol, segment)? })
    }

    fn of_v6(bytes: &[u8]) -> Option<ForeignFlow> {
        const IN_V4: u8 = 4;
        const IN_V6: u8 = 41;
        const GRE: u8 = 47;
        const SCTP: u8 = 132;
        let head: &[u8; 40] = bytes.get(START..)?.first_chunk()?;
        let addr = |at: usize| Some(Addr(*head.get(at..)?.first_chunk()?));
        let (protocol, source, destination) = (head[6], addr(8)?, addr(24)?);
        // Others may be further headers.
        let is_last = matches!(protocol, UDP | TCP | IN_V4 | IN_V6 | GRE | SCTP);
        if head[0] >> 4 != 6 || !is_last || source.is_v4() || destination.is_v4() {
            return None;
        }
        let begin = START + head.len();
        let segment = bytes.get(begin..begin + usize::from(half(head, 4)?))?;
        Some(ForeignFlow { source, destination, protocol, ports: ports(protocol, segment)? })
    }

    /// The Ethernet type of its packets.
    pub fn ethertype(&self) -> u16 {
        if self.source.is_v4() { ethertype::IPV4 } else { ethertype::IPV6 }
    }

    /// Whether a rule over fixed fields may hold for its packets.
    pub fn may_be_of(&self, rule: &Rule) -> bool {
        let kind = |own: u16| rule.kind.is_none_or(|wanted| wanted == own);
        let ends = rule.source.contains(self.source) && rule.destination.contains(self.destination);
        let [source, destination] = self.ports;
        let ports = rule.source_port.is_none_or(|port| port == source)
            && rule.destination_port.is_none_or(|port| port == destination);
        match rule.layer {
            Layer::Link => kind(self.ethertype()),
            Layer::Ip => ends && kind(self.protocol.into()),
            Layer::Udp => ends && self.protocol == UDP && ports,
            Layer::Tcp => ends && self.protocol == TCP && ports,
            Layer::Anep => false,
        }
    }
}

/// The ports of a segment that says the same of its length.
fn ports(protocol: u8, segment: &[u8]) -> Option<[u16; 2]> {
    let is_right = match protocol {
        UDP => segment.len() >= 8 && usize::from(half(segment, 4)?) == segment.len(),
        TCP => segment.len() >= 20 && (20..=segment.len()).contains(&(usize::from(segment[12] >> 4) * 4)),
        anep::IP_PROTOCOL => false,
        _ => return Some([0; 2]),
    };
    let ports = is_right.then_some([half(segment, 0)?, half(segment, 2)?])?;
    (protocol != UDP || ports[1] != anep::UDP_PORT).then_some(ports)
}

/// A rule that holds wherever another one does, and looks at nothing but what tells flows apart. Nothing: that one has too many cases.
pub fn widened(protocols: &Protocols, wanted: &Wanted, root: ProtocolId) -> Option<Wanted> {
    let cases = wanted.cases(root).ok()?;
    Some(Wanted::Any(cases.iter().filter_map(|case| widened_case(protocols, case)).collect()))
}

/// Nothing: there is no such packet at all.
fn widened_case(protocols: &Protocols, case: &Case) -> Option<Wanted> {
    let fails = case.fails.iter().filter(|pattern| is_of_flows(protocols, pattern));
    let not = fails.map(|pattern| Wanted::Not(Box::new(Wanted::One(pattern.clone()))));
    let holds = Wanted::One(cut(protocols, &case.holds)?);
    Some(Wanted::All(core::iter::once(holds).chain(not).collect()))
}

/// How many of a way's headers every packet of a flow has, if one does.
fn depth(protocols: &Protocols, way: &[ProtocolId]) -> usize {
    let is_one = |(at, id): (usize, &ProtocolId)| {
        let name = protocols.one(*id).map_or("", |protocol| &*protocol.name);
        matches!((at, name), (0, "ethernet") | (1, "ip" | "ip6") | (2, "udp" | "tcp"))
    };
    way.iter().enumerate().take_while(|one| is_one(*one)).count()
}

/// Whether a test looks at what all packets of a flow have in common, in one of these first headers.
fn is_common(protocols: &Protocols, way: &[ProtocolId], spot: &Spot) -> bool {
    let name =
        way.get(usize::from(spot.header)).and_then(|id| protocols.one(*id)).map_or("", |protocol| &*protocol.name);
    let Bits { byte, bit, count } = spot.bits;
    let from = byte * 8 + u32::from(bit);
    let within = |begin: u32, bytes: u32| from >= begin * 8 && from + u32::from(count) <= (begin + bytes) * 8;
    match name {
        "ethernet" => within(12, 2),
        // The first byte is one and the same.
        "ip" => within(0, 1) || within(9, 1) || within(12, 8),
        "ip6" => within(6, 1) || within(8, 32),
        "udp" | "tcp" => within(0, 4),
        _ => false,
    }
}

/// Whether a pattern holds for all packets of a flow, or for none.
fn is_of_flows(protocols: &Protocols, pattern: &Pattern) -> bool {
    !pattern.ends
        && depth(protocols, &pattern.way) == pattern.way.len()
        && pattern.tests.iter().all(|(spot, _)| is_common(protocols, &pattern.way, spot))
}

/// A pattern without all that packets of one flow may differ in. Nothing: it holds for no packet.
fn cut(protocols: &Protocols, pattern: &Pattern) -> Option<Pattern> {
    let kept = depth(protocols, &pattern.way);
    let (way, behind) = pattern.way.split_at(kept);
    let is_kept = |(spot, _): &&(Spot, Op)| usize::from(spot.header) < kept && is_common(protocols, way, spot);
    let mut tests: Vec<(Spot, Op)> = pattern.tests.iter().filter(is_kept).copied().collect();
    tests.extend(behind.first().and_then(|next| implied(protocols, way, *next)));
    Pattern { way: way.to_vec(), ends: false, tests, cost: 0 }.tidy()
}

/// What the last header of a way must say for another to be behind it, if that is one number.
fn implied(protocols: &Protocols, way: &[ProtocolId], next: ProtocolId) -> Option<(Spot, Op)> {
    let (last, next) = (protocols.one(*way.last()?)?, protocols.one(next)?);
    let bits = last.next.as_ref()?.bits;
    let mut follows = next.follows.iter().filter(|(below, _)| *below == last.name);
    let value = u32::try_from(follows.next()?.1).ok()?;
    let spot = Spot { header: way.len() as u8 - 1, bits, inside: true };
    (follows.next().is_none() && is_common(protocols, way, &spot)).then_some((spot, Op::Range(value, value)))
}

#[cfg(test)]
mod tests;
