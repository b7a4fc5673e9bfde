//! The ways of headers that rules name, as a tree, and what a packet is on them. Example: ethernet, ip, udp; ethernet, ip, tcp.
//!
//! A packet is read along the tree, no further than some rule looks. Each way has what tells its flows apart: the bytes that rules on it
//! look at, and the fields that are said to. If these are few, flows of the way can be known.

use super::pattern::{DEPTH_MAX, Spot};
use super::protocol::{Protocol, ProtocolId};
use super::protocols::Protocols;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Words of a flow's key.
pub(super) const KEY_WORDS: usize = 5;
/// No way.
const NONE: u32 = u32::MAX;
/// The way of every packet.
pub(super) const ROOT: u32 = 0;

/// Eight bytes of a header, and which bits of them matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    header: u8,
    byte: u32,
    mask: u64,
}

/// What tells flows apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Layout {
    loads: Vec<Load>,
    /// Bytes behind headers, which a packet may lack: of these headers up to there.
    reach: Vec<(u8, u32)>,
}

#[derive(Debug)]
pub(super) struct Way {
    parent: u32,
    depth: u8,
    pub(super) protocol: ProtocolId,
    header: Arc<Protocol>,
    children: Vec<(u64, u32)>,
    /// Patterns on it.
    uses: u32,
    /// Whether a rule asks if a packet ends here.
    asks_end: u32,
    spots: Vec<(Spot, u32)>,
    /// The groups of rules that are open, and of those that end here.
    pub(super) own: [Option<u32>; 2],
    /// What is looked through for packets that are here at last: if more is behind, and if they end.
    pub(super) groups: [Vec<u32>; 2],
    /// None: too much tells its flows apart.
    layout: Option<Layout>,
    /// Another one whenever the layout is another.
    stamp: u32,
}

/// The tree.
#[derive(Debug)]
pub(super) struct Ways {
    ways: Vec<Way>,
    free: Vec<u32>,
    stamp: u32,
}

/// What was read of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) way: u32,
    pub(super) depth: u8,
    /// Whether nothing taught is behind the last header; always no where nobody asks.
    pub(super) ended: bool,
    starts: [u32; DEPTH_MAX],
    ends: [u32; DEPTH_MAX],
}

/// A flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowKey {
    pub(super) words: [u64; KEY_WORDS],
    /// Its way, and whether it ends; never 0.
    pub(super) tag: u32,
}

impl Reading {
    /// The bits of a spot, if the packet has them.
    #[inline]
    pub(super) fn value(&self, spot: &Spot, bytes: &[u8]) -> Option<u32> {
        let header = usize::from(spot.header) % DEPTH_MAX;
        let start = self.starts[header] as usize;
        if !spot.inside && start + spot.bits.end() > self.ends[header] as usize {
            return None;
        }
        spot.bits.read(bytes, start).map(|value| value as u32)
    }
}

impl Ways {
    pub(super) fn new(root: ProtocolId, header: Arc<Protocol>) -> Ways {
        let mut ways = Ways { ways: Vec::new(), free: Vec::new(), stamp: 0 };
        ways.put(Way::new(NONE, 0, root, header));
        ways.renew(ROOT);
        ways
    }

    pub(super) fn one(&self, at: u32) -> &Way {
        &self.ways[at as usize]
    }

    pub(super) fn one_mut(&mut self, at: u32) -> &mut Way {
        &mut self.ways[at as usize]
    }

    fn put(&mut self, way: Way) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.ways[at as usize] = way;
                at
            }
            None => {
                self.ways.push(way);
                (self.ways.len() - 1) as u32
            }
        }
    }

    /// The headers of a packet along the tree: whether it at least begins as all do.
    #[inline]
    pub(super) fn read(&self, protocols: &Protocols, bytes: &[u8], reading: &mut Reading) -> bool {
        let first = self.ways.first().and_then(|way| way.header.read(bytes, 0, bytes.len()).ok());
        let Some(mut inner) = first else { return false };
        let mut start = 0;
        loop {
            let place = usize::from(reading.depth) % DEPTH_MAX;
            (reading.starts[place], reading.ends[place]) = (start as u32, inner.end as u32);
            reading.depth += 1;
            let way = &self.ways[reading.way as usize];
            let Some(next) = inner.next else {
                reading.ended = way.asks_end > 0;
                return true;
            };
            let Some(child) = way.child(next) else {
                reading.ended = way.asks_end > 0 && protocols.inside(way.protocol, next).is_none();
                return true;
            };
            let Ok(more) = self.ways[child as usize].header.read(bytes, inner.start, inner.end) else {
                return true;
            };
            (start, inner, reading.way) = (inner.start, more, child);
        }
    }

    /// Whether a packet is on a way, and ends there if that is asked.
    pub(super) fn is_on(&self, reading: &Reading, way: u32, ends: bool) -> bool {
        let depth = self.one(way).depth;
        let mut at = reading.way;
        while self.one(at).depth > depth {
            at = self.one(at).parent;
        }
        at == way && (!ends || reading.way == way && reading.ended)
    }

    /// What tells the packet's flow from others of its way: whether it is little enough.
    #[inline]
    pub(super) fn key(&self, reading: &Reading, bytes: &[u8], key: &mut FlowKey) -> bool {
        let way = &self.ways[reading.way as usize];
        let Some(layout) = &way.layout else { return false };
        let place = |header: u8| usize::from(header) % DEPTH_MAX;
        if layout
            .reach
            .iter()
            .any(|(header, end)| reading.starts[place(*header)].saturating_add(*end) > reading.ends[place(*header)])
        {
            return false;
        }
        key.tag = way.stamp << 1 | u32::from(reading.ended);
        for (word, load) in key.words.iter_mut().zip(&layout.loads) {
            let at = reading.starts[place(load.header)] as usize + load.byte as usize;
            *word = word_at(bytes, at) & load.mask;
        }
        true
    }

    /// The way of these protocols, which is made if it is not there.
    pub(super) fn enter(&mut self, protocols: &Protocols, way: &[ProtocolId]) -> Option<u32> {
        let mut at = ROOT;
        for inner in way.iter().skip(1) {
            let child = |&(_, child): &(u64, u32)| (self.one(child).protocol == *inner).then_some(child);
            if let Some(child) = self.one(at).children.iter().find_map(child) {
                at = child;
                continue;
            }
            let header = protocols.one(*inner)?.clone();
            let outer = &self.one(at).header.name;
            let values: Vec<_> =
                header.follows.iter().filter(|(below, _)| below == outer).map(|(_, value)| *value).collect();
            let child = self.put(Way::new(at, self.one(at).depth + 1, *inner, header));
            self.one_mut(at).children.extend(values.into_iter().map(|value| (value, child)));
            self.one_mut(at).children.sort_unstable();
            self.renew(child);
            at = child;
        }
        Some(at)
    }

    /// One pattern more that is here.
    pub(super) fn hold(&mut self, at: u32, ends: bool, spots: &[Spot]) {
        let way = self.one_mut(at);
        way.uses += 1;
        way.asks_end += u32::from(ends);
        let mut is_new = false;
        for spot in spots {
            match way.spots.iter_mut().find(|(known, _)| known == spot) {
                Some((_, uses)) => *uses += 1,
                None => {
                    is_new = true;
                    way.spots.push((*spot, 1));
                }
            }
        }
        if is_new {
            self.renew(at);
        }
    }

    /// One less; ways that nobody needs are gone.
    pub(super) fn release(&mut self, at: u32, ends: bool, spots: &[Spot]) {
        let way = self.one_mut(at);
        way.uses -= 1;
        way.asks_end -= u32::from(ends);
        for (spot, uses) in &mut way.spots {
            *uses -= u32::from(spots.contains(spot));
        }
        // What nobody looks at is not known any more, so that it is new when it comes back. The layout may have it for a while.
        way.spots.retain(|(_, uses)| *uses > 0);
        let mut at = at;
        while at != ROOT && self.one(at).uses == 0 && self.one(at).children.is_empty() {
            let parent = self.one(at).parent;
            self.one_mut(parent).children.retain(|(_, child)| *child != at);
            self.free.push(at);
            at = parent;
        }
    }

    /// Writes down again what the way and those behind it look through, and what tells their flows apart.
    pub(super) fn renew(&mut self, at: u32) {
        let mut waiting = vec![at];
        while let Some(at) = waiting.pop() {
            let layout = self.layout_of(at);
            let groups = self.groups_of(at);
            let stamp = self.stamp + 1;
            let way = self.one_mut(at);
            way.groups = groups;
            if way.layout != layout || way.stamp == 0 {
                (way.layout, way.stamp) = (layout, stamp);
                self.stamp = stamp;
            }
            waiting.extend(self.one(at).children.iter().map(|(_, child)| *child));
            waiting.dedup();
        }
    }

    /// Whether there were so many layouts that stamps are not sure to be new; then flows must be forgotten.
    pub(super) fn is_worn(&self) -> bool {
        self.stamp > u32::MAX / 4
    }

    /// Stamps begin again.
    pub(super) fn restamp(&mut self) {
        self.stamp = self.ways.len() as u32;
        for (at, way) in self.ways.iter_mut().enumerate() {
            way.stamp = at as u32 + 1;
        }
    }

    fn up(&self, at: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(Some(at), |at| Some(self.one(*at).parent).filter(|parent| *parent != NONE))
    }

    fn groups_of(&self, at: u32) -> [Vec<u32>; 2] {
        let mut open: Vec<_> = self.up(at).filter_map(|at| self.one(at).own[0]).collect();
        open.reverse();
        let ended = open.iter().copied().chain(self.one(at).own[1]).collect();
        [open, ended]
    }

    fn layout_of(&self, at: u32) -> Option<Layout> {
        let mut bytes: BTreeMap<(u8, u32), u8> = BTreeMap::new();
        let mut layout = Layout::default();
        let mut add = |header: u8, byte: u32, bit: u8, count: u8| {
            for bit in u32::from(bit)..u32::from(bit) + u32::from(count) {
                *bytes.entry((header, byte + bit / 8)).or_default() |= 0x80 >> (bit % 8);
            }
        };
        for at in self.up(at) {
            let way = self.one(at);
            for (spot, _) in &way.spots {
                add(spot.header, spot.bits.byte, spot.bits.bit, spot.bits.count);
                if !spot.inside {
                    layout.reach.push((spot.header, spot.bits.end() as u32));
                }
            }
            for field in way.header.fields.iter().filter(|field| field.flow) {
                add(way.depth, field.bits.byte, field.bits.bit, field.bits.count);
            }
        }
        layout.reach.sort_unstable();
        layout.reach.dedup();
        while let Some((&(header, byte), _)) = bytes.first_key_value() {
            let mut mask = [0; 8];
            for (byte, mask) in (byte..).zip(&mut mask) {
                *mask = bytes.remove(&(header, byte)).unwrap_or(0);
            }
            layout.loads.push(Load { header, byte, mask: u64::from_be_bytes(mask) });
        }
        (layout.loads.len() <= KEY_WORDS).then_some(layout)
    }
}

impl Way {
    /// The way on which the header behind is of this value.
    #[inline(always)]
    fn child(&self, value: u64) -> Option<u32> {
        const FEW: usize = 8;
        let known = match self.children.len() > FEW {
            true => self.children.get(self.children.partition_point(|(known, _)| *known < value)),
            false => self.children.iter().find(|(known, _)| *known == value),
        };
        known.filter(|(known, _)| *known == value).map(|(_, child)| *child)
    }

    fn new(parent: u32, depth: u8, protocol: ProtocolId, header: Arc<Protocol>) -> Way {
        Way {
            parent,
            depth,
            protocol,
            header,
            children: Vec::new(),
            uses: 0,
            asks_end: 0,
            spots: Vec::new(),
            own: [None; 2],
            groups: [Vec::new(), Vec::new()],
            layout: None,
            stamp: 0,
        }
    }
}

/// Eight bytes, with zeros behind the last.
#[inline(always)]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.first_chunk::<8>() {
        Some(word) => u64::from_be_bytes(*word),
        None => {
            let mut word = [0; 8];
            word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(word)
        }
    }
}
