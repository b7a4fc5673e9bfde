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
//! [`HELD_MAX`] packets, and drops others under `hand-over`. It waits for [`PATIENCE`] at most: a worker that has begun
//! anew has lost marks with all that was in it.

use super::handing::{Handed, HandedAs};
use super::output::{Effect, Turn};
use super::{Cx, Node};
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::frame::{Frame, WorkerId};
use crate::graph::Taker;
use std::collections::VecDeque;

/// Packets that a worker holds at most until marks are back.
pub const HELD_MAX: usize = 1024;

/// For how long a mark is waited for, in nanoseconds.
pub const PATIENCE: u64 = 1_000_000_000;

/// What goes by the way of packets, and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which worker waits for it, and what that one knows it by.
    of: WorkerId,
    number: u32,
    /// Who has the domains now.
    to: WorkerId,
    /// Where it has been.
    stage: MarkStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkStage {
    Begun,
    AtOld,
    AtNew,
}

/// Domains whose packets are held.
struct Turning {
    domains: Vec<DomainId>,
    number: u32,
    since: u64,
}

/// What a worker knows of moves that are under way.
#[derive(Default)]
pub(super) struct Turns {
    /// Domains that have gone from here to a worker while rules name this one.
    gone: Vec<(Vec<DomainId>, WorkerId)>,
    turning: Vec<Turning>,
    held: VecDeque<Handed>,
    /// Marks that found no room.
    unsent: Vec<Handed>,
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
        self.held.iter().filter(|handed| matches!(handed.what, HandedAs::Frame | HandedAs::Channel(_))).count() as u64
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
    fn is_turning(&self, domain: DomainId) -> bool {
        self.turning.iter().any(|turning| turning.domains.contains(&domain))
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
        turns.gone_to(owner.domain).or_else(|| turns.is_turning(owner.domain).then_some(owner.worker))
    }

    /// Gives a packet of a channel to another worker, or holds it.
    #[inline]
    pub(super) fn hand_to(&mut self, turn: &mut Turn<'_>, domain: DomainId, handed: Handed) {
        if self.control.workers.turns.are_none() {
            return turn.out.handed.push(handed);
        }
        self.hand_while_turning(turn, domain, handed);
    }

    #[cold]
    fn hand_while_turning(&mut self, turn: &mut Turn<'_>, domain: DomainId, handed: Handed) {
        let turns = &mut self.control.workers.turns;
        if !turns.is_turning(domain) {
            turn.out.handed.push(handed);
        } else if turns.held.len() < HELD_MAX {
            turns.held.push_back(handed);
        } else {
            self.refuse_handed(turn, handed);
        }
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
                turn.out.effects.push(Effect::Channel { filter: Box::new(rule), exists: false });
            }
        }
        let mut ways: Vec<(WorkerId, WorkerId, Vec<DomainId>)> = Vec::new();
        for (before, after) in self.graphs.channels.take_moved() {
            if before.worker == own {
                // What goes from here goes behind the domain.
                self.control.workers.turns.forget_gone(before.domain);
                continue;
            }
            match ways.iter_mut().find(|(via, to, _)| (*via, *to) == (before.worker, after.worker)) {
                Some((.., domains)) => domains.push(after.domain),
                None => ways.push((before.worker, after.worker, vec![after.domain])),
            }
        }
        for (via, to, domains) in ways {
            self.begin_turn(turn, domains, via, to);
        }
    }

    /// Packets of these domains, which a worker had, are held until all that were handed to it before are where the domains are now.
    pub(super) fn begin_turn(&mut self, turn: &mut Turn<'_>, mut domains: Vec<DomainId>, via: WorkerId, to: WorkerId) {
        domains.sort_unstable();
        domains.dedup();
        if domains.is_empty() {
            return;
        }
        let of = self.control.workers.id();
        let turns = &mut self.control.workers.turns;
        turns.number = turns.number.wrapping_add(1);
        let number = turns.number;
        turns.turning.push(Turning { domains, number, since: turn.now });
        self.send_mark(turn, via, Mark { of, number, to, stage: MarkStage::Begun });
    }

    fn send_mark(&mut self, turn: &mut Turn<'_>, to: WorkerId, mark: Mark) {
        // No packet, but it goes where packets go, in a frame as they do.
        let frame: Frame = turn.out.pool.take();
        turn.out.handed.push(Handed { to, what: HandedAs::Mark(mark), frame });
    }
}

impl Node {
    /// A mark has come.
    #[cold]
    pub(super) fn take_mark(&mut self, turn: &mut Turn<'_>, mark: Mark) {
        let own = self.cx.control.workers.id();
        match mark.stage {
            MarkStage::Begun => self.cx.send_mark(turn, mark.to, Mark { stage: MarkStage::AtOld, ..mark }),
            MarkStage::AtOld if mark.of != own => {
                self.cx.send_mark(turn, mark.of, Mark { stage: MarkStage::AtNew, ..mark })
            }
            MarkStage::AtOld | MarkStage::AtNew => self.end_turn(turn, |turning| turning.number == mark.number),
        }
    }

    /// Packets that were held go on.
    fn end_turn(&mut self, turn: &mut Turn<'_>, is_over: impl Fn(&Turning) -> bool) {
        let own = self.cx.control.workers.id();
        let turns = &mut self.cx.control.workers.turns;
        turns.turning.retain(|turning| !is_over(turning));
        for handed in core::mem::take(&mut turns.held) {
            let domain = match handed.what {
                HandedAs::Channel(owner) | HandedAs::Anep(owner) => owner.domain,
                _ => continue,
            };
            if self.cx.control.workers.turns.is_turning(domain) {
                self.cx.control.workers.turns.held.push_back(handed);
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
        let late = |turning: &Turning| turning.since.saturating_add(PATIENCE) <= turn.now;
        if self.cx.control.workers.turns.turning.iter().any(late) {
            let now = turn.now;
            self.end_turn(turn, |turning| turning.since.saturating_add(PATIENCE) <= now);
        }
    }

    /// Whether packets take the way by this worker, or wait here, since a domain has moved.
    pub fn is_turning(&mut self, turn: &mut Turn<'_>) -> bool {
        self.cx.renew_rules(turn);
        let turns = &self.cx.control.workers.turns;
        !(turns.are_none() && turns.unsent.is_empty())
    }
}
