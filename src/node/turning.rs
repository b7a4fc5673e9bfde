//! Packets of a domain that has moved take another way, and none overtakes those that are on the old one.
//!
//! ```text
//! worker 2: packets ─▶ ring ─▶ worker 0, which had the domain ─▶ ring ─▶ worker 1, which has it    the old way
//!           packets ─▶ held until the mark is back ─▶ ring ───────────────▶ worker 1               the new one
//! ```
//!
//! A domain goes by the ring, and what comes for it later behind it: so its packets go by its old worker as long as rules
//! name that. When it has arrived, rules name the new worker. Each worker that learns it sends a *mark* by the old way,
//! and holds packets of the domain until the mark is back: all that was before it has arrived then. So a flow, which
//! comes to one worker, keeps its order. Its new worker does the same with what comes to itself. A worker holds
//! [`HELD_MAX`] packets, of them [`HELD_EACH`] of one domain, and drops others under `hand-over`. It waits for [`PATIENCE`] at most:
//! a worker that has begun anew has lost marks with all that was in it. No more than `TURNING_MAX` marks of a worker are under way:
//! what turns beside so many joins those that turned last, and their mark goes once more.
//!
//! The same is done where a further worker learns what it needs to do itself what it has handed to worker 0: code that can run,
//! a link address, a neighbour (`Turned`). Example: 20 capsules of a code are in the ring to worker 0 when worker 1 is told that
//! the code can run: the 21st is held until the mark is back. Worker 0 gives it back when those 20 have left by their port.

use super::handing::{FIRST, Handed, HandedAs};
use super::marks::{Mark, MarkStage, Marks};
use super::output::Turn;
use super::{Cx, Node};
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Frame, PortId, WorkerId};
use crate::graph::Taker;
use crate::wire::{Addr, Digest};
use std::collections::VecDeque;

/// Packets that a worker holds at most until marks are back.
pub const HELD_MAX: usize = 4096;

/// Of them, those of one domain, code, next hop or neighbour: three others have room beside a flood of one.
pub const HELD_EACH: usize = HELD_MAX / 4;

/// Marks of a worker that are under way, by one way.
const TURNING_MAX: usize = 64;

/// For how long a mark is waited for, in nanoseconds.
pub const PATIENCE: u64 = 1_000_000_000;

/// Whose packets take another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turned {
    /// Of channels of a domain, which has moved.
    Domain(DomainId),
    /// Of a code, which can run here from now on.
    Code(Digest),
    /// To a next hop, whose link address is known here from now on.
    Hop(PortId, Addr),
    /// From a neighbour, which is known here from now on.
    Neighbour(PortId, Addr),
}

/// By whom packets go until they turn, to whom they go then, and whether those before leave the node there.
type Detour = (WorkerId, WorkerId, bool);

/// Whose packets are held until a mark is back.
struct Turning {
    /// Sorted, each with how many are held.
    what: Vec<(Turned, usize)>,
    number: u32,
    since: u64,
    way: Detour,
    /// Others have joined when the mark was under way: it goes once more.
    again: bool,
}

impl Turning {
    fn place_of(&self, what: Turned) -> Option<usize> {
        self.what.binary_search_by_key(&what, |(what, _)| *what).ok()
    }

    /// Some more, each once.
    fn add(&mut self, what: &[Turned]) {
        self.what.extend(what.iter().map(|what| (*what, 0)));
        self.what.sort_by_key(|(what, _)| *what);
        self.what.dedup_by_key(|(what, _)| *what);
    }

    fn mark(&self, of: WorkerId) -> Mark {
        let (_, to, leave) = self.way;
        Mark { of, number: self.number, to, leave, stage: MarkStage::Begun }
    }
}

/// What a worker knows of moves that are under way.
#[derive(Default)]
pub(super) struct Turns {
    /// Domains that have gone from here to a worker while rules name this one.
    gone: Vec<(Vec<DomainId>, WorkerId)>,
    turning: Vec<Turning>,
    held: VecDeque<(Turned, Handed)>,
    /// Marks that found no room.
    unsent: Vec<Handed>,
    /// Marks of others that wait here.
    pub(super) marks: Marks,
    number: u32,
}

impl Turns {
    /// Whether nothing moves.
    #[inline(always)]
    fn are_none(&self) -> bool {
        self.gone.is_empty() && self.turning.is_empty()
    }

    /// Domains have gone to a worker.
    pub(super) fn go(&mut self, domains: Vec<DomainId>, to: WorkerId) {
        if !domains.is_empty() {
            self.gone.push((domains, to));
        }
    }

    /// A worker that has begun anew forgets those that rules name another worker for already.
    pub(super) fn keep_gone(&mut self, named: impl Fn(DomainId) -> bool) {
        self.gone.retain(|(domains, _)| domains.iter().any(|domain| named(*domain)));
    }

    /// Frames that are held as they came in.
    pub(super) fn held_frames(&self) -> u64 {
        self.held.iter().filter(|(_, handed)| handed.what.is_as_it_came()).count() as u64
    }

    /// Packets that are held and were counted as handed over.
    pub(super) fn held_packets(&self) -> u64 {
        self.held.len() as u64 - self.held_frames()
    }

    /// Rules name another worker than this one for a domain.
    fn forget_gone(&mut self, domain: DomainId) {
        self.gone.retain(|(domains, _)| !domains.contains(&domain));
    }

    #[cold]
    fn gone_to(&self, domain: DomainId) -> Option<WorkerId> {
        self.gone.iter().find(|(domains, _)| domains.contains(&domain)).map(|(_, to)| *to)
    }

    #[cold]
    fn is_turning(&self, what: Turned) -> bool {
        self.turning.iter().any(|turning| turning.place_of(what).is_some())
    }

    /// Holds a packet, if there is room for one more of these.
    fn hold(&mut self, what: Turned, handed: Handed) -> Result<(), Handed> {
        let turning = self.turning.iter_mut();
        let mut places = turning.filter_map(|turning| turning.place_of(what).and_then(|at| turning.what.get_mut(at)));
        match places.next() {
            Some((_, count)) if *count < HELD_EACH && self.held.len() < HELD_MAX => {
                *count += 1;
                self.held.push_back((what, handed));
                Ok(())
            }
            _ => Err(handed),
        }
    }

    /// These turn with those that turned last by the same way, if so many do already.
    fn join(&mut self, what: &[Turned], way: Detour) -> bool {
        let mut same = self.turning.iter_mut().filter(|turning| turning.way == way);
        let Some(last) = same.next_back() else { return false };
        if same.count() + 1 < TURNING_MAX {
            return false;
        }
        last.add(what);
        // It is waited for no longer than before: who joins postpones nothing.
        last.again = true;
        true
    }
}

impl Cx {
    /// Which worker a packet of a channel goes to, if it does not go on here: perhaps this one, by way of those that it holds.
    #[inline(always)]
    pub(super) fn way_of(&self, owner: &Taker) -> Option<WorkerId> {
        let workers = &self.control.workers;
        if owner.worker != workers.id() {
            return Some(owner.worker);
        }
        if workers.turns.are_none() { None } else { self.way_while_turning(owner) }
    }

    #[cold]
    fn way_while_turning(&self, owner: &Taker) -> Option<WorkerId> {
        let turns = &self.control.workers.turns;
        turns.gone_to(owner.domain).or_else(|| turns.is_turning(Turned::Domain(owner.domain)).then_some(owner.worker))
    }

    /// Gives a packet of a channel to another worker, or holds it.
    #[inline]
    pub(super) fn hand_to(&mut self, turn: &mut Turn<'_>, domain: DomainId, handed: Handed) {
        if self.control.workers.turns.are_none() {
            return turn.out.handed.push(handed);
        }
        if self.control.workers.turns.is_turning(Turned::Domain(domain)) {
            self.hold(turn, Turned::Domain(domain), handed);
        } else {
            turn.out.handed.push(handed);
        }
    }

    /// Whether packets of these are held here, since those before them are still on their way by the first worker.
    #[inline(always)]
    pub(super) fn holds(&self, what: Turned) -> bool {
        let turns = &self.control.workers.turns;
        !turns.are_none() && turns.is_turning(what)
    }

    /// Holds a packet that was counted here until those before it have gone.
    #[cold]
    pub(super) fn hold_back(&mut self, turn: &mut Turn<'_>, what: Turned, frame: Frame, is: HandedAs) {
        self.core.ledger.handed = self.core.ledger.handed.wrapping_add(1);
        let to = self.control.workers.id();
        self.hold(turn, what, Handed { to, what: is, frame });
    }

    #[cold]
    fn hold(&mut self, turn: &mut Turn<'_>, what: Turned, handed: Handed) {
        if let Err(handed) = self.control.workers.turns.hold(what, handed) {
            self.refuse_handed(turn, handed);
        }
    }

    /// This worker can do from now on what it has handed to the first: it waits until that one has done all of it.
    #[cold]
    pub(super) fn turn_from_first(&mut self, turn: &mut Turn<'_>, what: Vec<Turned>) {
        let own = self.control.workers.id();
        self.hold_until(turn, what, (FIRST, own, true));
    }

    /// Another worker could not be handed a packet.
    #[cold]
    pub(super) fn refuse_handed(&mut self, turn: &mut Turn<'_>, handed: Handed) {
        let Handed { to, what, frame } = handed;
        match what {
            HandedAs::Frame | HandedAs::Channel(_) => {
                self.count_received(&frame);
                self.turn_away(turn, frame, Reason::HandOver);
            }
            // It goes again: that it comes late makes others wait, and no more.
            HandedAs::Mark(_) => self.control.workers.turns.unsent.push(Handed { to, what, frame }),
            _ => {
                self.core.ledger.handed = self.core.ledger.handed.wrapping_sub(1);
                self.drop(turn, frame, Reason::HandOver);
            }
        }
    }

    /// Learns what other workers have told of rules, and sends marks for those that name another worker.
    #[inline]
    pub(super) fn renew_rules(&mut self, turn: &mut Turn<'_>) {
        if self.graphs.channels.renew_rules() || !self.control.workers.turns.unsent.is_empty() {
            self.turn_to_others(turn);
        }
    }

    #[cold]
    fn turn_to_others(&mut self, turn: &mut Turn<'_>) {
        let own = self.control.workers.id();
        turn.out.handed.append(&mut self.control.workers.turns.unsent);
        for (rule, taker) in self.graphs.channels.take_left() {
            if self.control.workers.turns.gone_to(taker.domain).is_some() {
                // It was on its way when this worker began anew, and keeps its rule.
                continue;
            }
            if self.graphs.withdraw_rule(&rule, taker) {
                turn.out.watch(rule, false);
            }
        }
        let mut ways: Vec<(WorkerId, WorkerId, Vec<Turned>)> = Vec::new();
        for (before, after) in self.graphs.channels.take_moved() {
            if before.worker == own {
                // What goes from here goes behind the domain.
                self.control.workers.turns.forget_gone(before.domain);
                continue;
            }
            match ways.iter_mut().find(|(via, to, _)| (*via, *to) == (before.worker, after.worker)) {
                Some((.., domains)) => domains.push(Turned::Domain(after.domain)),
                None => ways.push((before.worker, after.worker, vec![Turned::Domain(after.domain)])),
            }
        }
        for (via, to, domains) in ways {
            self.begin_turn(turn, domains, via, to);
        }
    }

    /// Packets of these, which a worker had, are held until all that were handed to it before are where they should be.
    pub(super) fn begin_turn(&mut self, turn: &mut Turn<'_>, what: Vec<Turned>, via: WorkerId, to: WorkerId) {
        self.hold_until(turn, what, (via, to, false));
    }

    /// Holds packets of these until a mark has been where they went, and perhaps has waited there until those before it have left.
    fn hold_until(&mut self, turn: &mut Turn<'_>, what: Vec<Turned>, way: Detour) {
        let turns = &mut self.control.workers.turns;
        if what.is_empty() || turns.join(&what, way) {
            return;
        }
        turns.number = turns.number.wrapping_add(1);
        let mut turning = Turning { what: Vec::new(), number: turns.number, since: turn.now, way, again: false };
        turning.add(&what);
        let mark = turning.mark(self.control.workers.id());
        self.control.workers.turns.turning.push(turning);
        self.send_mark(turn, way.0, mark);
    }
}

impl Node {
    /// A mark is back: packets that were held go on, or it goes once more.
    pub(super) fn end_turn_of(&mut self, turn: &mut Turn<'_>, number: u32) {
        let (own, turns) = (self.cx.control.workers.id(), &mut self.cx.control.workers.turns);
        let again = turns.turning.iter_mut().find(|turning| turning.number == number && turning.again);
        let Some(again) = again else { return self.end_turn(turn, |of, _| of == number) };
        again.again = false;
        let (via, mark) = (again.way.0, again.mark(own));
        self.cx.send_mark(turn, via, mark);
    }

    /// Packets that were held go on.
    fn end_turn(&mut self, turn: &mut Turn<'_>, is_over: impl Fn(u32, u64) -> bool) {
        let own = self.cx.control.workers.id();
        let turns = &mut self.cx.control.workers.turns;
        turns.turning.retain(|turning| !is_over(turning.number, turning.since));
        // One after the other: should one panic, the others are still here.
        for _ in 0..turns.held.len() {
            let Some((what, handed)) = self.cx.control.workers.turns.held.pop_front() else { return };
            if self.cx.control.workers.turns.is_turning(what) {
                self.cx.control.workers.turns.held.push_back((what, handed));
            } else if handed.to == own {
                self.take_handed(turn, handed);
            } else {
                turn.out.handed.push(handed);
            }
        }
    }

    /// Marks that have not come back in time are waited for no more.
    pub(super) fn expire_turns(&mut self, turn: &mut Turn<'_>) {
        self.cx.renew_rules(turn);
        let now = turn.now;
        let late = |since: u64| since.saturating_add(PATIENCE) <= now;
        if self.cx.control.workers.turns.turning.iter().any(|turning| late(turning.since)) {
            self.end_turn(turn, |_, since| late(since));
        }
    }

    /// Whether packets take the way by this worker, or wait here, since a domain has moved.
    pub fn is_turning(&mut self, turn: &mut Turn<'_>) -> bool {
        self.cx.renew_rules(turn);
        let turns = &self.cx.control.workers.turns;
        !(turns.are_none() && turns.unsent.is_empty())
    }
}
