//! One code on its way: which object is looked for, whom to ask for it, and who waits.

use super::asking::Asking;
use super::assembly::Assembly;
use super::fares::{Toll, Waiter, requests};
use super::nonces::Nonces;
use super::{FAILURES_MAX, MANNER, SOURCES_MAX, Source, Step, TRIES_MAX};
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
    /// Sources that do not have the object, if it is optional.
    pub(super) absent: usize,
    /// Whose turn it is stands first.
    pub(super) sources: VecDeque<Source>,
    /// By which way that came that made the node look for it: whose turn it takes. Addresses that packets claim say nothing here.
    pub(super) lane: Ingress,
    /// How often it gave way to others, or was asked for in vain.
    pub(super) rounds: u32,
    pub(super) nonce: Option<u32>,
    /// Requests and their answers; what waits for its turn waits until the time of the next one.
    pub(super) asking: Asking,
    /// Requests to the source whose turn it is.
    pub(super) turn: u32,
    pub(super) failures: u32,
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
    pub(super) fn new(code: Digest, lane: Ingress, sources: VecDeque<Source>, stage: Stage) -> Pending {
        Pending {
            code,
            beside: false,
            stage,
            optional: false,
            absent: 0,
            lane,
            rounds: 0,
            sources,
            nonce: None,
            asking: Asking::new(u64::MAX),
            turn: 0,
            failures: 0,
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

    /// Another neighbour can be asked for it.
    pub(super) fn learn(&mut self, source: Option<Source>) {
        if let Some(source) = source
            && !self.sources.contains(&source)
            && self.sources.len() < SOURCES_MAX
        {
            self.sources.push_back(source);
        }
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
        Pending { stage, asking, nonce: None, turn: 0, heard: false, rounds: self.rounds + 1, ..self }
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
        let anew = if assembly.is_hearsay() { self.toll.of_request(1, None) } else { all };
        let mut costs = core::iter::once(all).chain(core::iter::repeat(anew));
        let can = |source: &Source| costs.next().is_some_and(|cost| self.funds(source) >= cost);
        let Some(at) = self.sources.iter().position(can) else { return false };
        self.turn_to(at);
        let (Some(&source), Stage::Fetching(assembly)) = (self.sources.front(), &mut self.stage) else { return true };
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

    /// The source at this place has its turn.
    fn turn_to(&mut self, at: usize) {
        if at == 0 {
            return;
        }
        if let Stage::Fetching(assembly) = &mut self.stage
            && assembly.is_hearsay()
        {
            *assembly = Assembly::new(assembly.digest, None);
            self.nonce = None;
        }
        self.turn = 0;
        self.sources.rotate_left(at);
    }

    /// Who has had its turn may never answer: the others have theirs. What was said of the length only
    /// holds for the source that said it.
    pub(super) fn next_source(&mut self) {
        self.turn = 0;
        if self.sources.len() < 2 {
            return;
        }
        if matches!(&self.stage, Stage::Fetching(assembly) if assembly.is_hearsay()) {
            self.start_over();
        } else {
            self.sources.rotate_left(1);
        }
    }

    /// `from` says another length than `other` said, one of whom lies. Unless `other` is the same, its
    /// word has been waited upon, so the next word is that of `from`.
    pub(super) fn disagree(&mut self, now: u64, other: Source, from: Source) {
        self.start_over();
        if from != other
            && let Some(at) = self.sources.iter().position(|source| *source == from)
        {
            self.sources.rotate_left(at);
        }
        self.asking.wait_until(now);
    }

    /// The object was not what it was asked for as: forget it and ask the next source, or after a
    /// few such failures nobody.
    pub(super) fn start_over(&mut self) {
        let Stage::Fetching(assembly) = &mut self.stage else { return };
        *assembly = Assembly::new(assembly.digest, assembly.certain());
        self.failures += 1;
        (self.nonce, self.turn) = (None, 0);
        let tries = if self.failures >= FAILURES_MAX { TRIES_MAX } else { self.asking.tries().max(1) };
        self.asking.restart(tries);
        self.sources.rotate_left(1);
    }
}
