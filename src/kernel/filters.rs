//! The maps of `bpf/filters.h` at the Linux stack, which say whether a frame is the node's, and their two readers:
//! guard and socket filter.

use super::own;
use crate::broker::Place;
use crate::classify::fields::Field;
use crate::classify::filter::Watch;
use crate::classify::rule::{DemuxKey, Layer, Rule};
use crate::classify::shapes::NoPlace;
use crate::classify::table::{Changed, RuleTable};
use crate::contract::{self, ON_IP, ON_LINK, ON_TRANSPORT, owners, pattern, shapes};
use crate::frame::PortId;
use crate::sys::bpf::{Link, Map, MapKind, MapShape, Program};
use core::ops::Range;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;

pub(super) static GUARD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guard.bpf.o"));
pub(super) static FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter.bpf.o"));

// Fields are as long in patterns as in what rules ask for.
const _: () = {
    let mut at = 0;
    while at < Field::ALL.len() {
        let range = place(Field::ALL[at]);
        assert!(range.end - range.start == Field::ALL[at].bytes());
        at += 1;
    }
};

/// Who has the frames of a rule: the node alone, the Linux stack too, or both are asked for.
const TAKEN: u32 = 2;
const SHARED: u32 = 1;

/// Flows of one interface: as many as a node has channels of a kind.
const FLOWS: u32 = 131_072;

/// The maps: shapes, flows.
pub(super) const LAYOUT: [(&str, MapShape); 2] = [
    ("anode_shapes", MapShape { kind: MapKind::Array, key: 4, value: shapes::SIZE, entries: 1 }),
    ("anode_flows", MapShape { kind: MapKind::Hash, key: pattern::SIZE, value: owners::SIZE, entries: FLOWS }),
];

/// A `struct pattern`.
pub(super) type Pattern = [u8; pattern::SIZE];

/// Which frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that are the node's; the socket's also address resolution.
    All,
    /// The same without any channels.
    Own,
    /// Those of channels alone: an XDP program takes the others.
    Channels,
}

/// The rules of one interface.
#[derive(Debug)]
pub struct Filters {
    shapes: Map,
    flows: Map,
    rules: RuleTable<Pattern, u32>,
    /// For which each rule is there: `TAKEN`, `SHARED`.
    wanted: HashMap<Rule, u32>,
    /// Whether frames are taken at all.
    listens: bool,
}

impl Filters {
    /// The rules of a node without channels.
    pub fn create() -> io::Result<Filters> {
        let [shapes, flows] = LAYOUT.map(|(name, shape)| own::map(name, shape));
        let filters = Filters {
            shapes: shapes?,
            flows: flows?,
            rules: RuleTable::new(|rule| pattern(rule, None)),
            wanted: HashMap::new(),
            listens: true,
        };
        filters.tell_shapes()?;
        Ok(filters)
    }

    /// Has socket and guard take frames, or leave all to the Linux stack: both at the same moment.
    pub fn listen(&mut self, listens: bool) -> io::Result<()> {
        self.listens = listens;
        self.tell_shapes()
    }

    /// Takes what is watched for, or does not any more. All others are taken throughout.
    pub fn change(&mut self, watch: &Watch, exists: bool) -> io::Result<()> {
        let Watch { rule, is_shared } = watch;
        if rule.layer == Layer::Anep {
            return Ok(());
        }
        let before = self.wanted.get(rule).copied().unwrap_or(0);
        let one = if *is_shared { SHARED } else { TAKEN };
        let after = if exists { before | one } else { before & !one };
        let told = self.want(rule, after);
        if told.is_err() && exists {
            // As if it had never been there.
            let _ = self.want(rule, before);
        }
        told
    }

    /// Frames of a rule are wanted so from now on.
    fn want(&mut self, rule: &Rule, wanted: u32) -> io::Result<()> {
        match wanted {
            0 => drop(self.wanted.remove(rule)),
            wanted => drop(self.wanted.insert(rule.clone(), wanted)),
        }
        let Some(changed) = self.rules.change(rule, wanted > 0).map_err(full)? else { return Ok(()) };
        if wanted == SHARED {
            // The guard lets pass what has a number there.
            self.rules.give(rule, SHARED);
        }
        self.tell(&changed)
    }

    fn tell(&self, changed: &Changed<Pattern>) -> io::Result<()> {
        match self.rules.keys(&changed.pattern) {
            [] => self.flows.remove(&changed.pattern)?,
            keys if keys.len() > contract::KEYS as usize => return Err(full(NoPlace::Full)),
            keys => self.flows.set(&changed.pattern, &value(keys))?,
        }
        if changed.masks { self.tell_shapes() } else { Ok(()) }
    }

    fn tell_shapes(&self) -> io::Result<()> {
        let mut all = [0; shapes::SIZE];
        let count = if self.listens { self.rules.masks().len() as u32 } else { 0 };
        shapes::COUNT.put(&mut all, count.to_ne_bytes());
        shapes::LISTENS.put(&mut all, u32::from(self.listens).to_ne_bytes());
        for (place, mask) in all[shapes::MASKS.range()].as_chunks_mut().0.iter_mut().zip(self.rules.masks()) {
            *place = *mask;
        }
        self.shapes.set(&0u32.to_ne_bytes(), &all)
    }

    /// Whether no frames are taken beside those that are taken throughout.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The filter of an AF_PACKET socket.
    pub fn filter(&self, which: Which) -> io::Result<Program> {
        let name = match which {
            Which::All => "filter",
            Which::Own => "filter_plain",
            Which::Channels => "filter_channels",
        };
        self.load(name)
    }

    /// What takes the frames away from the Linux stack.
    pub fn guard(&self, which: Which) -> io::Result<Program> {
        let name = match which {
            Which::All => "guard",
            Which::Own => "guard_plain",
            Which::Channels => "guard_channels",
        };
        self.load(name)
    }

    /// The same at an interface, until what is given back goes.
    pub fn guard_at(&self, interface: u32, which: Which) -> io::Result<Link> {
        own::attach_at(&self.guard(which)?, interface, Place::Ingress)
    }

    pub(super) fn load(&self, name: &str) -> io::Result<Program> {
        own::load(name, |map| match map {
            "shapes_map" => Ok(self.shapes.as_fd()),
            "flows_map" => Ok(self.flows.as_fd()),
            _ => Err(io::Error::other(format!("no map {map}"))),
        })
    }
}

/// Where a field stands in a pattern. What is inside of Ethernet or of IP stands in one place, since no rule asks for both.
const fn place(field: Field) -> Range<usize> {
    match field {
        Field::Type | Field::Protocol => pattern::KIND.range(),
        Field::Source => pattern::SOURCE.range(),
        Field::Destination => pattern::DESTINATION.range(),
        Field::SourcePort => pattern::SOURCE_PORT.range(),
        Field::DestinationPort => pattern::DESTINATION_PORT.range(),
    }
}

/// Mask and value of a rule's fields, and of this port.
pub(super) fn pattern(rule: &Rule, port: Option<PortId>) -> (Pattern, Pattern) {
    let (mut mask, mut value) = ([0; pattern::SIZE], [0; pattern::SIZE]);
    let mut shape = 0u32;
    for (field, asked) in Field::ALL.map(|field| (field, rule.asks(field))).iter().filter(|(_, asked)| asked.is_any()) {
        mask[place(*field)].copy_from_slice(&asked.mask[..field.bytes()]);
        value[place(*field)].copy_from_slice(&asked.value[..field.bytes()]);
        shape |= which(*field, asked.bits());
    }
    let layer = match rule.layer {
        Layer::Link => ON_LINK,
        Layer::Ip => ON_IP,
        _ => ON_TRANSPORT,
    };
    pattern::LAYER.put(&mut mask, (layer as u16).to_ne_bytes());
    pattern::LAYER.put(&mut value, (layer as u16).to_ne_bytes());
    if let Some(port) = port {
        pattern::PORT.put(&mut mask, u32::MAX.to_ne_bytes());
        pattern::PORT.put(&mut value, u32::from(port.0).to_ne_bytes());
        shape |= 1 << 19;
    }
    pattern::SHAPE.put(&mut mask, shape.to_ne_bytes());
    pattern::SHAPE.put(&mut value, shape.to_ne_bytes());
    (mask, value)
}

/// What a field's mask of so many bits adds to the number of a shape: a byte for each address, and a bit for each number.
fn which(field: Field, bits: u8) -> u32 {
    match field {
        Field::Source => u32::from(bits),
        Field::Destination => u32::from(bits) << 8,
        Field::Type | Field::Protocol => 1 << 16,
        Field::SourcePort => 1 << 17,
        Field::DestinationPort => 1 << 18,
    }
}

/// There is no room for another shape.
pub(super) fn full(_: NoPlace) -> io::Error {
    io::Error::other("more shapes or keys of filters than the kernel's map holds")
}

/// A `struct owners`: keys, each with the number of whoever has its packets.
pub(super) fn value(keys: &[(DemuxKey, u32)]) -> [u8; owners::SIZE] {
    let mut value = [0; owners::SIZE];
    owners::COUNT.put(&mut value, (keys.len() as u32).to_ne_bytes());
    let places = value[owners::KEYS.range()].as_chunks_mut::<{ contract::key::SIZE }>().0;
    for (place, (key, owner)) in places.iter_mut().zip(keys) {
        contract::key::COUNT.put(place, (key.len() as u32).to_ne_bytes());
        contract::key::CUT.put(place, owner.to_ne_bytes());
        let places = place[contract::key::TUPLES.range()].as_chunks_mut::<{ contract::tuple::SIZE }>().0;
        for (place, tuple) in places.iter_mut().zip(key) {
            // As they stand in the packet: the first byte first.
            let bytes = |number: u64| {
                let mut bytes = [0; 8];
                let length = usize::from(tuple.length);
                bytes[..length].copy_from_slice(&number.to_be_bytes()[8 - length..]);
                bytes
            };
            contract::tuple::VALUE.put(place, bytes(tuple.value));
            contract::tuple::MASK.put(place, bytes(tuple.mask));
            contract::tuple::OFFSET.put(place, u32::from(tuple.offset).to_ne_bytes());
            contract::tuple::LENGTH.put(place, u32::from(tuple.length).to_ne_bytes());
        }
    }
    value
}
