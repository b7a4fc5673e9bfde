//! One search for a code: the object asked for, the neighbours to ask, and the capsules that wait.

use super::asking::Asking;
use super::assembly::Assembly;
use super::fares::{Toll, Waiter, requests};
use super::nonces::Nonces;
use super::sources::Sources;
use super::{MANNER, Source, Step, TRIES_MAX, TURN_MAX, TURN_TIME, WAITING_PER_CODE_MAX};
use crate::code::run::Ingress;
use crate::wire::{Digest, fetch};
use std::collections::VecDeque;

pub(super) enum Stage {
    /// The store is being asked for an object, whose length is known if a manifest said it.
    LookingUp(Digest, Option<u32>),
    /// The previous hop is being asked.
    Fetching(Assembly),
    /// All that was wanted is here; the node is deciding, or preparing the code.
    Preparing,
}

pub(super) struct Pending {
    pub(super) code: Digest,
    /// Another object of a code, fetched while the code is prepared or runs: nothing waits for it.
    pub(super) beside: bool,
    pub(super) stage: Stage,
    /// Whether the code can do without the object.
    pub(super) optional: bool,
    pub(super) sources: Sources,
    /// Answers of one source count only while it has its turn, since an object of several had a wrong digest or length.
    pub(super) alone: bool,
    /// Whose turn it takes: of one that waits for it. Addresses that packets claim say nothing here.
    pub(super) lane: Ingress,
    /// How often it gave way to others, or was asked for in vain.
    pub(super) rounds: u32,
    pub(super) nonce: Option<u32>,
    /// Requests and their answers; what waits for its turn waits until the time of the next one.
    pub(super) asking: Asking,
    /// Requests to the source whose turn it is, since it has answered; and when it was asked first.
    pub(super) turn: u32,
    pub(super) turn_began: Option<u64>,
    /// How often the turn was another's then.
    pub(super) turns: u32,
    /// Whether anything has come in this round.
    pub(super) heard: bool,
    pub(super) waiting: VecDeque<Waiter>,
    pub(super) toll: Toll,
    /// Bytes that were paid and are not spent yet.
    pub(super) credit: u64,
    /// Bytes that come back when the length of the object turns out to be less than a part's.
    pub(super) reserved: u64,
    /// Nobody pays for it now; until somebody does it waits for nothing else. Only of what is beside a code.
    pub(super) unpaid: bool,
}

impl Pending {
    pub(super) fn new(code: Digest, lane: Ingress, sources: Sources, stage: Stage) -> Pending {
        Pending {
            code,
            beside: false,
            stage,
            optional: false,
            lane,
            rounds: 0,
            sources,
            alone: false,
            nonce: None,
            asking: Asking::new(u64::MAX),
            turn: 0,
            turn_began: None,
            turns: 0,
            heard: false,
            waiting: VecDeque::new(),
            toll: Toll::NONE,
            credit: 0,
            reserved: 0,
            unpaid: false,
        }
    }

    /// Whether this is the way of `code` itself.
    pub(super) fn is_of(&self, code: &Digest) -> bool {
        self.code == *code && !self.beside
    }

    /// Whether an object beside a code is looked up that is not here, and nobody can be asked for it.
    pub(super) fn is_lost_beside(&self, digest: &Digest) -> bool {
        let looked_up = matches!(self.stage, Stage::LookingUp(wanted, _) if wanted == *digest);
        self.beside && looked_up && self.sources.is_empty()
    }

    /// Whether only this node is to be waited for, since code and manifest are known to be good. Such code gives way to no
    /// other, or a flood of many codes would never get one ready.
    pub(super) fn is_near_its_end(&self) -> bool {
        match self.stage {
            _ if self.beside => false,
            Stage::LookingUp(_, length) => length.is_some() || self.optional,
            Stage::Fetching(_) => false,
            Stage::Preparing => true,
        }
    }

    /// A neighbour can be asked for it that this payer names. The first of another payer has all the tries there are, and its turn at once
    /// where nobody answers; and so has one that is `proven` to answer, before those of its payer that are not.
    pub(super) fn learn(&mut self, now: u64, source: Source, whose: Ingress, proven: bool) {
        if !self.sources.learn(source, whose, proven) {
            return;
        }
        self.rounds = 0;
        let Stage::Fetching(assembly) = &self.stage else { return };
        let (tries, has_any) = (self.asking.tries(), assembly.has_any());
        self.asking.restart(0);
        if tries > u32::from(has_any) {
            self.next_source();
            self.asking.wait_until(now);
        }
    }

    /// Another capsule waits, whose source is `proven` to answer or not: gives the oldest of whoever has most here, if there is no room
    /// for all.
    pub(super) fn join(&mut self, now: u64, waiter: Waiter, proven: bool) -> Option<Waiter> {
        let (whose, source, toll) = (waiter.whose(), waiter.source, waiter.toll);
        self.waiting.push_back(waiter);
        let gone = if self.waiting.len() > WAITING_PER_CODE_MAX { self.give_way(whose) } else { None };
        if self.waits(whose) {
            self.pay_by(toll);
            source.into_iter().for_each(|source| self.learn(now, source, whose, proven));
        }
        gone
    }

    /// The oldest capsule goes of whoever has most: of this one, if no other has more.
    fn give_way(&mut self, newest: Ingress) -> Option<Waiter> {
        let count = |whose| self.waiting.iter().filter(|waiter| waiter.whose() == whose).count();
        let most = self.waiting.iter().map(Waiter::whose).max_by_key(|whose| (count(*whose), *whose == newest))?;
        let at = self.waiting.iter().position(|waiter| waiter.whose() == most)?;
        self.waiting.remove(at)
    }

    /// Whether a capsule of this payer waits for it.
    pub(super) fn waits(&self, whose: Ingress) -> bool {
        self.waiting.iter().any(|waiter| waiter.whose() == whose)
    }

    /// The same as if nothing had been asked for its object yet: it is not to go on before `at`.
    pub(super) fn begin_again(self, at: u64) -> Pending {
        let stage = match self.stage {
            Stage::Fetching(assembly) => Stage::LookingUp(assembly.digest, assembly.certain()),
            stage => stage,
        };
        let mut asking = self.asking;
        asking.restart(0);
        asking.wait_until(at);
        Pending { stage, asking, nonce: None, turn: 0, turn_began: None, heard: false, rounds: self.rounds + 1, ..self }
    }

    /// Whether it may go on at `now`, once it is its turn.
    pub(super) fn is_ready(&self, now: u64) -> bool {
        !self.unpaid && self.asking.is_due(now)
    }

    /// What is looked for.
    pub(super) fn wanted(&self) -> Option<Digest> {
        match &self.stage {
            Stage::LookingUp(digest, _) => Some(*digest),
            Stage::Fetching(assembly) => Some(assembly.digest),
            Stage::Preparing => None,
        }
    }

    /// Whether a request of its went unanswered, so that others may go first.
    pub(super) fn is_stuck(&self) -> bool {
        matches!(self.stage, Stage::Fetching(_)) && self.asking.tries() > 1
    }

    /// Whether it was asked for in vain often enough.
    pub(super) fn is_at_its_end(&self) -> bool {
        self.asking.is_at_its_end(&MANNER)
    }

    /// Gives up an object that the code can do without.
    pub(super) fn do_without(&mut self) -> Step {
        self.stage = Stage::Preparing;
        Step::Without { code: self.code }
    }

    /// Asks the first source that somebody pays for, for what is missing; false if nobody can pay for all of that.
    pub(super) fn ask(&mut self, now: u64, nonces: &mut Nonces, steps: &mut Vec<Step>) -> bool {
        let Stage::Fetching(assembly) = &self.stage else { return true };
        let all = self.toll.of_parts(assembly.missing(), assembly.total());
        // What one source has said of the length is worth nothing at another.
        let anew = if assembly.is_hearsay() || self.alone { self.toll.of_request(1, None) } else { all };
        let mut costs = core::iter::once(all).chain(core::iter::repeat(anew));
        let can = |source: &Source| costs.next().is_some_and(|cost| self.funds(source) >= cost);
        let Some(at) = self.sources.iter().position(can) else { return false };
        if at > 0 {
            self.end_turn();
            self.sources.turn_to(at);
        }
        let (Some(source), Stage::Fetching(assembly)) = (self.sources.first(), &mut self.stage) else { return true };
        // One nonce for all requests of a burst and their repetitions, so that a late answer counts.
        let nonce = *self.nonce.get_or_insert_with(|| nonces.draw());
        let (digest, length) = (assembly.digest, assembly.total());
        let mut wanted = assembly.next_burst();
        if self.beside && !self.heard {
            // Not every node keeps what is beside a code: a little says whether this one does.
            wanted &= wanted.wrapping_neg();
        }
        assembly.outstanding = wanted;
        for missing in requests(wanted) {
            self.pay(&source, self.toll.of_request(missing, length));
            steps.push(Step::Request { source, nonce, digest, missing });
        }
        self.reserved = if length.is_none() { fetch::PART as u64 } else { 0 };
        self.asking.asked(now, &MANNER);
        self.turn += 1;
        self.turn_began.get_or_insert(now);
        self.sources.asked();
        true
    }

    /// The same; what cannot be paid is seen to when its time has come, which is now.
    pub(super) fn ask_or_wait(&mut self, now: u64, nonces: &mut Nonces, steps: &mut Vec<Step>) {
        if !self.ask(now, nonces, steps) {
            self.asking.wait_until(now);
        }
    }

    /// An answer of so many bytes has come where one of a whole part was paid for.
    pub(super) fn settle_reserved(&mut self, bytes: usize) {
        self.credit += core::mem::take(&mut self.reserved).saturating_sub(bytes as u64);
    }

    /// Whoever has its turn has had it. What it has said of the length holds for it only; and all that it has sent, if
    /// answers are not mixed.
    fn end_turn(&mut self) {
        (self.turn, self.turn_began) = (0, None);
        self.turns += 1;
        let Stage::Fetching(assembly) = &mut self.stage else { return };
        if assembly.is_hearsay() || self.alone {
            *assembly = Assembly::new(assembly.digest, assembly.certain());
            self.nonce = None;
        }
    }

    /// Who has had its turn may never answer: the others have theirs.
    pub(super) fn next_source(&mut self) {
        if self.sources.len() < 2 {
            self.turn = 0;
            return;
        }
        self.end_turn();
        self.sources.next();
    }

    /// Whether another source is to be asked now instead of the one whose turn it is: another payer's first one after one try, and each
    /// after a few.
    pub(super) fn is_turn_over(&self, now: u64) -> bool {
        self.turn >= TURN_MAX || self.turn > 0 && self.sources.has_new() || self.is_turn_long(now)
    }

    /// Whose turn it is, if it has said nothing to all requests of a turn.
    pub(super) fn silent(&self) -> Option<Source> {
        self.sources.first().filter(|_| self.turn >= TURN_MAX)
    }

    /// Whether the source whose turn it is has answered for so long that another payer's has its turn. That is longer each time.
    pub(super) fn is_turn_long(&self, now: u64) -> bool {
        let most = TURN_TIME << self.turns.min(6);
        self.sources.are_shared() && self.turn_began.is_some_and(|began| now.saturating_sub(began) > most)
    }

    /// Whether nothing that was asked for is still to come.
    pub(super) fn has_all_it_asked_for(&self) -> bool {
        matches!(&self.stage, Stage::Fetching(assembly) if assembly.outstanding == 0)
    }

    /// Whether an answer of this source counts now.
    pub(super) fn hears(&self, from: &Source) -> bool {
        self.sources.has(from) && (!self.alone || self.sources.first() == Some(*from))
    }

    /// `from` says another length than `other` said, one of whom lies: both, if they are the same. Unless they are, the word of `other` has
    /// been waited upon, so the next word is that of `from`, and from now on of one at a time.
    pub(super) fn disagree(&mut self, now: u64, other: Source, from: Source) {
        if from == other {
            return self.wrong(now, &from);
        }
        self.alone = true;
        self.end_turn();
        let at = self.sources.iter().position(|source| *source == from);
        self.sources.turn_to(at.unwrap_or(0));
        self.asking.restart(self.asking.tries().max(1));
        self.asking.wait_until(now);
    }

    /// All of the object is here and is not what it was asked for as: it is forgotten, and whoever sent it. If that were several, nobody
    /// knows who it was, and from now on one is asked at a time.
    pub(super) fn spoilt(&mut self, now: u64) {
        let Stage::Fetching(assembly) = &self.stage else { return };
        if let Some(source) = assembly.only_of() {
            return self.wrong(now, &source);
        }
        self.alone = true;
        self.end_turn();
        self.sources.next();
        self.asking.restart(self.asking.tries().max(1));
    }

    /// This source has answered wrongly: others are asked at once. The only one is asked again, and after a few such failures nobody.
    fn wrong(&mut self, now: u64, source: &Source) {
        let Stage::Fetching(assembly) = &mut self.stage else { return };
        *assembly = Assembly::new(assembly.digest, assembly.certain());
        self.nonce = None;
        self.end_turn();
        let (others, goes_on) = (self.sources.len() > 1, self.sources.wrong(source));
        self.asking.restart(if goes_on { self.asking.tries().max(1) } else { TRIES_MAX });
        if others {
            self.asking.wait_until(now);
        }
    }
}
