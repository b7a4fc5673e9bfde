//! Searches that wait for a place among those on their way.
//!
//! Each neighbour that the port knows has a lane, and so have all others of a port together ([`Ingress`]), since a name
//! that costs nothing is worth nothing. Lanes have turns, so a greedy neighbour waits behind itself. A search without
//! room displaces the oldest of the longest lane: a flood of names costs its own sender. Objects beside a code, without
//! waiting capsules, are counted apart and give way to nothing.

use super::pending::Pending;
use super::{QUEUED_MAX, Waiter};
use crate::code::run::Ingress;
use crate::wire::Digest;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// By what a search is known: the code, and whether it is beside that.
type Key = (Digest, bool);

/// The searches that one payer waits for.
struct Lane {
    whose: Ingress,
    waiting: VecDeque<Key>,
    /// Its capsules that wait for them.
    capsules: usize,
}

/// Searches that wait.
#[derive(Default)]
pub(super) struct Queue {
    all: HashMap<Key, Pending, foldhash::fast::FixedState>,
    /// The same by their times.
    due: BTreeSet<(u64, Key)>,
    /// Whose turn it is stands first; none is empty.
    lanes: VecDeque<Lane>,
    besides: usize,
    /// Those of them that nobody pays for now.
    unpaid: usize,
    capsules: usize,
}

/// Capsules that can wait here, over all codes.
const CAPSULES_MAX: usize = 2048;

impl Queue {
    /// Objects beside codes that nobody pays for now.
    pub fn unpaid(&self) -> usize {
        self.unpaid
    }

    /// The search for what is beside a code, if it waits for somebody who pays, and may go on at `now`.
    pub fn owed(&self, now: u64, code: &Digest) -> Option<&Pending> {
        self.all.get(&(*code, true)).filter(|pending| pending.unpaid && pending.asking.is_due(now))
    }

    /// Searches that wait.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Objects beside codes among them.
    pub fn besides(&self) -> usize {
        self.besides
    }

    pub fn has(&self, code: &Digest) -> bool {
        !self.all.is_empty() && self.all.contains_key(&(*code, false))
    }

    /// Whether an object beside a code waits.
    pub fn has_beside(&self, code: &Digest) -> bool {
        self.all.contains_key(&(*code, true))
    }

    /// A search for a code.
    pub fn of(&self, code: &Digest) -> Option<&Pending> {
        self.all.get(&(*code, false))
    }

    /// Another capsule waits for a code that waits here: gives those that there is no room for any more, and whether the code is in another
    /// lane now.
    pub fn join(&mut self, now: u64, code: &Digest, waiter: Waiter, proven: bool) -> (VecDeque<Waiter>, bool) {
        let key = (*code, false);
        let Some(pending) = self.all.get_mut(&key) else { return (VecDeque::from([waiter]), false) };
        let whose = waiter.whose();
        let is_new = pending.lane != whose && !pending.waits(whose);
        let mut gone: VecDeque<_> = pending.join(now, waiter, proven).into_iter().collect();
        let is_new = is_new && pending.waits(whose);
        if is_new {
            self.lane(whose).waiting.push_back(key);
        }
        self.count(whose, 1, 0);
        gone.iter().map(Waiter::whose).collect::<Vec<_>>().into_iter().for_each(|whose| self.count(whose, 0, 1));
        self.shorten(&mut gone);
        (gone, is_new)
    }

    /// The lane of a payer.
    fn lane(&mut self, whose: Ingress) -> &mut Lane {
        let at = self.lanes.iter().position(|lane| lane.whose == whose).unwrap_or_else(|| {
            self.lanes.push_back(Lane { whose, waiting: VecDeque::new(), capsules: 0 });
            self.lanes.len() - 1
        });
        &mut self.lanes[at]
    }

    /// So many capsules more, or less, of this payer wait.
    fn count(&mut self, whose: Ingress, more: usize, less: usize) {
        self.capsules = self.capsules + more - less;
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.whose == whose) {
            lane.capsules = lane.capsules + more - less;
        }
    }

    /// While too many capsules wait, whoever has most loses those that wait for its oldest code.
    fn shorten(&mut self, gone: &mut VecDeque<Waiter>) {
        while self.capsules > CAPSULES_MAX {
            let Some(whose) = self.lanes.iter().max_by_key(|lane| lane.capsules).map(|lane| lane.whose) else { return };
            match self.withdraw(whose) {
                Some(withdrawn) => gone.extend(withdrawn),
                None => return,
            }
        }
    }

    /// Capsules that wait.
    pub fn capsules(&self) -> usize {
        self.capsules
    }

    /// Whose searches may go on at `now`, in their turns.
    pub fn ready(&self, now: u64) -> impl Iterator<Item = Ingress> {
        let ready = move |key: &Key| self.all.get(key).is_some_and(|pending| pending.is_ready(now));
        self.lanes.iter().filter(move |lane| lane.waiting.iter().any(ready)).map(|lane| lane.whose)
    }

    /// When the first may go on.
    pub fn deadline(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Lets a search wait, not before its time; gives the capsules that have to go for it.
    pub fn push(&mut self, pending: Pending) -> VecDeque<Waiter> {
        let key = (pending.code, pending.beside);
        let mut gone = VecDeque::new();
        while !pending.beside && self.all.len() - self.besides >= QUEUED_MAX {
            match self.longest().and_then(|whose| self.withdraw(whose)) {
                Some(withdrawn) => gone.extend(withdrawn),
                None => break,
            }
        }
        self.besides += usize::from(pending.beside);
        self.lane(pending.lane).waiting.push_back(key);
        for whose in pending.waiting.iter().map(Waiter::whose) {
            let lane = self.lane(whose);
            if lane.waiting.back() != Some(&key) {
                lane.waiting.push_back(key);
            }
            self.count(whose, 1, 0);
        }
        if pending.unpaid {
            self.unpaid += 1;
        } else {
            self.due.insert((pending.asking.at(), key));
        }
        self.all.insert(key, pending);
        self.shorten(&mut gone);
        gone
    }

    /// The next search of this lane whose time has come at `now`: it has had its turn.
    pub fn pop(&mut self, now: u64, whose: Ingress) -> Option<Pending> {
        let all = &self.all;
        let ready = |key: &&Key| all.get(*key).is_some_and(|pending| pending.is_ready(now));
        let at = self.lanes.iter().position(|lane| lane.whose == whose)?;
        let (code, beside) = *self.lanes[at].waiting.iter().find(ready)?;
        let lane = self.lanes.remove(at)?;
        self.lanes.push_back(lane);
        let mut pending = self.remove(&code, beside)?;
        pending.lane = whose;
        Some(pending)
    }

    /// Takes a search out.
    pub fn remove(&mut self, code: &Digest, beside: bool) -> Option<Pending> {
        let key = (*code, beside);
        let pending = self.all.remove(&key)?;
        self.due.remove(&(pending.asking.at(), key));
        self.besides -= usize::from(pending.beside);
        self.unpaid -= usize::from(pending.unpaid);
        pending.waiting.iter().for_each(|waiter| self.count(waiter.whose(), 0, 1));
        for lane in self.lanes.iter_mut().filter(|lane| lane.whose == pending.lane || pending.waits(lane.whose)) {
            lane.waiting.retain(|other| *other != key);
        }
        self.lanes.retain(|lane| !lane.waiting.is_empty());
        Some(pending)
    }

    /// The lane with most codes.
    fn longest(&self) -> Option<Ingress> {
        let codes = |lane: &&Lane| lane.waiting.iter().filter(|(_, beside)| !beside).count();
        self.lanes.iter().max_by_key(codes).map(|lane| lane.whose)
    }

    /// A payer's capsules go that wait for its oldest code; and the search, if nobody else waits for it.
    fn withdraw(&mut self, whose: Ingress) -> Option<VecDeque<Waiter>> {
        let lane = self.lanes.iter_mut().find(|lane| lane.whose == whose)?;
        let at = lane.waiting.iter().position(|(_, beside)| !beside)?;
        let key = lane.waiting[at];
        let pending = self.all.get_mut(&key)?;
        let (gone, stay): (VecDeque<_>, VecDeque<_>) =
            core::mem::take(&mut pending.waiting).into_iter().partition(|waiter| waiter.whose() == whose);
        let Some(other) = stay.front().map(Waiter::whose) else {
            pending.waiting = gone;
            return self.remove(&key.0, false).map(|pending| pending.waiting);
        };
        (pending.lane, pending.waiting) = (other, stay);
        lane.waiting.remove(at);
        self.count(whose, 0, gone.len());
        self.lanes.retain(|lane| !lane.waiting.is_empty());
        Some(gone)
    }
}
