//! Engines that are linked: the form of a graph that has any.
//!
//! ```text
//! INWARD    network ─▶ engine 0 ─▶ engine 1 ─▶ exit: the domain, or a cut-through channel
//! OUTWARD   exit: a port ◀─ engine 0 ◀─ engine 1 ◀─ domain
//! ```
//!
//! A table of engines with, for each, where its outputs lead. Packets between two engines wait in one queue, so calls
//! do not nest however long a graph is. Graphs are chains today, one a channel, and each packet comes to an end since
//! its links lead one way.

use super::class::EngineClass;
use super::engine::{Engine, GraphCx, INWARD, OUTWARD, Origin, Pushed, WAYS};
use super::engines;
use super::scratch::{Hop, Scratch};
use crate::frame::{Frame, FramePool};
use crate::nodeos::interface::Error;

/// Engines of one graph.
pub const ENGINES_MAX: usize = 4;

/// An engine in its graph.
struct Placed {
    class: &'static EngineClass,
    engine: Box<dyn Engine>,
    next: [Hop; WAYS],
}

/// Engines, and where they lead.
#[derive(Default)]
pub struct Graph {
    engines: Vec<Placed>,
}

impl core::fmt::Debug for Graph {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names: Vec<_> = self.engines.iter().map(|placed| placed.class.name).collect();
        write!(f, "[{}]", names.join(", "))
    }
}

impl Graph {
    /// A chain of the engines that these words name, the one nearest to the network first.
    pub fn chain(words: &[&str]) -> Result<Graph, Error> {
        if words.len() > ENGINES_MAX {
            return Err(Error::Invalid);
        }
        let count = words.len() as u8;
        let placed = |(at, word): (u8, &&str)| {
            let (class, engine) = engines::make(word)?;
            let outward = at.checked_sub(1).map_or(Hop::Exit, |before| Hop::Engine(before, OUTWARD));
            let inward = if at + 1 < count { Hop::Engine(at + 1, INWARD) } else { Hop::Exit };
            Ok(Placed { class, engine, next: [outward, inward] })
        };
        let engines = (0..count).zip(words).map(placed).collect::<Result<_, Error>>()?;
        Ok(Graph { engines })
    }

    /// Bytes of memory that its engines take at most, for packets of this way.
    pub fn bytes(&self, way: u8) -> u64 {
        self.engines.iter().filter_map(|placed| placed.class.bytes.get(usize::from(way))).sum()
    }

    /// Whether packets come out of it as they went in.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.engines.is_empty()
    }

    /// Packets of which its engines keep pieces.
    pub fn held(&self) -> u64 {
        self.engines.iter().map(|placed| placed.engine.held()).sum()
    }

    /// Where packets that go this way come in.
    fn entry(&self, way: u8) -> Hop {
        let last = self.engines.len().saturating_sub(1);
        if self.is_empty() { Hop::Exit } else { Hop::Engine(if way == OUTWARD { last as u8 } else { 0 }, way) }
    }

    /// Takes a packet through, this way. What comes of it is in `scratch` then. Says how many packets there were
    /// before, in the graph too, and how many there are then.
    pub fn push(
        &mut self,
        way: u8,
        frame: Frame,
        (now, from): (u64, Origin),
        pool: &mut FramePool,
        scratch: &mut Scratch,
    ) -> (u64, u64) {
        let taken = 1 + self.held();
        scratch.go(self.entry(way), frame);
        while let Some((at, input, frame)) = scratch.between.pop_front() {
            let Some(placed) = self.engines.get_mut(usize::from(at)) else {
                scratch.out.push(frame);
                continue;
            };
            let mut cx = GraphCx { now, from, pool, next: placed.next, scratch };
            match placed.engine.push(input, frame, &mut cx) {
                Pushed::To(output, frame) => cx.emit(output, frame),
                Pushed::Kept => {}
                Pushed::Dropped(frame, reason) => scratch.dropped.push((frame, reason)),
            }
        }
        let lost: u64 = scratch.lost.iter().map(|(_, packets)| packets).sum();
        (taken, (scratch.out.len() + scratch.dropped.len()) as u64 + lost + self.held())
    }
}
