//! Engines: what is done to packets on their way through a graph.
//!
//! An engine has inputs and outputs. Packets that are *pushed* come in by [`Engine::push`], and the answer says by which output they leave.
//! Packets that are *pulled* are asked for by [`Engine::pull`]: an engine that does nothing else than `push` needs none of its own. Engines
//! that begin something themselves are *tasks*: [`Engine::run`]. Operators read and write an engine's *handlers*.
//!
//! Engines of channels, as in `if0/ip/udp/fragment(1200)/checksum`, have two inputs and two outputs, one of each for either way: what comes
//! in at [`OUTWARD`] leaves there changed, and what comes in at [`INWARD`] has that undone. What an engine keeps between packets is
//! bounded ([`crate::frame::assembly`]): the oldest unfinished group of whoever has most gives way. Which engines there are says the
//! table of classes ([`super::class`]).

use super::class::PlacedClass;
use super::edges::GraphEdges;
use super::fused::{EngineTable, FusedAt, FusedBody, FusedLabel, NoForm};
use super::locked::Unread;
use super::partner::Partner;
use super::placement::GraphPlace;
use super::scratch::{Hop, MET_MAX, Scratch};
use crate::core::reason::Reason;
use crate::frame::assembly::{Assemblies, AssemblyLimits};
use crate::frame::{Frame, FramePool, Notes, Payer, PortId};
use crate::wire::Addr;
use std::sync::Arc;

/// From a domain towards the network.
pub const OUTWARD: u16 = 0;
/// From the network towards a domain.
pub const INWARD: u16 = 1;
/// Inputs, and outputs, of an engine of a channel.
pub(super) const WAYS: usize = 2;

/// Packets that an engine asks for in vain, at most, until it gives up: each was dropped or taken by somebody on the way.
const VAIN_MAX: usize = 64;

/// Lines that engines print, at most, until somebody reads them.
pub const SAID_MAX: usize = 1024;

/// Engines that ask each other for one packet, at most.
const PULLS_MAX: u16 = 256;

/// What becomes of a packet that an engine was given.
pub enum Pushed {
    /// It goes on by this output.
    To(u16, Frame),
    /// The engine has it, or has put what comes of it where it goes ([`GraphCx::emit`]).
    Kept,
    /// The engine has done what it asks for.
    Used(Frame),
    /// It is over.
    Dropped(Frame, Reason),
}

impl Pushed {
    /// It is over, since the engine is there for that, or has no room.
    #[inline]
    pub fn thrown(frame: Frame) -> Pushed {
        Pushed::Dropped(frame, Reason::GraphDropped)
    }
}

/// One step of a packet's way, with its state.
pub trait Engine: Send {
    /// A packet comes in.
    fn push(&mut self, input: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let _ = (input, cx);
        Pushed::thrown(frame)
    }

    /// Packets come in together, in their order: as [`Engine::push`] says for each, up to the first that goes another way than those before
    /// it. Made anew for each class, so that `push` is called directly.
    fn push_run(&mut self, input: u16, run: &mut [Option<Frame>], cx: &mut GraphCx<'_>) -> RunEnd {
        let mark = cx.scratch.between.len();
        let mut end = RunEnd::default();
        for (at, slot) in run.iter_mut().enumerate() {
            let Some(frame) = slot.take() else { continue };
            let other = match self.push(input, frame, cx) {
                Pushed::To(output, frame) if cx.scratch.between.len() == mark && end.goes_by(output) => {
                    *slot = Some(frame);
                    end.packets += 1;
                    continue;
                }
                other => cx.goes_on(other),
            };
            if other.is_some() || cx.scratch.between.len() > mark {
                end.stop = Some((at, other));
                break;
            }
        }
        end
    }

    /// Somebody behind this output asks for a packet: it is asked for at the first input, and taken through.
    fn pull(&mut self, output: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        cx.pull_through(self, 0, output)
    }

    /// It has its turn; whether it did something. Only tasks have turns.
    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        let _ = cx;
        false
    }

    /// When it wants its next turn: at once if that is over.
    fn next_run(&self) -> u64 {
        u64::MAX
    }

    /// Packets that it holds.
    fn held(&self) -> u64 {
        0
    }

    /// Bytes of what it has learnt of packets, and keeps without them; nothing if it never keeps any.
    fn keeps(&self) -> Option<u64> {
        None
    }

    /// Packets that may come to it together, at most, so that none finds no room: an engine that keeps them has so much of it.
    fn room(&self) -> u64 {
        u64::MAX
    }

    /// What it has to say of itself under this name.
    fn read(&self, handler: &str) -> Option<String> {
        let _ = handler;
        None
    }

    /// An operator writes under this name; nothing if there is no such handler.
    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        let _ = (handler, value);
        None
    }

    /// What the one before it counts after that for packets that come late.
    fn count_late(&mut self, before: &mut dyn Engine) {
        let _ = before;
    }

    /// What it takes over from another one of its class that stood in its place.
    fn take_state(&mut self, before: &mut dyn Engine) {
        let _ = before;
    }

    /// Frames that it holds are given back, since its graph ends.
    fn empty(&mut self, give: &mut dyn FnMut(Frame)) {
        let _ = give;
    }

    /// It is told its place in what is around the graph, if it is an edge of it; by which port packets come in here, if they do.
    fn meet(&mut self, places: &mut GraphEdges) -> Option<PortId> {
        let _ = places;
        None
    }

    /// Its part of a program in the kernel, for packets of which so much is known ([`super::fused`]): what it does to a plain packet there
    /// is what [`Engine::push`] does, or [`Engine::pull`]. Packets never wait there.
    fn kernel(&self, input: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        let _ = (input, at, body);
        Err(NoForm::Class)
    }

    /// Words in which it counts there.
    fn kernel_words(&self) -> u16 {
        0
    }

    /// It is told what has been counted there since it was told last.
    fn add_kernel(&mut self, words: &[u64]) {
        let _ = words;
    }

    /// It is told of its part of the table of its program, or that there is none; nothing of it is in there yet.
    fn meet_table(&mut self, table: Option<EngineTable>) {
        let _ = table;
    }

    /// Itself, for [`Engine::take_state`].
    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        None
    }
}

/// How far packets have come that came in together ([`Engine::push_run`]).
#[derive(Default)]
pub struct RunEnd {
    /// By which output they leave.
    pub(super) output: u16,
    /// So many.
    pub(super) packets: u64,
    /// The first that goes another way, by its place: by which output it leaves itself, if it does. Those behind it have not come in.
    pub(super) stop: Option<(usize, Option<(u16, Frame)>)>,
}

impl RunEnd {
    /// Whether one more goes by this output as all before it do.
    #[inline]
    fn goes_by(&mut self, output: u16) -> bool {
        if self.packets == 0 {
            self.output = output;
        }
        self.output == output
    }
}

/// Who sent a packet: who pays for it, and its address and port, if its protocols name them.
pub type Origin = (Payer, Option<(Addr, u16)>);

/// Where an output leads, and how many packets have gone there.
#[derive(Clone, Copy, Debug)]
pub struct GraphLink {
    /// Where.
    pub to: Hop,
    /// How many.
    pub packets: u64,
}

/// An engine in its graph.
pub struct Placed {
    /// Its class.
    pub class: PlacedClass,
    /// Its name.
    pub name: Arc<str>,
    /// Itself, unless it is being asked.
    pub(super) engine: Option<Box<dyn Engine>>,
    /// Behind its outputs.
    pub links: Box<[GraphLink]>,
    /// Before its inputs, where they pull: an engine and its output.
    pub(super) before: Box<[(u16, u16)]>,
    /// Where it is to be.
    pub place: GraphPlace,
}

impl GraphLink {
    /// So many packets more go this way.
    #[inline]
    pub(super) fn pass(&mut self, packets: u64) -> Hop {
        self.packets += packets;
        self.to
    }
}

impl Placed {
    /// It has been asked, and stands in its place again; where its outputs lead.
    #[inline]
    pub(super) fn put_back(&mut self, engine: Box<dyn Engine>) -> &mut [GraphLink] {
        // Nothing has stood there meanwhile, so there is nothing to drop.
        core::mem::forget(self.engine.replace(engine));
        &mut self.links
    }

    /// So many packets have left by each output in the kernel, and so much was counted there.
    pub(super) fn add_kernel(&mut self, links: &[u64], words: &[u64]) {
        self.links.iter_mut().zip(links).for_each(|(link, more)| link.packets += more);
        self.engine.iter_mut().for_each(|engine| engine.add_kernel(words));
    }
}

/// What an engine is called with.
pub struct GraphCx<'a> {
    /// Nanoseconds of the node's clock.
    pub now: u64,
    /// Who sent what came in, as far as it is known, and who pays for it: groups of different senders are not mixed,
    /// and each that pays has its share of them.
    pub from: Origin,
    /// Buffers.
    pub pool: &'a mut FramePool,
    pub(super) at: u16,
    pub(super) depth: u16,
    pub(super) engines: &'a mut [Placed],
    pub(super) scratch: &'a mut Scratch,
}

impl<'a> GraphCx<'a> {
    /// Sends one of several packets on, by this output.
    #[inline]
    pub fn emit(&mut self, output: u16, frame: Frame) {
        let to = self.behind(output, 1);
        self.scratch.go(to, frame);
    }

    /// By which output a packet goes on, if it does; what else has become of it is seen to.
    #[inline]
    pub(super) fn goes_on(&mut self, pushed: Pushed) -> Option<(u16, Frame)> {
        match pushed {
            Pushed::To(output, frame) => return Some((output, frame)),
            Pushed::Kept => {}
            Pushed::Used(frame) => self.use_up(frame),
            Pushed::Dropped(frame, reason) => self.scratch.dropped.push((frame, reason)),
        }
        None
    }

    /// Where packets go by this output: so many more do.
    #[inline]
    pub(super) fn behind(&mut self, output: u16, packets: u64) -> Hop {
        let place = self.engines.get_mut(usize::from(self.at));
        let link = place.and_then(|place| place.links.get_mut(usize::from(output)));
        link.map_or(Hop::End, |link| link.pass(packets))
    }

    /// This engine has a packet that came to it.
    #[inline]
    pub(super) fn met(&mut self, frame: &Frame) {
        if self.scratch.is_watched {
            self.note_met(frame.trace);
        }
    }

    #[cold]
    fn note_met(&mut self, trace: u64) {
        let place = self.engines.get(usize::from(self.at));
        if let Some(place) = place.filter(|_| trace != 0 && self.scratch.met.len() < MET_MAX) {
            self.scratch.met.push((trace, place.name.clone()));
        }
    }

    /// So many packets that were kept have gone.
    pub fn lose(&mut self, reason: Reason, packets: u64) {
        if packets > 0 {
            self.scratch.lost.push((reason, packets));
        }
    }

    /// A packet is shown to whoever has no part in its graph, and comes back: locked fields of it are not seen there. What is seen is
    /// `work`'s; it is another place, and so nothing if fields of the packet cannot be told. What comes back with other headers is
    /// `Unread` too.
    pub fn show<R>(
        &mut self,
        frame: &mut Frame,
        work: impl FnOnce(&mut GraphCx<'_>, &mut Frame) -> R,
    ) -> Result<R, Unread> {
        let next = frame.notes.next;
        let hidden = self.scratch.hide(frame)?;
        let done = work(self, frame);
        if hidden {
            frame.notes.next = next;
            self.scratch.put_back(frame)?;
        }
        Ok(done)
    }

    /// One packet is over.
    pub fn throw(&mut self, frame: Frame) {
        self.scratch.go(Hop::End, frame);
    }

    /// What one packet asks for is done.
    pub fn use_up(&mut self, frame: Frame) {
        self.scratch.used += 1;
        self.pool.give(frame);
    }

    /// One packet leaves the graph by its port.
    pub fn leave(&mut self, frame: Frame) {
        self.scratch.out.push(frame);
    }

    /// Somebody is to ask again then, since what was asked for may not be given before.
    pub fn ask_again(&mut self, at: u64) {
        self.scratch.wake = self.scratch.wake.min(at);
    }

    /// A line for whoever runs the graph; beyond [`SAID_MAX`] that nobody has read they are counted only.
    pub fn say(&mut self, line: String) {
        if self.scratch.said.len() < SAID_MAX {
            self.scratch.said.push(line);
        } else {
            self.scratch.unsaid += 1;
        }
    }

    /// A packet begins here: it is none of those that came in.
    pub fn begin(&mut self) -> Frame {
        self.scratch.begun += 1;
        let mut frame = self.pool.take();
        frame.notes = Notes { at: self.now, ..Notes::default() };
        frame
    }

    /// A packet with the same bytes and notes.
    pub fn copy(&mut self, of: &Frame) -> Frame {
        let mut frame = self.begin();
        let before = of.extent().0;
        frame.fill(of.bytes());
        (frame.notes, frame.trace) = (of.notes, of.trace);
        // The header is as far from the packet's beginning as it was.
        let moved = (i32::from(of.notes.network) - before as i32) + frame.extent().0 as i32;
        frame.notes.network = if of.notes.network == 0 { 0 } else { moved.clamp(0, u16::MAX.into()) as u16 };
        frame.port = of.port;
        frame
    }

    /// Asks for a packet at this input.
    pub fn pull(&mut self, input: u16) -> Option<Frame> {
        let place = self.engines.get(usize::from(self.at))?;
        let (before, output) = *place.before.get(usize::from(input))?;
        if self.depth >= PULLS_MAX {
            return None;
        }
        // One that is asked for while it asks is not there.
        let mut engine = self.engines.get_mut(usize::from(before))?.engine.take()?;
        let mut cx = GraphCx {
            now: self.now,
            from: self.from,
            pool: self.pool,
            at: before,
            depth: self.depth + 1,
            engines: self.engines,
            scratch: self.scratch,
        };
        let frame = engine.pull(output, &mut cx);
        if let Some(place) = self.engines.get_mut(usize::from(before)) {
            place.engine = Some(engine);
            if let Some(link) = place.links.get_mut(usize::from(output)).filter(|_| frame.is_some()) {
                link.packets += 1;
            }
        }
        frame.iter().for_each(|frame| self.met(frame));
        frame
    }

    /// Asks for a packet at this input, and takes it through `engine`, until one leaves it by this output.
    pub fn pull_through<E: Engine + ?Sized>(&mut self, engine: &mut E, input: u16, output: u16) -> Option<Frame> {
        for _ in 0..VAIN_MAX {
            let frame = self.pull(input)?;
            let pushed = engine.push(input, frame, self);
            match self.goes_on(pushed) {
                Some((to, frame)) if to == output => return Some(frame),
                Some((to, frame)) => self.emit(to, frame),
                None => {}
            }
        }
        None
    }

    /// Inputs that are connected so that they can be pulled from.
    pub fn inputs(&self) -> u16 {
        self.engines.get(usize::from(self.at)).map_or(0, |place| place.before.len() as u16)
    }

    /// Outputs.
    pub fn outputs(&self) -> u16 {
        self.engines.get(usize::from(self.at)).map_or(0, |place| place.links.len() as u16)
    }

    /// Whether something is behind this output.
    pub fn has_output(&self, output: u16) -> bool {
        self.outputs() > output
    }

    /// Packets that the engine of this number holds.
    pub fn held_by(&self, engine: u16) -> u64 {
        let place = self.engines.get(usize::from(engine));
        place.and_then(|place| place.engine.as_ref()).map_or(0, |engine| engine.held())
    }

    /// Another engine of this graph, if it is such a one.
    pub fn other<T: 'static>(&mut self, other: &mut Partner) -> Option<&mut T> {
        let Partner { name, number } = other;
        let at = *number.get_or_insert_with(|| find(self.engines, name).unwrap_or(u16::MAX));
        self.engines.get_mut(usize::from(at))?.engine.as_mut()?.as_any()?.downcast_mut()
    }

    /// The numbers of engines behind the outputs of this one that hold packets, up to the first on each way.
    pub fn stores_behind(&self, holds: impl Fn(&str) -> bool) -> Vec<u16> {
        let (mut found, mut seen, mut open) = (Vec::new(), Vec::new(), vec![self.at]);
        while let Some(at) = open.pop() {
            let Some(place) = self.engines.get(usize::from(at)).filter(|_| !seen.contains(&at)) else { continue };
            seen.push(at);
            if at != self.at && holds(place.class.name()) {
                found.push(at);
                continue;
            }
            open.extend(place.links.iter().filter_map(|link| match link.to {
                Hop::Engine(next, _) => Some(next),
                _ => None,
            }));
        }
        found
    }
}

/// The number of the engine of a name.
pub(super) fn find(engines: &[Placed], name: &str) -> Option<u16> {
    engines.iter().position(|placed| &*placed.name == name).map(|at| at as u16)
}

/// Groups of packets that are not complete yet, of one engine.
pub const GROUPS_MAX: usize = 16;

/// How long pieces wait for the rest, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

/// Groups of packets that are not complete, by who sends them and their number there.
pub(super) type Groups<Group> = Assemblies<(Origin, u16), Payer, Group>;

/// What one engine may hold. Every group has a buffer, so it is groups that are counted.
pub(super) const LIMITS: AssemblyLimits = AssemblyLimits { messages: GROUPS_MAX, bytes: 0, within: PATIENCE };
