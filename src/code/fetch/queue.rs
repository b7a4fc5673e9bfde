//! Searches that wait for a place among those on their way.
//!
//! Each neighbour that the port knows has a lane, and so have all others of a port together ([`Ingress`]), since a name that costs nothing
//! is worth nothing; lanes have turns, so who wants much waits behind itself. What
//! finds no room displaces the oldest search of the longest lane: a flood of names costs its own sender. Objects beside a code,
//! for which no capsule waits, are counted apart and give way to nothing.

use super::pending::Pending;
use super::{QUEUED_MAX, WAITING_PER_CODE_MAX, Waiter};
use crate::code::run::Ingress;
use crate::wire::Digest;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// By what a search is known: the code, and whether it is beside that.
type Key = (Digest, bool);

/// The searches that come by one way.
struct Lane {
    whose: Ingress,
    waiting: VecDeque<Key>,
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

    /// Another capsule waits for a code, if that waits: gives the one that there is no room for any more.
    pub fn join(&mut self, code: &Digest, waiter: Option<Waiter>) -> Option<Option<Waiter>> {
        let pending = self.all.get_mut(&(*code, false))?;
        let full = waiter.is_some() && (pending.waiting.len() == WAITING_PER_CODE_MAX || self.capsules >= CAPSULES_MAX);
        let gone = if full { pending.waiting.pop_front() } else { None };
        let one_more = waiter.is_some();
        match waiter {
            // All that wait are others'.
            Some(waiter) if full && gone.is_none() => return Some(Some(waiter)),
            waiter => pending.join(waiter),
        }
        self.capsules += usize::from(one_more);
        self.capsules -= usize::from(gone.is_some());
        Some(gone)
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

    /// Lets a search wait, not before its time; gives the capsules of the one that has to go for it.
    pub fn push(&mut self, pending: Pending) -> VecDeque<Waiter> {
        let key = (pending.code, pending.beside);
        let full = !pending.beside && self.all.len() - self.besides >= QUEUED_MAX;
        let gone = if full { self.displace() } else { VecDeque::new() };
        self.besides += usize::from(pending.beside);
        self.capsules += pending.waiting.len();
        match self.lanes.iter_mut().find(|lane| lane.whose == pending.lane) {
            Some(lane) => lane.waiting.push_back(key),
            None => self.lanes.push_back(Lane { whose: pending.lane, waiting: VecDeque::from([key]) }),
        }
        if pending.unpaid {
            self.unpaid += 1;
        } else {
            self.due.insert((pending.asking.at(), key));
        }
        self.all.insert(key, pending);
        gone
    }

    /// The next search of these whose time has come at `now`: its lane has had its turn.
    pub fn pop(&mut self, now: u64, whose: Ingress) -> Option<Pending> {
        let all = &self.all;
        let ready = |key: &Key| all.get(key).is_some_and(|pending| pending.is_ready(now));
        let at = self.lanes.iter().position(|lane| lane.whose == whose)?;
        let place = self.lanes[at].waiting.iter().position(ready)?;
        let mut lane = self.lanes.remove(at)?;
        let key = lane.waiting.remove(place)?;
        if !lane.waiting.is_empty() {
            self.lanes.push_back(lane);
        }
        self.take(key)
    }

    /// Takes a search out.
    pub fn remove(&mut self, code: &Digest, beside: bool) -> Option<Pending> {
        let key = (*code, beside);
        let pending = self.take(key)?;
        for lane in &mut self.lanes {
            lane.waiting.retain(|other| *other != key);
        }
        self.lanes.retain(|lane| !lane.waiting.is_empty());
        Some(pending)
    }

    fn take(&mut self, key: Key) -> Option<Pending> {
        let pending = self.all.remove(&key)?;
        self.due.remove(&(pending.asking.at(), key));
        self.besides -= usize::from(pending.beside);
        self.unpaid -= usize::from(pending.unpaid);
        self.capsules -= pending.waiting.len();
        Some(pending)
    }

    /// The oldest search that capsules wait for, of the lane that has most, goes.
    fn displace(&mut self) -> VecDeque<Waiter> {
        let codes = |lane: &Lane| lane.waiting.iter().filter(|(_, beside)| !beside).count();
        let Some(longest) = self.lanes.iter().max_by_key(|lane| codes(lane)) else { return VecDeque::new() };
        let Some((code, _)) = longest.waiting.iter().find(|(_, beside)| !beside).copied() else {
            return VecDeque::new();
        };
        self.remove(&code, false).map(|pending| pending.waiting).unwrap_or_default()
    }
}
