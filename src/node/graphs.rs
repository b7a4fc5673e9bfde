//! Graphs of operators in a running node: the environment whose domains are graphs' ([`crate::graph::running`]).
//!
//! ```text
//! rule of a channel ─▶ the graph's domain pays ─▶ its turn ─▶ engines ─┬─▶ a port, as the frame is
//!                            timers of engines, at its expense ─▶───────┼─▶ dropped, under one reason
//!                                                                       └─▶ held by an engine, counted as held
//! ```
//!
//! What a graph takes is taken from Linux: its channels are of fixed fields, which the kernel decides by itself. They are all at the first
//! worker. A packet is worked on by the generation that runs when its turn comes, and by no other; what a generation holds that has no
//! place in the next goes its way in the old one, for a second at most.

mod editing;
mod hearing;
mod hosting;
mod offering;
mod parts;
mod passing;
mod placing;
mod shown;
mod swapping;
mod taken;
mod waiting;

use super::Cx;
use super::ending::Gone;
use super::environment::{Environment, OwnType, PacketKind};
use super::output::{EventKind, Ingress, Turn};
use super::rates::Rates;
use crate::classify::Native;
use crate::core::domain::{DomainId, EnvironmentId};
use crate::core::reason::Reason;
use crate::frame::{BUFFER, Frame, Link, Payer, PeerId};
use crate::graph::class::PACKET_FUEL;
pub use crate::graph::class::{BroughtClass, BroughtClasses};
use crate::graph::door::GraphSlot;
use crate::graph::fused::FusedPart;
pub use crate::graph::fused::WalkEnd;
pub use crate::graph::placement::GraphPlace;
pub use crate::graph::running::GRAPHS_MAX;
use crate::graph::running::GraphGeneration;
use crate::graph::scratch::Scratch;
pub use crate::graph::spec::{GraphSpec, PreparedGraph, port_of};
use crate::nodeos::interface::InChanId;
use crate::trust::Role;
use crate::wire::{Addr, anep, ethernet};
use core::mem::take;
use editing::EditRates;
pub use editing::{EditorAsk, GraphEditor, GraphRefusal, may_have_host};
pub use parts::GraphPart;
use parts::{
    Coming, Hosted, Kept, MESSAGES_AT_ONCE, MESSAGES_PER_SECOND, Offer, PASSED, PIECES_AT_ONCE, PIECES_PER_SECOND,
};
pub use placing::ProgramWalk;
pub use shown::{GraphEngine, GraphStatus, GraphTraffic, ShownGraph};
use std::collections::VecDeque;
use std::sync::Arc;
use swapping::Inlet;
pub use swapping::{Swapped, is_base};
pub use taken::check_take;
use waiting::Waiting;

/// Generations of one graph that still hold something, at most; what more hold is dropped.
const OLDER_MAX: usize = 8;

/// How long one may go on that is not the last, in nanoseconds.
const OLDER_FOR: u64 = 1_000_000_000;

/// How often the kernel's counts are looked at meanwhile, in nanoseconds: that takes a look at each of a graph's channels.
const SETTLED_EVERY: u64 = 10_000_000;

/// Lines of its engines that a graph keeps for whoever looks.
const SAID_MAX: usize = 100;

/// Fuel for marshalling what the packets of one turn have become: 64 packets pass that take all they may, and more of those that take
/// less. One copied into thousands does not keep its worker.
const MARSHAL_FUEL: u64 = 64 * PACKET_FUEL;

/// Bytes of a tag behind an Ethernet header.
const TAG: usize = 4;

/// A graph that runs.
struct Running {
    spec: GraphSpec,
    /// Its name, for stories of packets.
    name: Arc<str>,
    domain: DomainId,
    /// By what its packets come, for each thing that it takes.
    doors: Vec<(String, Inlet)>,
    now: GraphGeneration,
    /// Packets that have come in this turn, which go in together.
    came: Vec<Frame>,
    /// Those before that still hold something, the oldest first, and until when.
    older: VecDeque<(GraphGeneration, u64)>,
    scratch: Scratch,
    traffic: GraphTraffic,
    /// Bytes that its domain's memory is charged for.
    charged: u64,
    said: VecDeque<String>,
    /// How often a program has changed it.
    edited: u64,
    /// Where its program is in the kernel, or why it has none.
    slot: Option<GraphSlot>,
    why: String,
    /// Packets that came in there.
    kernel_packets: u64,
    /// Programs of this generation before one of its engines was written to, and until when they are looked at.
    parts_before: VecDeque<(FusedPart, u64)>,
    /// When these were looked at last.
    settled: u64,
    /// Of a part of a neighbour's graph.
    hosted: Option<Hosted>,
    /// Its parts at other nodes, and when they are told next to run on.
    kept: Vec<Kept>,
    next_keep: u64,
}

/// The graphs of a node.
pub(super) struct RunningGraphs {
    place: Option<EnvironmentId>,
    list: Vec<Running>,
    /// Which of them a domain has, by its index, and one more; 0: none.
    places: Vec<u16>,
    /// Parts that other nodes have been asked to run, and the number of the last offer.
    offers: Vec<Offer>,
    offered: u32,
    /// Graphs that wait for their parts.
    waiting: Vec<Waiting>,
    /// Texts of parts that are coming from neighbours, and how fast they may.
    coming: Vec<Coming>,
    pieces: Rates<Ingress>,
    /// What extensions have brought: of it what marshals packets of neighbours' parts.
    brought: BroughtClasses,
    /// How fast other messages about parts may come.
    messages: Rates<Ingress>,
    /// How often programs of each role change some.
    edits: EditRates,
}

impl RunningGraphs {
    /// None yet. The word is one that no earlier life of the node has had.
    pub(super) fn new(word: u64) -> RunningGraphs {
        let pieces = Rates::new(PIECES_PER_SECOND, PIECES_AT_ONCE);
        let (list, places, offers, coming) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        RunningGraphs {
            place: None,
            list,
            places,
            offers,
            waiting: Vec::new(),
            offered: word as u32,
            coming,
            pieces,
            brought: BroughtClasses::default(),
            messages: Rates::new(MESSAGES_PER_SECOND, MESSAGES_AT_ONCE),
            edits: EditRates::default(),
        }
    }

    /// Whether programs of a role have a change left.
    pub(super) fn has_change(&mut self, now: u64, role: &Role) -> bool {
        self.edits.has_change(now, role)
    }

    fn at(&self, domain: DomainId) -> Option<usize> {
        let at = usize::from(*self.places.get(domain.index())?).checked_sub(1)?;
        self.list.get(at).is_some_and(|graph| graph.domain == domain).then_some(at)
    }

    fn find(&self, name: &str) -> Option<&Running> {
        self.list.iter().find(|graph| graph.spec.name == name)
    }

    fn renew_places(&mut self) {
        self.places.clear();
        for (number, graph) in (1..).zip(&self.list) {
            let at = graph.domain.index();
            if self.places.len() <= at {
                self.places.resize(at + 1, 0);
            }
            self.places[at] = number;
        }
    }
}

impl Environment for RunningGraphs {
    fn placed(&mut self, place: EnvironmentId) {
        self.place = Some(place);
    }

    fn types(&self) -> (&'static [OwnType], Option<DomainId>) {
        (&[OwnType { kind: PacketKind::Anep(anep::type_id::PART), waits: false }], None)
    }

    fn packet(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, _: PacketKind, frame: Frame, native: Option<&Native>) {
        self.take_message(cx, turn, frame, native);
    }

    fn run(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, what: u32, frame: Frame) -> u64 {
        if what == PASSED {
            self.pass(cx, turn, domain, frame);
            return 0;
        }
        if let Some(channel) = cx.graphs.channels.ins.get_mut(InChanId(what)) {
            channel.waiting = channel.waiting.saturating_sub(1);
        }
        let Some(graph) = self.at(domain).and_then(|at| self.list.get_mut(at)) else {
            cx.drop_in(turn, frame, Reason::DomainEnded, domain);
            return 0;
        };
        graph.came.push(frame);
        // Those of one turn go together.
        if !cx.order.paths.more {
            graph.receive(cx, turn);
        }
        0
    }

    fn next_timer(&self) -> u64 {
        self.list.iter().map(Running::wake).min().unwrap_or(u64::MAX)
    }

    fn timer(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let now = turn.now;
        for graph in self.list.iter_mut().filter(|graph| graph.wake() <= now) {
            let run = cx.begin(turn.now, Payer::NOBODY, false);
            cx.on_domain(turn.now, graph.domain);
            graph.work(cx, turn);
            cx.end(turn.now, run);
        }
    }

    fn sweep(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        self.say_again(cx, turn);
        self.end_silent(cx, turn);
    }

    fn ended(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, gone: &[Gone]) -> usize {
        let before = self.list.len();
        self.list.retain_mut(|graph| {
            let ends = gone.iter().any(|gone| gone.domain == graph.domain);
            if ends {
                graph.end_parts_at(cx, turn, &graph.now.remotes.places, true);
                graph.slot.into_iter().for_each(|slot| cx.end_program(slot));
                graph.settle_kernel(cx);
                cx.core.drops.count_many(Reason::DomainEnded, graph.empty(turn));
            }
            !ends
        });
        if self.list.len() != before {
            self.renew_places();
            cx.graphs.hears.retain(|(_, domain)| !gone.iter().any(|gone| gone.domain == *domain));
        }
        0
    }

    fn held(&self) -> u64 {
        self.list.iter().map(|graph| graph.traffic.held).sum()
    }

    fn held_of(&self, domain: DomainId) -> u64 {
        self.at(domain).and_then(|at| self.list.get(at)).map_or(0, |graph| graph.traffic.held)
    }
}

impl Running {
    fn wake(&self) -> u64 {
        self.older.iter().map(|(older, until)| older.wake.min(*until)).fold(self.now.wake, u64::min)
    }

    /// Bytes that all its generations keep beside packets.
    fn kept(&self) -> u64 {
        kept_of(&self.now, &self.older)
    }

    /// Packets that its domain has memory for, beside what engines have learnt; without any they learn nothing more.
    fn measure_room(&mut self, cx: &mut Cx) -> u64 {
        let most = cx.core.domains.of(self.domain).map_or(0, |domain| domain.grants.memory_bytes);
        let kept = self.kept();
        self.scratch.no_room = self.traffic.held * BUFFER + kept > most;
        most.saturating_sub(kept) / BUFFER
    }

    /// What has come in this turn goes in.
    fn receive(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let room = self.measure_room(cx);
        self.scratch.is_watched = turn.out.traced;
        while !self.came.is_empty() {
            let fits = room.saturating_sub(self.traffic.held).min(self.came.len() as u64) as usize;
            if fits == 0 && self.traffic.held > 0 {
                break;
            }
            // One that is not held is gone when its turn is over.
            let together = self.came.drain(..fits.max(1));
            let came = together.len() as u64;
            self.now.receive(together, turn.now, &mut turn.out.pool, &mut self.scratch);
            self.settle(cx, turn, came, None);
        }
        for frame in self.came.drain(..) {
            self.traffic.came += 1;
            self.traffic.dropped += 1;
            cx.drop_in(turn, frame, Reason::MemoryFull, self.domain);
        }
    }

    /// Engines have their turns, in all generations that are due.
    fn work(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        self.scratch.is_watched = turn.out.traced;
        self.measure_room(cx);
        for at in 0..self.older.len() {
            if let Some((older, _)) = self.older.get_mut(at).filter(|(older, _)| older.wake <= turn.now) {
                older.work(turn.now, &mut turn.out.pool, &mut self.scratch);
                self.settle(cx, turn, 0, Some(at));
            }
        }
        if !self.older.is_empty() {
            self.end_older(cx, turn, OLDER_MAX);
        }
        if self.now.wake <= turn.now {
            self.now.work(turn.now, &mut turn.out.pool, &mut self.scratch);
            self.settle(cx, turn, 0, None);
        }
    }

    /// Generations end that hold nothing any more, or have had their time; and the oldest, if there are more than so many.
    fn end_older(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, most: usize) {
        let is_before = !self.parts_before.is_empty() || self.older.iter().any(|(older, _)| older.kernel().is_some());
        if is_before && turn.now >= self.settled + SETTLED_EVERY {
            self.settled = turn.now;
            self.settle_kernel(cx);
            self.end_parts(turn.now);
        }
        let all = self.older.len();
        let mut left = all;
        for _ in 0..all {
            let Some((mut older, until)) = self.older.pop_front() else { break };
            // What other nodes send to it is on its way.
            let waits = older.graph.held() > 0 || older.kernel().is_some() || !older.remotes.places.is_empty();
            if waits && until > turn.now && left <= most {
                self.older.push_back((older, until));
                continue;
            }
            left -= 1;
            self.end_parts_at(cx, turn, &older.remotes.places, false);
            older.count_late_in(&mut self.now.graph);
            let lost = older.graph.empty(&mut turn.out.pool);
            if lost > 0 {
                self.scratch.lost.push((Reason::GraphReplaced, lost));
            }
        }
        self.settle(cx, turn, 0, None);
    }

    /// What has come of so many packets that came into a generation, an older one at that place or the present one, goes where it goes, and
    /// is counted.
    fn settle(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, came: u64, older: Option<usize>) {
        let Running { scratch, domain, traffic, said, now, older: all, kept, .. } = self;
        let generation = match older.and_then(|at| all.get_mut(at)) {
            Some((older, _)) => older,
            None => &mut *now,
        };
        let (begun, used) = (take(&mut scratch.begun), take(&mut scratch.used));
        if begun + used > 0 {
            cx.transform(*domain, 0, begun);
            cx.transform(*domain, used, 0);
        }
        let lost: u64 = scratch.lost.iter().map(|(_, packets)| packets).sum();
        let ended = used + lost + (scratch.dropped.len() + scratch.out.len()) as u64;
        (traffic.came, traffic.begun, traffic.used) = (traffic.came + came, traffic.begun + begun, traffic.used + used);
        traffic.held = (traffic.held + came + begun).saturating_sub(ended);
        traffic.dropped += lost + scratch.dropped.len() as u64;
        cx.count_lost(*domain, &mut scratch.lost);
        for (trace, engine) in scratch.met.drain(..) {
            turn.out.event(trace, EventKind::Met(self.name.clone(), engine));
        }
        for (frame, reason) in scratch.dropped.drain(..) {
            cx.drop_in(turn, frame, reason, *domain);
        }
        let (mut out, mut fuel) = (take(&mut scratch.out), MARSHAL_FUEL);
        for mut frame in out.drain(..) {
            let port = frame.port;
            let way = generation.remotes.leads(port);
            let left = match way {
                Some(way) => match scratch.hide(&mut frame) {
                    Ok(_) => {
                        let marshal = generation.remotes.marshal(port).map(|by| (by, &mut fuel));
                        cx.pass_part(turn, frame, *domain, way, marshal)
                    }
                    Err(_) => Err((frame, Reason::LockedFields)),
                },
                None => cx.leave_graph(turn, frame, *domain),
            };
            match left {
                Ok(()) => {
                    traffic.left += 1;
                    if let Some((place, _)) = way {
                        let to = |kept: &&mut Kept| (kept.place.port, kept.place.addr) == (place.port, place.addr);
                        kept.iter_mut().find(to).into_iter().for_each(|kept| kept.sent += 1);
                    }
                }
                Err((frame, reason)) => {
                    traffic.dropped += 1;
                    cx.drop_in(turn, frame, reason, *domain);
                }
            }
        }
        scratch.out = out;
        traffic.blanked += take(&mut scratch.blanked);
        for line in scratch.said.drain(..) {
            if said.len() >= SAID_MAX {
                said.pop_front();
            }
            said.push_back(line);
        }
        let bytes = traffic.held * BUFFER + kept_of(now, all);
        // More than there is is refused when the next one comes.
        if bytes != self.charged && cx.core.pools.set_held(self.domain, bytes) {
            self.charged = bytes;
        }
    }

    /// It ends: how many packets it held.
    fn empty(&mut self, turn: &mut Turn<'_>) -> u64 {
        let pool = &mut turn.out.pool;
        let came = self.came.len() as u64;
        self.came.drain(..).for_each(|frame| pool.give(frame));
        came + self.older.iter_mut().map(|(older, _)| older.graph.empty(pool)).sum::<u64>() + self.now.graph.empty(pool)
    }
}

/// Bytes that generations keep beside packets.
fn kept_of(now: &GraphGeneration, older: &VecDeque<(GraphGeneration, u64)>) -> u64 {
    now.kept() + older.iter().map(|(older, _)| older.kept()).sum::<u64>()
}

impl Cx {
    /// A frame of a graph leaves by its port as it is.
    fn leave_graph(&mut self, turn: &mut Turn<'_>, frame: Frame, domain: DomainId) -> Result<(), (Frame, Reason)> {
        let port = frame.port;
        let known = self.core.topology.port(port).filter(|port| port.link != Link::Overlay);
        let Some(mtu) = known.map(|port| port.mtu) else { return Err((frame, Reason::NoPort)) };
        if frame.len() < ethernet::HEADER {
            return Err((frame, Reason::MalformedPacket));
        }
        if frame.len() > mtu + ethernet::HEADER + TAG {
            return Err((frame, Reason::TooBig));
        }
        let Some(owner) = self.core.domains.of(domain) else { return Err((frame, Reason::DomainEnded)) };
        if !owner.may_send(turn.now, frame.len()) {
            return Err((frame, Reason::Bandwidth));
        }
        owner.forwarded += 1;
        turn.out.event(frame.trace, EventKind::Forwarded(port, Addr::UNSPECIFIED));
        self.hand_over(turn, frame, port, PeerId::NONE);
        Ok(())
    }
}
