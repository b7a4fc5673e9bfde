//! Why a packet is of a rule, and why it is not of another: the answer of a classifier, found once more in the plainest way. Example:
//! "udp at byte 34: dport = 53; rule 3 does not hold: udp dport is 53, not 2001".
//!
//! It reads all taught headers of the packet and looks at each rule by itself. So it is also what the classifier is compared with.

use super::bits::Bits;
use super::classifier::{Classifier, RuleNumber, wanted};
use super::pattern::{Case, DEPTH_MAX, Op, Pattern, Spot};
use super::protocol::{NotThis, Notation, Protocol, ProtocolField, ProtocolId};
use super::protocols::Protocols;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A header of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedHeader {
    /// Its protocol's name.
    pub name: String,
    /// Where it begins.
    pub start: usize,
    /// Where what is in it begins.
    pub inner: usize,
    /// Where its bytes end.
    pub end: usize,
    /// Its fields with their values.
    pub fields: Vec<(String, String)>,
}

/// A rule, and why it holds or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedRule {
    /// Its number.
    pub number: RuleNumber,
    /// Whether it holds.
    pub holds: bool,
    /// What it is worth, or what does not hold.
    pub why: String,
}

/// What a packet is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Its headers.
    pub headers: Vec<TracedHeader>,
    /// Why there are no more.
    pub stop: String,
    /// All rules in their order.
    pub rules: Vec<TracedRule>,
    /// The rules that the mode wants.
    pub answer: Vec<RuleNumber>,
}

/// All headers of a packet.
struct Walk {
    headers: Vec<(ProtocolId, usize, usize, usize)>,
    /// Whether nothing taught is behind the last.
    ended: bool,
    stop: String,
}

fn walk(protocols: &Protocols, root: ProtocolId, bytes: &[u8]) -> Walk {
    let mut walk = Walk { headers: Vec::new(), ended: false, stop: String::new() };
    let (mut id, mut start, mut end) = (root, 0, bytes.len());
    while let Some(protocol) = protocols.one(id) {
        match protocol.read(bytes, start, end) {
            Ok(inner) => {
                walk.headers.push((id, start, inner.start, inner.end));
                (start, end) = (inner.start, inner.end);
                let Some(next) = inner.next else {
                    walk.ended = true;
                    walk.stop = format!("{} does not say what is behind it", protocol.name);
                    break;
                };
                let Some(behind) = protocols.inside(id, next) else {
                    walk.ended = true;
                    walk.stop = format!("nothing is taught that follows {} at {next}", protocol.name);
                    break;
                };
                if walk.headers.len() == DEPTH_MAX {
                    walk.stop = format!("rules have at most {DEPTH_MAX} headers");
                    break;
                }
                id = behind;
            }
            Err(why) => {
                walk.stop = match why {
                    NotThis::Short => {
                        format!("{} at byte {start} has fewer bytes than it needs or says", protocol.name)
                    }
                    NotThis::Sum => format!("{} at byte {start} has a wrong checksum", protocol.name),
                    NotThis::Must(field, value) => {
                        let name = protocol.fields.get(field).map_or("?", |field| &field.name);
                        format!("{} at byte {start} is none: its {name} is {value}", protocol.name)
                    }
                };
                break;
            }
        }
    }
    walk
}

/// A value as its field writes it.
fn show(field: &ProtocolField, bytes: &[u8], start: usize) -> String {
    let raw = bytes.get(start + field.bits.byte as usize..start + field.bits.end()).unwrap_or_default();
    let number = || field.bits.read(bytes, start).unwrap_or(0);
    match field.notation {
        Notation::Number => number().to_string(),
        Notation::Hex => format!("{:#x}", number()),
        Notation::Mac => raw.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":"),
        Notation::V4 => raw.first_chunk::<4>().map(|raw| Ipv4Addr::from(*raw).to_string()).unwrap_or_default(),
        Notation::V6 => raw.first_chunk::<16>().map(|raw| Ipv6Addr::from(*raw).to_string()).unwrap_or_default(),
    }
}

/// The field in which a spot lies, or its bytes.
fn name_of(protocol: &Protocol, spot: &Spot) -> String {
    let first = |bits: &Bits| bits.byte * 8 + u32::from(bits.bit);
    let covers = |field: &&ProtocolField| {
        let (from, to) = (first(&field.bits), first(&field.bits) + u32::from(field.bits.count));
        from <= first(&spot.bits) && first(&spot.bits) + u32::from(spot.bits.count) <= to
    };
    let field = protocol.fields.iter().find(covers);
    field.map_or_else(|| format!("byte {}", spot.bits.byte), |field| field.name.clone())
}

impl Walk {
    fn value(&self, spot: &Spot, bytes: &[u8]) -> Option<u32> {
        let (_, start, _, end) = self.headers.get(usize::from(spot.header))?;
        if !spot.inside && start + spot.bits.end() > *end {
            return None;
        }
        spot.bits.read(bytes, *start).map(|value| value as u32)
    }

    /// What of a pattern does not hold; nothing if it does.
    fn failure(&self, protocols: &Protocols, pattern: &Pattern, bytes: &[u8]) -> Option<String> {
        let name = |id: ProtocolId| protocols.one(id).map_or("?", |protocol| &*protocol.name);
        for (at, wanted) in pattern.way.iter().enumerate() {
            if self.headers.get(at).is_none_or(|(id, ..)| id != wanted) {
                return Some(format!("it has no {}", name(*wanted)));
            }
        }
        for (spot, op) in &pattern.tests {
            let value = self.value(spot, bytes);
            if value.is_some_and(|value| op.holds(value)) {
                continue;
            }
            let protocol = self.headers.get(usize::from(spot.header)).and_then(|(id, ..)| protocols.one(*id));
            let field = protocol.map_or_else(String::new, |protocol| {
                let field = name_of(protocol, spot);
                let shown = protocol.fields.iter().find(|known| known.name == field);
                let start = self.headers.get(usize::from(spot.header)).map_or(0, |header| header.1);
                let value = match (shown, value) {
                    (Some(shown), _) => show(shown, bytes, start),
                    (None, Some(value)) => format!("{value:#x}"),
                    (None, None) => "not there".into(),
                };
                format!("{} {field} is {value}", protocol.name)
            });
            let wanted = match op {
                Op::Range(low, high) if low == high => format!("{low:#x}"),
                Op::Range(low, high) => format!("{low:#x} to {high:#x}"),
                Op::Mask(mask, value) => format!("{value:#x} in {mask:#x}"),
            };
            let which = if spot.bits.count == 32 { " in these 32 bits" } else { "" };
            return Some(format!("{field}, not {wanted}{which}"));
        }
        if pattern.ends && !(self.ended && self.headers.len() == pattern.way.len()) {
            return Some("more headers are behind the last, and the rule does not end with '| *'".into());
        }
        None
    }

    fn case(&self, protocols: &Protocols, case: &Case, bytes: &[u8]) -> Option<String> {
        let failure = self.failure(protocols, &case.holds, bytes);
        let excluded = |pattern: &Pattern| self.failure(protocols, pattern, bytes).is_none();
        failure.or_else(|| case.fails.iter().any(excluded).then(|| "what it excludes holds".into()))
    }
}

impl<T> Classifier<T> {
    /// The rules that hold as the mode wants them, found by looking at each.
    pub fn find_by_each(&self, bytes: &[u8]) -> Vec<RuleNumber> {
        let walk = walk(self.protocols(), self.root(), bytes);
        let mut found = Vec::new();
        for (number, _) in self.owners() {
            let Some((order, cases)) = self.cases(number) else { continue };
            let rank = u64::from(order) << 32 | u64::from(number);
            let holding = cases.filter(|case| walk.case(self.protocols(), case, bytes).is_none());
            found.extend(holding.map(|case| (case.holds.cost, rank)));
        }
        let mut rules = Vec::new();
        wanted(self.mode(), &mut found, &mut rules);
        rules
    }

    /// What a packet is, and why each rule holds or not.
    pub fn explain(&self, bytes: &[u8]) -> Trace {
        let protocols = self.protocols();
        let walk = walk(protocols, self.root(), bytes);
        let header = |(id, start, inner, end): &(ProtocolId, usize, usize, usize)| {
            let protocol = protocols.one(*id)?;
            let fields = protocol.fields.iter().map(|field| (field.name.clone(), show(field, bytes, *start)));
            let (name, start, inner, end) = (protocol.name.clone(), *start, *inner, *end);
            Some(TracedHeader { name, start, inner, end, fields: fields.collect() })
        };
        let mut rules = Vec::new();
        for (number, _) in self.owners() {
            let Some((order, cases)) = self.cases(number) else { continue };
            let (mut why, mut worth) = (None, None);
            for case in cases {
                match walk.case(protocols, case, bytes) {
                    None => worth = worth.max(Some(case.holds.cost)),
                    Some(failure) => why = why.or(Some(failure)),
                }
            }
            let why = worth.map(|worth| format!("worth {worth}")).or(why).unwrap_or_default();
            rules.push((order, TracedRule { number, holds: worth.is_some(), why }));
        }
        rules.sort_by_key(|(order, rule)| (*order, rule.number));
        Trace {
            headers: walk.headers.iter().filter_map(header).collect(),
            stop: walk.stop,
            rules: rules.into_iter().map(|(_, rule)| rule).collect(),
            answer: self.find_by_each(bytes),
        }
    }
}
