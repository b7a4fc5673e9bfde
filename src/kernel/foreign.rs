//! The table of an interface's foreign flows, of which no rule over taught protocols can hold: packets of these are not copied to the
//! node (`bpf/foreign.h`). Example: 8192 flows, and the next one takes the place of the one that has been there longest.
//!
//! Whoever changes it is one thread, which carries out changes of channels too, in their order ([`crate::classify::foreign`] says
//! which flows). A new rule takes those flows out that it watches, before it is in force; others stay. When all rules were read again,
//! one write makes all entries worthless. A flow in use that had to give way comes up once more, and is written down again.

use super::told::HeldShapes;
use crate::classify::foreign::ForeignFlow;
use crate::classify::rule::Rule;
use crate::contract::{FOREIGN_FLOWS, foreign, foreign_count, foreign_flow};
use crate::sys::bpf::{Map, MapKind, MapShape};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maps: flows, the generation that is believed, and what was spared.
pub(super) const LAYOUT: [(&str, MapShape); 3] = [
    (
        "anode_foreign",
        MapShape { kind: MapKind::Hash, key: foreign_flow::SIZE, value: foreign::SIZE, entries: FOREIGN_FLOWS },
    ),
    ("anode_foreign_n", MapShape { kind: MapKind::Array, key: 4, value: foreign::SIZE, entries: 1 }),
    ("anode_foreign_c", MapShape { kind: MapKind::PerCpuArray, key: 4, value: foreign_count::SIZE, entries: 1 }),
];

/// The only entry of an array.
const ONLY: [u8; 4] = [0; 4];

/// The foreign flows of an interface.
#[derive(Debug)]
pub struct ForeignFlows {
    flows: Map,
    now: Map,
    count: Map,
    there: Mutex<There>,
    learned: AtomicU64,
    evicted: AtomicU64,
    refused: AtomicU64,
    /// Shapes and masks of the table by which packets are chosen.
    held: [AtomicUsize; 2],
}

/// What is in the map.
#[derive(Debug, Default)]
struct There {
    generation: u64,
    /// With the generation of which each was written down: only the last one is believed.
    flows: HashMap<ForeignFlow, u64>,
    /// The same, the one that has been there longest first.
    order: VecDeque<ForeignFlow>,
}

/// What was done about foreign flows so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForeignCounts {
    /// Flows that are known now.
    pub flows: u64,
    /// That were written down.
    pub learned: u64,
    /// That gave way to others, or to a rule.
    pub evicted: u64,
    /// That were not written down, since too many wait or a channel may have them.
    pub refused: u64,
    /// Packets that were not copied to the node.
    pub spared: u64,
}

fn key(flow: &ForeignFlow) -> [u8; foreign_flow::SIZE] {
    let mut key = [0; foreign_flow::SIZE];
    foreign_flow::SOURCE.put(&mut key, flow.source.0);
    foreign_flow::DESTINATION.put(&mut key, flow.destination.0);
    foreign_flow::SOURCE_PORT.put(&mut key, flow.ports[0].to_be_bytes());
    foreign_flow::DESTINATION_PORT.put(&mut key, flow.ports[1].to_be_bytes());
    foreign_flow::TYPE.put(&mut key, flow.ethertype().to_be_bytes());
    foreign_flow::PROTOCOL.put(&mut key, [flow.protocol]);
    key
}

impl ForeignFlows {
    /// None yet; the maps are those of [`LAYOUT`].
    pub(super) fn of([flows, now, count]: [Map; 3]) -> ForeignFlows {
        let (learned, evicted, refused, held) = Default::default();
        ForeignFlows { flows, now, count, there: Mutex::default(), learned, evicted, refused, held }
    }

    /// Packets are chosen by a table that holds this.
    pub(super) fn hold(&self, HeldShapes { shapes, masks }: HeldShapes) {
        self.held[0].store(shapes, Relaxed);
        self.held[1].store(masks, Relaxed);
    }

    /// What that table holds.
    pub fn held(&self) -> HeldShapes {
        let [shapes, masks] = self.held.each_ref().map(|one| one.load(Relaxed));
        HeldShapes { shapes, masks }
    }

    /// The map of this name in programs.
    pub(super) fn descriptor(&self, name: &str) -> io::Result<BorrowedFd<'_>> {
        match name {
            "foreign_map" => Ok(self.flows.as_fd()),
            "foreign_now_map" => Ok(self.now.as_fd()),
            "foreign_count_map" => Ok(self.count.as_fd()),
            _ => Err(io::Error::other(format!("no map {name}"))),
        }
    }

    fn there(&self) -> MutexGuard<'_, There> {
        // What it holds is right between any two statements.
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A flow is foreign.
    pub fn learn(&self, flow: &ForeignFlow) -> io::Result<()> {
        let mut there = self.there();
        // Several packets of a flow may have come up before this.
        let before = there.flows.get(flow).copied();
        if before == Some(there.generation) {
            return Ok(());
        }
        if before.is_none() && there.order.len() >= FOREIGN_FLOWS as usize {
            let oldest = there.order.front().copied();
            oldest.into_iter().try_for_each(|oldest| self.take_out(&mut there, &oldest))?;
            there.order.pop_front();
        }
        if there.generation == 0 {
            self.renew(&mut there)?;
        }
        self.flows.set(&key(flow), &there.generation.to_ne_bytes())?;
        let generation = there.generation;
        if there.flows.insert(*flow, generation).is_none() {
            there.order.push_back(*flow);
        }
        self.learned.fetch_add(1, Relaxed);
        Ok(())
    }

    fn take_out(&self, there: &mut There, flow: &ForeignFlow) -> io::Result<()> {
        self.flows.remove(&key(flow))?;
        there.flows.remove(flow);
        self.evicted.fetch_add(1, Relaxed);
        Ok(())
    }

    /// What was written down so far is not to be believed.
    fn renew(&self, there: &mut There) -> io::Result<()> {
        there.generation += 1;
        self.now.set(&ONLY, &there.generation.to_ne_bytes())
    }

    /// Packets of this rule are watched for from now on: they come up, and it is found out anew whose they are.
    pub fn watch(&self, rule: &Rule) -> io::Result<()> {
        self.take_out_all(|flow| flow.may_be_of(rule))
    }

    /// Rules may say anything from now on.
    pub fn forget(&self) -> io::Result<()> {
        let mut there = self.there();
        if there.flows.is_empty() {
            return Ok(());
        }
        self.renew(&mut there)?;
        drop(there);
        self.take_out_all(|_| true)
    }

    fn take_out_all(&self, goes: impl Fn(&ForeignFlow) -> bool) -> io::Result<()> {
        let mut there = self.there();
        let going: Vec<ForeignFlow> = there.order.iter().filter(|flow| goes(flow)).copied().collect();
        if going.is_empty() {
            return Ok(());
        }
        let taken = going.iter().try_for_each(|flow| self.take_out(&mut there, flow));
        let There { flows, order, .. } = &mut *there;
        order.retain(|flow| flows.contains_key(flow));
        // One that could not be taken out must not be believed, nor those behind it.
        taken.or_else(|why| self.renew(&mut there).and(Err(why)))
    }

    /// A flow was not written down, since too many wait for that.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// What was done so far.
    pub fn counts(&self) -> ForeignCounts {
        let mut each = vec![0; self.count.value_size()];
        // A map that is there can be read.
        let _ = self.count.get(&ONLY, &mut each);
        let spared = each.as_chunks::<{ foreign_count::SIZE }>().0.iter().map(|one| u64::from_ne_bytes(*one)).sum();
        let there = self.there();
        ForeignCounts {
            flows: there.flows.values().filter(|of| **of == there.generation).count() as u64,
            learned: self.learned.load(Relaxed),
            evicted: self.evicted.load(Relaxed),
            refused: self.refused.load(Relaxed),
            spared,
        }
    }
}

#[cfg(test)]
mod tests;
