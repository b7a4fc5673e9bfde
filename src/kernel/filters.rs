//! Which frames of an interface are the node's: the maps of `bpf/take.h`, and the two programs that read them.

use super::own;
use crate::broker::Place;
use crate::nodeos::channel::spec::{Filter, Layer};
use crate::nodeos::interface::DemuxKey;
use crate::sys::bpf::{Link, Map, MapKind, MapShape, Program};
use crate::wire::{Addr, Prefix};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

pub(super) static GUARD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/guard.bpf.o"));
pub(super) static FILTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter.bpf.o"));

/// Shapes of filters, and filters that differ only in their keys: as many as `nodeos/channel/demux.rs` has.
const SHAPES: usize = crate::nodeos::channel::demux::SHAPES_MAX;
const KEYS: usize = crate::nodeos::channel::demux::KEYS_MAX;
const TUPLES: usize = crate::nodeos::channel::spec::TUPLES_MAX;
/// Octets of the C structures.
const FLOW: usize = 40;
const KEY: usize = 8 + TUPLES * 24;
const VALUE: usize = 8 + KEYS * KEY;
/// Flows of one interface.
const FLOWS: u32 = 65_536;

/// The maps: shapes, flows.
pub(super) const LAYOUT: [(&str, MapShape); 2] = [
    ("anode_shapes", MapShape { kind: MapKind::Array, key: 4, value: 8 + SHAPES * FLOW, entries: 1 }),
    ("anode_flows", MapShape { kind: MapKind::Hash, key: FLOW, value: VALUE, entries: FLOWS }),
];

/// A `struct flow`.
type Flow = [u8; FLOW];

/// Which frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All that are the node's; the socket's also address resolution.
    All,
    /// Those of channels alone: an XDP program takes the others.
    Channels,
}

/// The rules of one interface.
#[derive(Debug)]
pub struct Filters {
    shapes: Map,
    flows: Map,
    /// Masks, and how many flows have each.
    masks: Vec<(Flow, u32)>,
    known: BTreeMap<Flow, Vec<DemuxKey>>,
    /// Whether frames are taken at all.
    listens: bool,
}

impl Filters {
    /// The rules of a node without channels.
    pub fn create() -> io::Result<Filters> {
        let [shapes, flows] = LAYOUT.map(|(name, shape)| own::map(name, shape));
        let filters =
            Filters { shapes: shapes?, flows: flows?, masks: Vec::new(), known: BTreeMap::new(), listens: true };
        filters.tell_shapes()?;
        Ok(filters)
    }

    /// Has socket and guard take frames, or leave all to the Linux stack: both at the same moment.
    pub fn listen(&mut self, listens: bool) -> io::Result<()> {
        self.listens = listens;
        self.tell_shapes()
    }

    /// Takes what a filter says, or does not any more. All others are taken throughout.
    pub fn change(&mut self, filter: &Filter, exists: bool) -> io::Result<()> {
        if filter.layer == Layer::Anep {
            return Ok(());
        }
        let (mask, flow) = fields(filter);
        let mut keys = self.known.remove(&flow).unwrap_or_default();
        let count = keys.len();
        keys.retain(|key| *key != filter.key);
        if exists {
            // Longer keys before shorter ones, as in the node's own table.
            let at = keys.partition_point(|key| key.len() >= filter.key.len());
            keys.insert(at, filter.key.clone());
        }
        match (count, keys.len()) {
            (0, 0) => return Ok(()),
            (_, 0) => {
                self.flows.remove(&flow)?;
                self.drop_shape(&mask)?;
            }
            (before, _) => {
                self.flows.set(&flow, &value(keys.iter().map(|key| (key, 0))))?;
                self.known.insert(flow, keys);
                if before == 0 {
                    self.add_shape(mask)?;
                }
            }
        }
        Ok(())
    }

    fn add_shape(&mut self, mask: Flow) -> io::Result<()> {
        if let Some((_, flows)) = self.masks.iter_mut().find(|(known, _)| *known == mask) {
            *flows += 1;
            return Ok(());
        }
        if self.masks.len() >= SHAPES {
            return Err(io::Error::other("more shapes of filters than the kernel's map holds"));
        }
        self.masks.push((mask, 1));
        self.tell_shapes()
    }

    fn drop_shape(&mut self, mask: &Flow) -> io::Result<()> {
        let Some(at) = self.masks.iter().position(|(known, _)| known == mask) else { return Ok(()) };
        self.masks[at].1 -= 1;
        if self.masks[at].1 == 0 {
            self.masks.remove(at);
            self.tell_shapes()?;
        }
        Ok(())
    }

    fn tell_shapes(&self) -> io::Result<()> {
        let mut all = vec![0; 8 + SHAPES * FLOW];
        let count = if self.listens { self.masks.len() as u32 } else { 0 };
        all[..4].copy_from_slice(&count.to_ne_bytes());
        all[4..8].copy_from_slice(&u32::from(self.listens).to_ne_bytes());
        for (place, (mask, _)) in all[8..].chunks_exact_mut(FLOW).zip(&self.masks) {
            place.copy_from_slice(mask);
        }
        self.shapes.set(&0u32.to_ne_bytes(), &all)
    }

    /// Whether no frames are taken beside those that are taken throughout.
    pub fn is_empty(&self) -> bool {
        self.masks.is_empty()
    }

    /// The filter of an AF_PACKET socket.
    pub fn filter(&self, which: Which) -> io::Result<Program> {
        let name = match which {
            Which::All => "filter",
            Which::Channels => "filter_channels",
        };
        self.load(name)
    }

    /// Takes the frames away from the Linux stack of an interface, until what is given back goes.
    pub fn guard(&self, interface: u32, which: Which) -> io::Result<Link> {
        let name = match which {
            Which::All => "guard",
            Which::Channels => "guard_channels",
        };
        own::attach_at(&self.load(name)?, interface, Place::Ingress)
    }

    fn load(&self, name: &str) -> io::Result<Program> {
        own::load(name, |map| match map {
            "shapes_map" => Ok(self.shapes.as_fd()),
            "flows_map" => Ok(self.flows.as_fd()),
            _ => Err(io::Error::other(format!("no map {map}"))),
        })
    }
}

/// Mask and value of a filter's fields.
fn fields(filter: &Filter) -> (Flow, Flow) {
    let (mut mask, mut flow) = ([0; FLOW], [0; FLOW]);
    let mut put = |at: usize, value: Option<u16>| {
        mask[at..at + 2].copy_from_slice(&value.map_or(0, |_| u16::MAX).to_be_bytes());
        flow[at..at + 2].copy_from_slice(&value.unwrap_or(0).to_be_bytes());
    };
    put(32, filter.source_port);
    put(34, filter.destination_port);
    let transport = match filter.layer {
        Layer::Udp => Some(u16::from(crate::classify::layers::UDP)),
        Layer::Tcp => Some(u16::from(crate::classify::layers::TCP)),
        _ => filter.kind,
    };
    put(36, transport);
    let layer = match filter.layer {
        Layer::Link => 0u16,
        Layer::Ip => 1,
        _ => 2,
    };
    for place in [&mut mask, &mut flow] {
        place[38..].copy_from_slice(&layer.to_ne_bytes());
    }
    for (at, Prefix { addr, length }) in [(0, filter.source), (16, filter.destination)] {
        let all = Prefix::new(Addr([0xff; 16]), length).addr.0;
        mask[at..at + 16].copy_from_slice(&all);
        flow[at..at + 16].copy_from_slice(&Prefix::new(addr, length).addr.0);
    }
    (mask, flow)
}

/// Mask and value of a filter's fields with the port: `struct pattern` of `bpf/channel.h`.
pub(super) fn pattern(filter: &Filter) -> ([u8; FLOW + 8], [u8; FLOW + 8]) {
    let (fields, port) = (fields(filter), filter.port.map_or(0, |port| u32::from(port.0)));
    let with = |fields: Flow, port: u32| {
        let mut whole = [0; FLOW + 8];
        whole[..FLOW].copy_from_slice(&fields);
        whole[FLOW..FLOW + 4].copy_from_slice(&port.to_ne_bytes());
        whole
    };
    (with(fields.0, filter.port.map_or(0, |_| u32::MAX)), with(fields.1, port))
}

/// A `struct keys`, or `struct owners` of `bpf/channel.h`: keys, each with the number of whoever has its packets.
pub(super) fn value<'a>(keys: impl ExactSizeIterator<Item = (&'a DemuxKey, u32)>) -> Vec<u8> {
    let mut value = vec![0; VALUE];
    value[..4].copy_from_slice(&(keys.len() as u32).to_ne_bytes());
    for (place, (key, owner)) in value[8..].chunks_exact_mut(KEY).zip(keys) {
        place[..4].copy_from_slice(&(key.len() as u32).to_ne_bytes());
        place[4..8].copy_from_slice(&owner.to_ne_bytes());
        for (place, tuple) in place[8..].chunks_exact_mut(24).zip(key) {
            // As they stand in the packet: the first octet first.
            let octets = |number: u64| {
                let mut octets = [0; 8];
                let length = usize::from(tuple.length);
                octets[..length].copy_from_slice(&number.to_be_bytes()[8 - length..]);
                octets
            };
            place[..8].copy_from_slice(&octets(tuple.value));
            place[8..16].copy_from_slice(&octets(tuple.mask));
            place[16..20].copy_from_slice(&u32::from(tuple.offset).to_ne_bytes());
            place[20..].copy_from_slice(&u32::from(tuple.length).to_ne_bytes());
        }
    }
    value
}
