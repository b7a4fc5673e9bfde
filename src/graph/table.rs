//! Engines that are linked: the form of a graph that has any.
//!
//! ```text
//! INWARD    network ─▶ engine 0 ─▶ engine 1 ─▶ exit: the domain, or a cut-through channel
//! OUTWARD   exit: a port ◀─ engine 0 ◀─ engine 1 ◀─ domain
//! ```
//!
//! A table of engines with, for each, where its outputs lead and what is before its inputs. Packets between two engines wait in one list,
//! so calls that push do not nest however long a graph is. The graph of a channel is a chain, and each packet comes to an end since its
//! links lead one way; other graphs are checked for circles before they are made ([`super::load`]).

use super::class::{BroughtClass, Make, PlacedClass};
use super::edges::{EdgeKind, GraphEdges};
use super::engine::{self, GraphCx, GraphLink, INWARD, OUTWARD, Origin, Placed};
use super::engines;
use super::placement::GraphPlace;
use super::runs;
use super::scratch::{Hop, Scratch};
use crate::frame::{Frame, FramePool, Notes, Payer, PortId};
use crate::nodeos::interface::Error;
use std::sync::Arc;

/// Engines of the graph of one channel.
pub const ENGINES_MAX: usize = 4;

/// Packets that a graph takes on while it has its turn, at most, beside those that its engines hold.
const TURNS_MAX: usize = 256;

/// Engines, and where they lead.
#[derive(Default)]
pub struct Graph {
    pub(super) engines: Vec<Placed>,
    /// Those that have turns.
    pub(super) tasks: Vec<u16>,
    /// Those that learn of packets.
    pub(super) keepers: Vec<u16>,
    /// Where packets of which port come in.
    pub(super) entrances: Vec<(PortId, u16)>,
    /// What is around it.
    pub places: GraphEdges,
}

impl core::fmt::Debug for Graph {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let names: Vec<_> = self.engines.iter().map(|placed| placed.class.name()).collect();
        write!(f, "[{}]", names.join(", "))
    }
}

impl Graph {
    /// A chain of the engines that these words name, the one nearest to the network first.
    pub fn chain(words: &[&str]) -> Result<Graph, Error> {
        if words.len() > ENGINES_MAX {
            return Err(Error::Invalid);
        }
        let count = words.len() as u16;
        let placed = |(at, word): (u16, &&str)| {
            let (class, engine) = engines::make(word)?;
            let outward = at.checked_sub(1).map_or(Hop::Exit, |before| Hop::Engine(before, OUTWARD));
            let inward = if at + 1 < count { Hop::Engine(at + 1, INWARD) } else { Hop::Exit };
            let links = [outward, inward].map(|to| GraphLink { to, packets: 0 });
            let (name, engine) = (class.name.into(), Some(engine));
            let (class, links, before) = (PlacedClass::Own(class), Box::new(links), Box::default());
            Ok(Placed { class, name, engine, links, before, place: GraphPlace::User })
        };
        let engines = (0..count).zip(words).map(placed).collect::<Result<_, Error>>()?;
        Ok(Graph { engines, ..Graph::default() })
    }

    /// Bytes of memory that the engines of a channel take at most, for packets of this way.
    pub fn bytes(&self, way: u16) -> u64 {
        let of = |placed: &Placed| match placed.class.make() {
            Some(Make::Module { bytes, .. }) => bytes.get(usize::from(way)).copied().unwrap_or(0),
            Some(Make::Element { .. } | Make::Remark) | None => 0,
        };
        self.engines.iter().map(of).sum()
    }

    /// The classes of extensions that it has engines of.
    pub fn brought(&self) -> impl Iterator<Item = &Arc<BroughtClass>> {
        self.engines.iter().filter_map(|placed| placed.class.brought())
    }

    /// Whether packets come out of it as they went in.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.engines.is_empty()
    }

    /// Packets of which its engines keep pieces.
    pub fn held(&self) -> u64 {
        self.engines.iter().filter_map(|placed| placed.engine.as_ref()).map(|engine| engine.held()).sum()
    }

    /// Where packets that go this way come in.
    fn entry(&self, way: u16) -> Hop {
        let last = self.engines.len().saturating_sub(1);
        if self.is_empty() { Hop::Exit } else { Hop::Engine(if way == OUTWARD { last as u16 } else { 0 }, way) }
    }

    /// Takes a packet through, this way. What comes of it is in `scratch` then. Says how many packets there were
    /// before, in the graph too, and how many there are then.
    pub fn push(
        &mut self,
        way: u16,
        frame: Frame,
        (now, from): (u64, Origin),
        pool: &mut FramePool,
        scratch: &mut Scratch,
    ) -> (u64, u64) {
        let taken = 1 + self.held();
        scratch.go(self.entry(way), frame);
        self.settle((now, from), pool, scratch);
        let lost: u64 = scratch.lost.iter().map(|(_, packets)| packets).sum();
        (taken, (scratch.out.len() + scratch.dropped.len()) as u64 + lost + self.held())
    }

    /// Takes on all packets between engines.
    pub(super) fn settle(&mut self, (now, from): (u64, Origin), pool: &mut FramePool, scratch: &mut Scratch) {
        let mut cx = GraphCx { now, from, pool, at: 0, depth: 0, engines: &mut self.engines, scratch };
        runs::settle(&mut cx, 0);
    }

    /// Packets come in together by one port, in their order. As long as they leave each engine by the same output they go on together:
    /// all of them through one engine, then all through the next. Each of them goes the way that it would go by itself, and on each way
    /// in the same order.
    pub fn receive_all(
        &mut self,
        port: PortId,
        frames: &mut Vec<Frame>,
        now: u64,
        pool: &mut FramePool,
        scratch: &mut Scratch,
    ) {
        let mut entrances = self.entrances.iter().filter(|(known, _)| *known == port).map(|(_, engine)| *engine);
        let (Some(engine), None, false) = (entrances.next(), entrances.next(), scratch.is_watched) else {
            // To several engines, or to none: each has a copy of one packet before the next comes. And those that are followed go alone.
            for mut frame in frames.drain(..) {
                frame.port = port;
                self.receive(frame, now, pool, scratch);
            }
            return;
        };
        let is_passed = self.is_remote(port);
        scratch.run.extend(frames.drain(..).map(|mut frame| {
            (frame.port, frame.notes) = (port, begin(&frame, is_passed, now));
            Some(frame)
        }));
        let from = (scratch.run.first().and_then(|first| first.as_ref()).map_or(Payer::NOBODY, |it| it.payer), None);
        let mut cx = GraphCx { now, from, pool, at: 0, depth: 0, engines: &mut self.engines, scratch };
        runs::take_through(&mut cx, engine);
    }

    /// A packet comes in by a port: all engines through which packets of this port come have one.
    pub fn receive(&mut self, mut frame: Frame, now: u64, pool: &mut FramePool, scratch: &mut Scratch) {
        let from = (frame.payer, None);
        frame.notes = begin(&frame, self.is_remote(frame.port), now);
        let port = frame.port;
        let mut entrances = self.entrances.iter().filter(|(known, _)| *known == port).map(|(_, engine)| *engine);
        let (first, second) = (entrances.next(), entrances.next());
        match (first, second) {
            (None, _) => scratch.go(Hop::End, frame),
            (Some(engine), None) => {
                let mut cx = GraphCx { now, from, pool, at: 0, depth: 0, engines: &mut self.engines, scratch };
                runs::take_one(&mut cx, engine, frame);
            }
            (Some(engine), Some(other)) => {
                for other in core::iter::once(other).chain(entrances) {
                    let mut copy = pool.take();
                    copy.fill(frame.bytes());
                    (copy.port, copy.notes, copy.trace) = (frame.port, frame.notes, frame.trace);
                    scratch.begun += 1;
                    scratch.go(Hop::Engine(other, 0), copy);
                }
                scratch.between.reverse();
                scratch.go(Hop::Engine(engine, 0), frame);
                self.settle((now, from), pool, scratch);
            }
        }
    }

    /// Each engine that has turns has one, as long as one of them does something, and no longer than a batch takes. Whether there may
    /// be more to do at once.
    pub fn work(&mut self, now: u64, pool: &mut FramePool, scratch: &mut Scratch) -> bool {
        let from = (Payer::NOBODY, None);
        scratch.wake = u64::MAX;
        for _ in 0..TURNS_MAX {
            let mut busy = false;
            for turn in 0..self.tasks.len() {
                let at = self.tasks[turn];
                let is_source = |placed: &Placed| placed.before.is_empty();
                if scratch.no_room && self.engines.get(usize::from(at)).is_some_and(is_source) {
                    continue;
                }
                let Some(mut engine) = self.engines.get_mut(usize::from(at)).and_then(|place| place.engine.take())
                else {
                    continue;
                };
                if engine.next_run() <= now {
                    let mut cx = GraphCx { now, from, pool, at, depth: 0, engines: &mut self.engines, scratch };
                    busy |= engine.run(&mut cx);
                }
                self.engines[usize::from(at)].engine = Some(engine);
                scratch.between.reverse();
                self.settle((now, from), pool, scratch);
            }
            if !busy {
                return false;
            }
            if scratch.is_full() {
                break;
            }
        }
        true
    }

    /// Bytes that its engines have learnt of packets.
    pub fn kept(&self) -> u64 {
        let keeps = |at: &u16| self.engines.get(usize::from(*at))?.engine.as_ref()?.keeps();
        self.keepers.iter().filter_map(keeps).sum()
    }

    /// Packets that may come together, at most, so that none of its queues alone is too short for them.
    pub fn room(&self) -> u64 {
        let rooms = self.engines.iter().filter_map(|placed| Some(placed.engine.as_ref()?.room()));
        rooms.min().unwrap_or(u64::MAX)
    }

    /// When an engine wants a turn again that has nothing to do at `now`.
    pub fn next_run(&self, now: u64) -> u64 {
        let tasks = self.tasks.iter().filter_map(|at| self.engines.get(usize::from(*at))?.engine.as_ref());
        tasks.map(|engine| engine.next_run()).filter(|at| *at > now).min().unwrap_or(u64::MAX)
    }

    /// Where packets come in: ports, and engines.
    pub fn entrances(&self) -> impl Iterator<Item = (u16, u16)> {
        self.entrances.iter().map(|(port, engine)| (port.0, *engine))
    }

    /// Whether packets of this port come from another part of the graph.
    fn is_remote(&self, port: PortId) -> bool {
        self.places.all.get(usize::from(port.0)).is_some_and(|(kind, _)| *kind == EdgeKind::Remote)
    }

    /// Whether packets of this port come in somewhere.
    pub fn is_entrance(&self, port: u16) -> bool {
        self.entrances.iter().any(|(known, _)| known.0 == port)
    }

    /// The engines with their names, classes and links.
    pub fn engines(&self) -> &[Placed] {
        &self.engines
    }

    /// The number of the engine of a name.
    pub fn find(&self, name: &str) -> Option<u16> {
        engine::find(&self.engines, name)
    }

    /// What an engine says of itself.
    pub fn read(&self, engine: u16, handler: &str) -> Option<String> {
        let placed = self.engines.get(usize::from(engine))?;
        let own = placed.engine.as_ref()?.read(handler);
        own.or_else(|| match handler {
            "class" => Some(placed.class.name().to_owned()),
            "name" => Some(placed.name.to_string()),
            _ => None,
        })
    }

    /// An operator writes to an engine; nothing if it has no such handler.
    pub fn write(&mut self, engine: u16, handler: &str, value: &str) -> Option<Result<(), String>> {
        self.engines.get_mut(usize::from(engine))?.engine.as_mut()?.write(handler, value)
    }

    /// The graph ends: gives back all frames that its engines hold; how many those were.
    pub fn empty(&mut self, pool: &mut FramePool) -> u64 {
        let held = self.held();
        for placed in &mut self.engines {
            placed.engine.iter_mut().for_each(|engine| engine.empty(&mut |frame| pool.give(frame)));
        }
        held
    }
}

/// What is noted of a packet that comes in: nothing, or if it `is_passed` on by another part, what was noted there.
fn begin(frame: &Frame, is_passed: bool, now: u64) -> Notes {
    if is_passed { Notes { at: now, ..frame.notes } } else { Notes { at: now, ..Notes::default() } }
}
