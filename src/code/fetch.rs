//! Demand loading: the node asks the previous hop for the code of a capsule.
//!
//! A capsule with absent code waits here meanwhile. The node first asks for the manifest (named by the capsule), then
//! for a representation in its list. Objects travel in parts. A request names the missing parts, so lost ones are asked
//! for again, with back-off, until the give-up time. All capsules of one code share one request. Nothing else sees the
//! bytes before their digest is right. After ANTS (DLRequest, DLResponse).
//!
//! This is a state machine without I/O: the node hands it capsules, answers and the time, and sends what [`Step`]s say.
//! At most [`PENDING_MAX`] codes are on their way at a time; others wait for their turn, fairly by their neighbour
//! (`queue`). Every list has a limit, and the oldest entry of the payer with most gives way. The waiting capsules pay
//! for the requests of a search and for the answers (`fares`).

mod answered;
mod answers;
mod aside;
pub mod asking;
mod assembly;
mod fares;
pub(crate) mod nonces;
mod pending;
mod queue;
#[cfg(test)]
mod shares;
mod sources;
#[cfg(test)]
mod tests;

use crate::code::run::Ingress;
use crate::core::reason::Reason;
use crate::frame::{Frame, PeerId, PortId};
use crate::wire::{Addr, Digest};
use answered::Answered;
use asking::Manner;
pub use assembly::Part;
pub use fares::{Given, Toll, Waiter};
use nonces::Nonces;
use pending::{Pending, Stage};
use queue::Queue;
use sources::Sources;
use std::collections::VecDeque;

/// Codes that can be on their way at the same time.
pub const PENDING_MAX: usize = 64;

/// Codes that can wait for a place among those; and objects beside codes.
pub const QUEUED_MAX: usize = 1024;

/// How often a search may give way to others while it is not answered.
const ROUNDS_MAX: u32 = 5;

/// Time until an object beside a code is looked for again that could not be had; it doubles each time, up to 64-fold.
const AGAIN: u64 = 1_000_000_000;

/// Capsules that can wait for one code; a share for each payer.
pub const WAITING_PER_CODE_MAX: usize = 16;

/// Time until a request without an answer is repeated.
const RETRY: u64 = 100_000_000;

/// Requests without any progress after which the previous hop counts as silent.
const TRIES_MAX: u32 = 10;

/// How code is asked for: pauses double, up to eightfold.
const MANNER: Manner = Manner { pause: RETRY, doublings: 3, tries: TRIES_MAX };

/// Requests without any progress after which the next source has its turn.
const TURN_MAX: u32 = 2;

/// Time for which a source that answers has its turn while another payer's can be asked; it doubles with each turn, up to 64-fold.
const TURN_TIME: u64 = 500_000_000;

/// Objects with a wrong digest, or of a length that a source does not stand by, after which sources that its payer names are not asked any
/// more; and a code is given up if there is no other.
const FAILURES_MAX: u32 = 3;

/// Sources of one code that are remembered, to be asked in turn; a share for each payer.
const SOURCES_MAX: usize = 4;

/// Where code can be asked for: the previous hop of a capsule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source {
    /// The port the capsule came by.
    pub port: PortId,
    /// The overlay peer, if the port has peers.
    pub peer: PeerId,
    /// The previous node.
    pub addr: Addr,
}

/// What the node shall do next for a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look into the store for this object; answer with [`Fetch::looked_up`].
    LookUp(Digest),
    /// Ask `source` for the parts of `digest` in `missing`.
    Request {
        /// Whom to ask.
        source: Source,
        /// The answer must carry it.
        nonce: u32,
        /// The object.
        digest: Digest,
        /// Bit i: part i.
        missing: u64,
    },
    /// An object has arrived whole and has the right digest: decide what to do with it.
    Object {
        /// The code it was fetched for.
        code: Digest,
        /// Its own name.
        digest: Digest,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// An object that the code can do without is nowhere to be had.
    Without {
        /// The code.
        code: Digest,
    },
    /// What was looked for beside this code is not here, and nobody can be asked for it.
    Alone(Digest),
    /// An object of this code is not here, and nobody can be asked for it.
    Abandon(Digest),
}

/// Codes on their way, and the capsules that wait for them.
pub struct Fetch {
    pending: VecDeque<Pending>,
    queue: Queue,
    nonces: Nonces,
    answered: Answered,
}

impl Fetch {
    /// A fetcher whose nonces nobody can guess who does not know `secret`.
    pub fn new(secret: [u8; 32]) -> Fetch {
        Fetch {
            pending: VecDeque::new(),
            queue: Queue::default(),
            nonces: Nonces::new(secret),
            answered: Answered::default(),
        }
    }

    /// Codes on their way.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether nothing is on its way, nor waits for that.
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.queue.len() == 0
    }

    /// Whether this code is on its way, or waits for that.
    pub fn is_pending(&self, code: &Digest) -> bool {
        self.pending.iter().any(|pending| pending.is_of(code)) || self.queue.has(code)
    }

    /// Codes, and objects beside codes, that wait for a place among those on their way.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The capsule that has waited for a code for longest.
    pub fn first_waiting(&self, code: &Digest) -> Option<&Frame> {
        let known = self.pending.iter().find(|pending| pending.is_of(code));
        Some(&known.or_else(|| self.queue.of(code))?.waiting.front()?.frame)
    }

    /// Capsules that wait.
    pub fn waiting(&self) -> usize {
        self.pending.iter().map(|pending| pending.waiting.len()).sum::<usize>() + self.queue.capsules()
    }

    /// When [`Fetch::expire`] has something to do; 0: now.
    pub fn deadline(&self) -> Option<u64> {
        let asked = self.pending.iter().filter(|p| matches!(p.stage, Stage::Fetching(_))).map(|p| p.asking.at()).min();
        let next = if self.pending.len() < PENDING_MAX { self.queue.deadline() } else { None };
        asked.into_iter().chain(next).min()
    }

    /// A capsule needs `code` at `now`, or the node without one. Gives the steps that go on with the search if it is the first, and
    /// the frames that had to give way to it.
    pub fn wait(&mut self, now: u64, code: Digest, waiter: Option<Waiter>) -> (Vec<Step>, Vec<Given>) {
        let (mut steps, mut given) = (Vec::new(), Vec::new());
        let source = waiter.as_ref().and_then(|waiter| waiter.source);
        let proven = source.is_some_and(|source| self.answered.has(&source));
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.is_of(&code)) {
            let (whose, had) = (waiter.as_ref().map(Waiter::whose), pending.lane);
            given.extend(waiter.and_then(|waiter| pending.join(now, waiter, proven)).map(Given::for_room));
            let joined = whose.filter(|whose| *whose != had && pending.waits(*whose));
            joined.into_iter().for_each(|whose| self.share_turn(&code, whose));
            return (steps, given);
        }
        if self.queue.has(&code) {
            let (gone, is_in_another_lane) =
                waiter.map(|waiter| self.queue.join(now, &code, waiter, proven)).unwrap_or_default();
            given.extend(gone.into_iter().map(Given::for_room));
            if is_in_another_lane {
                self.go_on(now, &mut steps, &mut given);
            }
            return (steps, given);
        }
        let lane = waiter.as_ref().map_or(Ingress::Node, Waiter::whose);
        let mut pending = Pending::new(code, lane, Sources::default(), Stage::LookingUp(code, None));
        pending.asking.wait_until(now);
        given.extend(waiter.and_then(|waiter| pending.join(now, waiter, proven)).map(Given::for_room));
        given.extend(self.queue.push(pending).into_iter().map(Given::for_room));
        self.go_on(now, &mut steps, &mut given);
        (steps, given)
    }

    /// A capsule of this payer waits for a code on its way as well: the search takes the turn of whoever has fewer.
    fn share_turn(&mut self, code: &Digest, whose: Ingress) {
        let of = |lane: Ingress| self.pending.iter().filter(|pending| pending.lane == lane).count();
        let Some(at) = self.pending.iter().position(|pending| pending.is_of(code)) else { return };
        if of(whose) < of(self.pending[at].lane) {
            self.pending[at].lane = whose;
        }
    }

    /// Starts searches that wait, as long as there is room or one that goes on for long gives way.
    fn go_on(&mut self, now: u64, steps: &mut Vec<Step>, given: &mut Vec<Given>) {
        loop {
            let full = self.pending.len() >= PENDING_MAX;
            let mut ready = self.queue.ready(now);
            let next =
                ready.find_map(
                    |whose| if full { Some((whose, Some(self.giving_way(whose)?))) } else { Some((whose, None)) },
                );
            drop(ready);
            let Some((whose, late)) = next else { return };
            if let Some(late) = late.and_then(|at| self.pending.remove(at)) {
                self.put_back(now, late, given);
            }
            let Some(mut pending) = self.queue.pop(now, whose) else { return };
            pending.sources.turn_to_one_of(whose);
            steps.extend(pending.wanted().map(Step::LookUp));
            pending.asking.wait_until(u64::MAX);
            self.pending.push_back(pending);
        }
    }

    /// Lets a search that is not answered wait behind all others; one that has had its turns is given up. An object beside a code is never:
    /// nobody waits for it, and the kernel half gets it some time.
    fn put_back(&mut self, now: u64, late: Pending, given: &mut Vec<Given>) {
        if !late.beside && late.rounds >= ROUNDS_MAX {
            given.extend(
                late.waiting.into_iter().map(|waiter| Given { frame: waiter.frame, reason: Reason::FetchTimeout }),
            );
            return;
        }
        let pause = if late.beside { AGAIN << late.rounds.min(6) } else { RETRY };
        given.extend(self.queue.push(late.begin_again(now + pause)).into_iter().map(Given::for_room));
    }

    /// The search that gives way to one of this neighbour's: the oldest that nobody answers; or, where the neighbour has less than its
    /// share on its way, the oldest of whoever has most.
    fn giving_way(&self, whose: Ingress) -> Option<usize> {
        let can = |pending: &Pending| !pending.is_near_its_end();
        if let Some(stuck) = self.pending.iter().position(|pending| can(pending) && pending.is_stuck()) {
            return Some(stuck);
        }
        let of = |lane: Ingress| self.pending.iter().filter(|pending| pending.lane == lane).count();
        let most =
            self.pending.iter().map(|pending| (of(pending.lane), pending.lane)).max_by_key(|(count, _)| *count)?;
        if most.1 == whose || of(whose) + 1 >= most.0 {
            return None;
        }
        self.pending.iter().position(|pending| can(pending) && pending.lane == most.1)
    }

    /// Another object of a code on its way, from where the others come; nothing waits for it. Nothing: more objects wait for that than
    /// can.
    pub fn beside(&mut self, now: u64, code: Digest, digest: Digest, length: u32) -> Option<(Vec<Step>, Vec<Given>)> {
        let of = self.pending.iter().find(|pending| pending.is_of(&code))?;
        if self.queue.besides() >= QUEUED_MAX {
            return None;
        }
        let mut pending = Pending::new(code, of.lane, of.sources.clone(), Stage::LookingUp(digest, Some(length)));
        (pending.beside, pending.toll) = (true, of.toll);
        pending.asking.wait_until(now);
        self.end_beside(&code);
        self.queue.push(pending);
        let (mut steps, mut given) = (Vec::new(), Vec::new());
        self.go_on(now, &mut steps, &mut given);
        Some((steps, given))
    }

    /// By which way the capsule came for which an object is looked for.
    pub fn whose(&self, digest: &Digest) -> Ingress {
        let of = self.pending.iter().find(|pending| pending.wanted() == Some(*digest));
        of.map_or(Ingress::Node, |pending| pending.lane)
    }

    /// By which way the capsule came that made the node fetch what is beside a code.
    pub fn whose_beside(&self, code: &Digest) -> Ingress {
        let beside = self.pending.iter().find(|pending| pending.beside && pending.code == *code);
        beside.map_or(Ingress::Node, |pending| pending.lane)
    }

    /// What was fetched beside a code is here, or not wanted any more.
    pub fn end_beside(&mut self, code: &Digest) {
        self.pending.retain(|pending| !(pending.beside && pending.code == *code));
        self.queue.remove(code, true);
    }

    /// The next object of a code whose last one has been understood: the representation its manifest
    /// names, with its length, so that all its parts can be asked for at once.
    pub fn next_object(&mut self, code: Digest, digest: Digest, length: u32) -> Option<Step> {
        self.look_for(code, digest, Some(length), false)
    }

    /// An object that the code can do without: what is not here is asked for like any other, and when nobody has it,
    /// [`Step::Without`] says so.
    pub fn optional_object(&mut self, code: Digest, digest: Digest) -> Option<Step> {
        self.look_for(code, digest, None, true)
    }

    fn look_for(&mut self, code: Digest, digest: Digest, length: Option<u32>, optional: bool) -> Option<Step> {
        let pending = self.pending.iter_mut().find(|pending| pending.is_of(&code))?;
        pending.stage = Stage::LookingUp(digest, length);
        pending.optional = optional;
        pending.sources.forget_absent();
        Some(Step::LookUp(digest))
    }

    /// All objects of the code are here; it is being prepared to run.
    pub fn preparing(&mut self, code: Digest) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.is_of(&code)) {
            pending.stage = Stage::Preparing;
        }
    }

    /// Whether all objects of the code are here and it is being prepared.
    pub fn is_preparing(&self, code: &Digest) -> bool {
        self.pending.iter().any(|pending| pending.is_of(code) && matches!(pending.stage, Stage::Preparing))
    }

    /// Takes those capsules out that wait for a code and are not to have it; says how many are left.
    pub fn turn_away(&mut self, code: &Digest, goes: impl Fn(&Frame) -> bool) -> (Vec<Frame>, usize) {
        let Some(pending) = self.pending.iter_mut().find(|pending| pending.is_of(code)) else { return (Vec::new(), 0) };
        let waiting = core::mem::take(&mut pending.waiting).into_iter();
        let (gone, stay) = waiting.partition::<Vec<_>, _>(|waiter| goes(&waiter.frame));
        pending.waiting = stay.into();
        (gone.into_iter().map(|waiter| waiter.frame).collect(), pending.waiting.len())
    }

    /// The code can run, or never will: gives the capsules that waited for it.
    pub fn settle(&mut self, code: Digest) -> impl Iterator<Item = Waiter> + use<> {
        let at = self.pending.iter().position(|pending| pending.is_of(&code));
        let gone = at.and_then(|at| self.pending.remove(at)).or_else(|| self.queue.remove(&code, false));
        gone.into_iter().flat_map(|pending| pending.waiting)
    }

    /// Repeats what was not answered and gives up what was repeated often enough.
    pub fn expire(&mut self, now: u64) -> (Vec<Step>, Vec<Given>) {
        let (mut steps, mut given) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < self.pending.len() {
            let pending = &mut self.pending[at];
            if !matches!(pending.stage, Stage::Fetching(_)) || !pending.asking.is_due(now) {
                at += 1;
            } else if pending.is_at_its_end() && pending.optional {
                steps.push(pending.do_without());
                at += 1;
            } else if pending.is_at_its_end() {
                let Some(gone) = self.pending.remove(at) else { break };
                let rounds = if gone.beside { gone.rounds } else { ROUNDS_MAX };
                self.put_back(now, Pending { rounds, ..gone }, &mut given);
            } else {
                if pending.is_turn_over(now) {
                    pending.silent().into_iter().for_each(|source| self.answered.forget(&source));
                    pending.next_source();
                }
                if !pending.ask(now, &mut self.nonces, &mut steps) && !self.pays_beside(at) {
                    let unpaid = self.pending.remove(at);
                    unpaid.into_iter().for_each(|gone| self.put_off(now, gone, &mut steps, &mut given));
                    continue;
                }
                // What those that wait for the code have paid just now is asked for at once.
                at += usize::from(!self.pending[at].asking.is_due(now));
            }
        }
        self.go_on(now, &mut steps, &mut given);
        (steps, given)
    }
}
