//! Early demultiplexing: finds the rule that claims a packet, before any work is done for it. Example: of 10,000
//! channels the one with the most specific filter.
//!
//! Rules of the same shape (the same fields, the same prefix lengths) are in one hash table. So a packet costs one
//! look-up for each existing shape, the most specific first (tuple space search; Srinivasan et al., SIGCOMM 1999).
//! Rules that differ only in their keys share an entry; the first matching key decides, longer keys before shorter
//! ones. An entry is a cache line, and [`Demux::foresee`] asks for the lines of packets whose turn comes a little later
//! (`flows`). Of more than a few shapes a packet is looked for by those alone that have rules near it (`many`).

mod flows;
mod many;

use super::fields::words;
use super::groups::MASKS;
use super::headers::Layers;
use super::rule::{Layer, Rule};
use super::shape::Shape;
use crate::frame::{Ends, Frame, Marks, PortId};
use crate::wire::{Addr, Prefix};
use core::ops::Range;
use flows::{Flow, Flows, Group};
pub use flows::{KEYS_MAX, NoPlace};
use many::{FlowLists, Near};

/// What a packet was found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// Whose it is.
    pub owner: T,
    /// The payload of the rule's last protocol.
    pub payload: Range<usize>,
    /// That protocol.
    pub layer: Layer,
}

impl<T> Found<T> {
    /// Whose a packet is by another way, if it has the layer whose payload is handed over.
    pub fn at(layer: Layer, layers: &Layers, length: usize, owner: T) -> Option<Found<T>> {
        let payload = match layer {
            Layer::Link => 0..length,
            Layer::Ip => layers.ip.as_ref()?.payload.clone(),
            Layer::Udp | Layer::Tcp => {
                let number = if layer == Layer::Udp { super::headers::UDP } else { super::headers::TCP };
                let ip = layers.ip.as_ref().filter(|ip| ip.protocol == number)?;
                ip.transport.as_ref()?.payload.clone()
            }
            Layer::Anep => return None,
        };
        Some(Found { owner, payload, layer })
    }

    /// Writes down in the packet's frame where its payload is, and who sent it to whom, as far as the rule's protocols say.
    #[inline(always)]
    pub fn mark(&self, layers: &Layers, frame: &mut Frame) {
        let network = layers.ip.as_ref().map_or(0, |ip| ip.start) as u32;
        frame.marks = Marks { network, payload: self.payload.start as u32, end: self.payload.end as u32 };
        let ends = &mut frame.ends;
        let Some(ip) = layers.ip.as_ref().filter(|_| self.layer != Layer::Link) else {
            *ends = Ends::default();
            return;
        };
        let transport = ip.transport.as_ref().filter(|_| matches!(self.layer, Layer::Udp | Layer::Tcp));
        let ports = transport.map_or((0, 0), |transport| (transport.source, transport.destination));
        ends.source = Some((ip.source, ports.0));
        ends.destination = Some((ip.destination, ports.1));
    }
}

/// The rules of a node, and their owners.
#[derive(Debug)]
pub struct Demux<T> {
    groups: Vec<Group<T>>,
    near: Near,
    secret: u64,
}

impl<T> Default for Demux<T> {
    fn default() -> Demux<T> {
        Demux { groups: Vec::new(), near: Near::default(), secret: 0 }
    }
}

impl<T: Copy + PartialEq> Demux<T> {
    /// No rules yet. Without the secret nobody can choose rules that collide.
    pub fn with_secret(secret: u64) -> Demux<T> {
        Demux { groups: Vec::new(), near: Near::default(), secret }
    }

    /// Whether there is no rule.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Adds a rule, unless another means the same.
    pub fn add(&mut self, rule: &Rule, owner: T) -> Result<(), NoPlace> {
        let shape = Shape::of(rule);
        let at = match self.groups.binary_search_by(|group| shape.cmp(&group.shape)) {
            Ok(at) => at,
            Err(at) => {
                self.groups.insert(at, Group { shape, flows: Flows::new(self.secret) });
                at
            }
        };
        let (flow, flows) = (Flow::of(rule), &mut self.groups[at].flows);
        let before = flows.len();
        flows.add(flow, &rule.key, owner)?;
        if flows.len() > before {
            self.near.enlist(&self.groups, shape, &flow);
        }
        Ok(())
    }

    /// Takes a rule out.
    pub fn remove(&mut self, rule: &Rule, owner: T) {
        let shape = Shape::of(rule);
        let Ok(at) = self.groups.binary_search_by(|group| shape.cmp(&group.shape)) else { return };
        let (flow, flows) = (Flow::of(rule), &mut self.groups[at].flows);
        let before = flows.len();
        flows.remove(&flow, &rule.key, owner);
        let is_gone = flows.len() < before;
        if flows.is_empty() {
            self.groups.remove(at);
        }
        if is_gone {
            self.near.strike(&self.groups, shape, &flow);
        }
    }

    /// A rule has another owner, and else stays as it is.
    pub fn replace(&mut self, rule: &Rule, before: T, after: T) {
        let shape = Shape::of(rule);
        if let Some(group) = self.groups.iter_mut().find(|group| group.shape == shape) {
            group.flows.replace(&Flow::of(rule), &rule.key, before, after);
        }
    }

    /// Whose a rule is that has no key.
    #[cfg(test)]
    pub(crate) fn owner(&self, rule: &Rule) -> Option<T> {
        let group = self.groups.iter().find(|group| group.shape == Shape::of(rule))?;
        group.flows.owner(&Flow::of(rule), &[])
    }

    /// Whether there are more shapes than the kernel half has masks, so that it may not decide all.
    #[inline]
    pub fn is_crowded(&self) -> bool {
        self.groups.len() > MASKS
    }

    /// Asks for the memory that [`Demux::find`] will look at first.
    #[inline]
    pub fn foresee(&self, port: PortId, layers: &Layers, bytes: &[u8]) {
        for group in self.groups.iter().take(MASKS) {
            if let Some((flow, _)) = group.shape.apply(port, layers, bytes.len()) {
                group.flows.foresee(&flow);
            }
        }
    }

    /// Whose an Ethernet frame is.
    #[inline(always)]
    pub fn find(&self, port: PortId, layers: &Layers, bytes: &[u8]) -> Option<Found<T>> {
        if let Some(lists) = self.near.lists() {
            return self.find_listed(lists, port, layers, bytes);
        }
        // A loop: `find_map` is a call, and its result is copied by words that were not written so.
        for group in &self.groups {
            if let Some(found) = group.find(port, layers, bytes) {
                return Some(found);
            }
        }
        None
    }

    /// Whose a frame is, by the shapes that have rules near it.
    #[inline(never)]
    fn find_listed(&self, lists: &FlowLists, port: PortId, layers: &Layers, bytes: &[u8]) -> Option<Found<T>> {
        let mut best: Option<(Shape, Found<T>)> = None;
        let mut look = |shape: Shape| {
            if best.as_ref().is_none_or(|(known, _)| shape > *known)
                && let Ok(at) = self.groups.binary_search_by(|group| shape.cmp(&group.shape))
                && let Some(found) = self.groups[at].find(port, layers, bytes)
            {
                best = Some((shape, found));
            }
        };
        for (mask, is_merged) in lists.groups().masks() {
            if !is_merged {
                look(mask);
            } else if let Some((flow, _)) = mask.apply(port, layers, bytes.len()) {
                lists.list(&(mask, flow)).for_each(&mut look);
            }
        }
        best.map(|(_, found)| found)
    }

    /// Whose an ANEP packet of a type is, with this payload.
    #[inline]
    pub fn find_anep(&self, port: PortId, kind: u16, payload: &[u8]) -> Option<T> {
        let groups = self.groups.iter().filter(|group| group.shape.layer == Layer::Anep);
        let mut flows = groups.map(|group| (group, group.shape.anep(port, kind)));
        flows.find_map(|(group, flow)| group.flows.owner(&flow, payload))
    }
}

impl<T: Copy + PartialEq> Group<T> {
    #[inline(always)]
    fn find(&self, port: PortId, layers: &Layers, bytes: &[u8]) -> Option<Found<T>> {
        let (flow, payload) = self.shape.apply(port, layers, bytes.len())?;
        let owner = self.flows.owner(&flow, bytes.get(payload.clone())?)?;
        Some(Found { owner, payload, layer: self.shape.layer })
    }
}

#[inline]
fn bits(addr: Addr, length: u8) -> [u64; 2] {
    words(Prefix::new(addr, length).addr)
}

impl Shape {
    fn anep(&self, port: PortId, kind: u16) -> Flow {
        let (kind, port) = (if self.kind { kind } else { 0 }, if self.port { port.0 } else { 0 });
        Flow { kind, port, ..Flow::default() }
    }

    /// What a frame's fields are as far as the shape looks at them, if it has them.
    #[inline(always)]
    fn apply(&self, port: PortId, layers: &Layers, length: usize) -> Option<(Flow, Range<usize>)> {
        let mut flow = Flow { port: if self.port { port.0 } else { 0 }, ..Flow::default() };
        if self.layer == Layer::Link {
            flow.kind = if self.kind { layers.ethertype } else { 0 };
            return Some((flow, 0..length));
        }
        let ip = layers.ip.as_ref()?;
        flow.source = bits(ip.source, self.source_bits);
        flow.destination = bits(ip.destination, self.destination_bits);
        let wanted = match self.layer {
            Layer::Ip => {
                flow.kind = if self.kind { u16::from(ip.protocol) } else { 0 };
                return Some((flow, ip.payload.clone()));
            }
            Layer::Udp => super::headers::UDP,
            Layer::Tcp => super::headers::TCP,
            Layer::Link | Layer::Anep => return None,
        };
        let transport = ip.transport.as_ref().filter(|_| ip.protocol == wanted)?;
        flow.kind = wanted.into();
        flow.source_port = if self.source_port { transport.source } else { 0 };
        flow.destination_port = if self.destination_port { transport.destination } else { 0 };
        Some((flow, transport.payload.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::rule::KeyTuple;
    use crate::wire::ethernet::{self, Mac, ethertype};
    use crate::wire::{ipv4, udp};

    fn datagram(from: [u8; 4], to: [u8; 4], ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 42];
        let header =
            ethernet::Repr { destination: Mac([2; 6]), source: Mac([4; 6]), tag: None, ethertype: ethertype::IPV4 };
        header.emit(&mut bytes).unwrap();
        ipv4::Repr::new(from, to, 17, 64, 8 + payload.len()).emit(&mut bytes[14..]).unwrap();
        let header = udp::Repr { source_port: ports.0, destination_port: ports.1, payload_len: payload.len() };
        header.emit(&mut bytes[34..]).unwrap();
        bytes.extend(payload);
        bytes
    }

    fn rule(protocol: &str, address: &str, key: &[KeyTuple]) -> Rule {
        let port = |name: &str| name.strip_prefix("if")?.parse().ok().map(PortId);
        crate::nodeos::channel::rule(protocol, address, key, port).unwrap()
    }

    #[test]
    fn the_most_specific_filter_gets_the_packet() {
        let tuple = |offset, value| KeyTuple { offset, length: 1, value, mask: 0xff };
        let rules = [
            rule("*", "", &[]),
            rule("if0", "type 0x800", &[]),
            rule("if0/ip", "", &[]),
            rule("if0/ip", "10.0.0.0/24 -> 10.0.1.0/24", &[]),
            rule("if0/ip/udp", "*:5000", &[]),
            rule("if0/ip/udp", "*:5000", &[tuple(0, 7)]),
            rule("if0/ip/udp", "*:5000", &[tuple(0, 7), tuple(2, 9)]),
            rule("if0/ip/udp", "10.0.0.1:* -> 10.0.1.2:5000", &[]),
        ];
        let mut demux = Demux::default();
        for (at, rule) in rules.iter().enumerate() {
            demux.add(rule, at).unwrap();
            assert_eq!(demux.add(rule, at), Err(NoPlace::Exists));
        }
        let cases: [(u16, Vec<u8>, usize, usize); 7] = [
            (0, datagram([10, 0, 0, 1], [10, 0, 1, 2], (1, 5000), b"\x07\x00\x09"), 7, 3),
            (0, datagram([10, 0, 0, 2], [10, 0, 1, 2], (1, 5000), b"\x07\x00\x09"), 6, 3),
            (0, datagram([10, 0, 0, 2], [10, 0, 1, 2], (1, 5000), b"\x07\x00"), 5, 2),
            (0, datagram([10, 0, 0, 2], [10, 0, 1, 2], (1, 5000), b""), 4, 0),
            (0, datagram([10, 0, 0, 2], [10, 0, 1, 2], (1, 5001), b"x"), 3, 9),
            (0, datagram([10, 9, 0, 2], [10, 0, 1, 2], (1, 5001), b"x"), 2, 9),
            (1, datagram([10, 0, 0, 1], [10, 0, 1, 2], (1, 5000), b"x"), 0, 43),
        ];
        for (port, bytes, owner, payload) in &cases {
            let layers = Layers::of(bytes).unwrap();
            let found = demux.find(PortId(*port), &layers, bytes).unwrap();
            assert_eq!((found.owner, found.payload.len()), (*owner, *payload), "{found:?}");
        }
        let (port, bytes, ..) = &cases[0];
        for (at, rule) in rules.iter().enumerate().rev() {
            let layers = Layers::of(bytes).unwrap();
            assert!(demux.find(PortId(*port), &layers, bytes).unwrap().owner <= at);
            demux.remove(rule, at);
        }
        assert!(demux.is_empty());
    }

    #[test]
    fn shapes_stand_in_the_order_of_what_rules_say() {
        let mut rules = vec![];
        for number in 0..5 * 3 * 3 * 16 {
            let (flags, rest) = (number % 16, number / 16);
            let set = |bit: usize, value: u16| (flags >> bit & 1 == 1).then_some(value);
            let block = |at: usize| ["0::/0", "10.0.0.0/8", "fd01::1/128"][at].parse().unwrap();
            let layer = [Layer::Link, Layer::Ip, Layer::Udp, Layer::Tcp, Layer::Anep][rest / 9];
            // What only Ethernet, IP and ANEP ask for is the kind, and what only transports do are ports.
            let transport = matches!(layer, Layer::Udp | Layer::Tcp);
            rules.push(Rule {
                port: set(0, 1).map(PortId),
                layer,
                kind: set(1, 9).filter(|_| !transport),
                source: block(rest % 3),
                destination: block(rest / 3 % 3),
                source_port: set(2, 7).filter(|_| transport),
                destination_port: set(3, 8).filter(|_| transport),
                key: vec![],
            });
        }
        let said = |rule: &Rule| {
            let kind = rule.kind.is_some() || matches!(rule.layer, Layer::Udp | Layer::Tcp);
            let (from, to) = (rule.source.length, rule.destination.length);
            let ports = (rule.source_port.is_some(), rule.destination_port.is_some());
            (rule.layer, ports.0, to, ports.1, from, kind, rule.port.is_some())
        };
        for one in &rules {
            for other in &rules {
                assert_eq!(Shape::of(one).cmp(&Shape::of(other)), said(one).cmp(&said(other)), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_longest_packet_keeps_its_end() {
        let bytes = datagram([10, 0, 0, 1], [10, 0, 1, 2], (1, 5000), &[7; 65_507]);
        assert_eq!(bytes.len(), 65_549);
        let mut demux = Demux::default();
        demux.add(&rule("if0/ip/udp", "*:5000", &[]), ()).unwrap();
        let (layers, mut frame) = (Layers::of(&bytes).unwrap(), Frame::from_bytes(&bytes));
        demux.find(PortId(0), &layers, &bytes).unwrap().mark(&layers, &mut frame);
        assert_eq!(frame.marks, Marks { network: 14, payload: 42, end: 65_549 });
    }

    #[test]
    fn anep_types_have_owners_too() {
        let mut demux = Demux::default();
        demux.add(&rule("*/anep", "type 7", &[]), "any port").unwrap();
        demux.add(&rule("if1/anep", "type 7", &[]), "port 1").unwrap();
        assert_eq!(demux.find_anep(PortId(0), 7, b""), Some("any port"));
        assert_eq!(demux.find_anep(PortId(1), 7, b""), Some("port 1"));
        assert_eq!(demux.find_anep(PortId(1), 8, b""), None);
    }
}
