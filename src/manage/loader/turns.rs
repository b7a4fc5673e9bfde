//! Turns of jobs: queues per ingress and, in each, per principal, served in turn.
//!
//! A greedy sender waits behind itself, and so does a sender of long jobs, where the time is told ([`Turns::spent`]).
//! The next job is of the queue that has taken least since it began to wait (start-time fair queueing, Goyal et al.,
//! 1996). All queues together are bounded. When they are full, the longest ingress's newest job gives way, so a flood
//! displaces itself and nobody can take the last place. Lists are as long as jobs wait, so they need no other bound.
//! Longest queue drop after Suter et al., Design considerations for supporting TCP with per-flow queueing, 1998.

use crate::frame::Payer;
use crate::node::{Cause, Ingress};
use crate::trust::PrincipalId;
use serde::Serialize;
use std::collections::{HashMap, VecDeque};

/// Ingresses whose drops are remembered one by one; those of others are summed up.
const NAMED_MAX: usize = 64;

/// Jobs that wait.
pub struct Turns<T> {
    ingresses: VecDeque<Waiting<T>>,
    count: usize,
    most: usize,
    /// What was spent on the job that is done, on the scale of all; and on whose jobs more.
    now: u64,
    ahead: HashMap<Ingress, u64>,
    dropped: Vec<(Ingress, u64)>,
    dropped_of_others: u64,
}

/// Jobs of one ingress.
struct Waiting<T> {
    ingress: Ingress,
    principals: VecDeque<(Option<PrincipalId>, VecDeque<T>)>,
    count: usize,
}

/// What one ingress has waiting, and what was dropped of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueStatus {
    /// Whose: a neighbour, the strangers of a port, or the node.
    pub of: String,
    /// Jobs that wait.
    pub waiting: usize,
    /// Jobs that found no place, or gave theirs to somebody with less.
    pub dropped: u64,
}

impl<T> Turns<T> {
    /// Room for `most` jobs.
    pub fn new(most: usize) -> Turns<T> {
        let (ingresses, dropped, ahead) = Default::default();
        Turns { ingresses, count: 0, most: most.max(1), now: 0, ahead, dropped, dropped_of_others: 0 }
    }

    /// Jobs that wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes a job in; gives the one that has no place.
    pub fn push(&mut self, cause: Cause, job: T) -> Option<T> {
        self.enter(cause, job);
        if self.count <= self.most {
            return None;
        }
        let longest = self.ingresses.iter_mut().max_by_key(|waiting| waiting.count)?;
        let ingress = longest.ingress;
        let gone = longest.principals.iter_mut().max_by_key(|(_, jobs)| jobs.len())?.1.pop_back();
        longest.leave();
        self.count -= 1;
        self.forget_idle();
        self.count_drop(ingress);
        gone
    }

    fn enter(&mut self, cause: Cause, job: T) {
        let at = self.ingresses.iter().position(|waiting| waiting.ingress == cause.ingress).unwrap_or_else(|| {
            let new = Waiting { ingress: cause.ingress, principals: VecDeque::new(), count: 0 };
            self.ingresses.push_back(new);
            self.ingresses.len() - 1
        });
        let waiting = &mut self.ingresses[at];
        match waiting.principals.iter_mut().find(|(principal, _)| *principal == cause.principal) {
            Some((_, jobs)) => jobs.push_back(job),
            None => waiting.principals.push_back((cause.principal, VecDeque::from([job]))),
        }
        waiting.count += 1;
        self.count += 1;
    }

    /// The next job of an ingress that may have one done now.
    pub fn next(&mut self, may: impl Fn(&Ingress) -> bool) -> Option<(Ingress, T)> {
        let mark = |waiting: &Waiting<T>| self.ahead.get(&waiting.ingress).copied().unwrap_or(0).max(self.now);
        let ready = self.ingresses.iter().enumerate().filter(|(_, waiting)| may(&waiting.ingress));
        let (at, now) = ready.map(|(at, waiting)| (at, mark(waiting))).min_by_key(|(_, mark)| *mark)?;
        if now > self.now {
            self.now = now;
            self.ahead.retain(|_, mark| *mark > now);
        }
        let mut waiting = self.ingresses.remove(at)?;
        let (principal, mut jobs) = waiting.principals.pop_front()?;
        let job = jobs.pop_front()?;
        if !jobs.is_empty() {
            waiting.principals.push_back((principal, jobs));
        }
        waiting.count -= 1;
        self.count -= 1;
        let ingress = waiting.ingress;
        if waiting.count > 0 {
            self.ingresses.push_back(waiting);
        }
        Some((ingress, job))
    }

    /// A job of this ingress took so long.
    pub fn spent(&mut self, ingress: Ingress, nanoseconds: u64) {
        let mark = self.ahead.entry(ingress).or_insert(0);
        *mark = (*mark).max(self.now).saturating_add(nanoseconds);
    }

    /// Takes jobs out; says how many they were.
    pub fn remove(&mut self, is: impl Fn(&T) -> bool) -> usize {
        let before = self.count;
        for waiting in &mut self.ingresses {
            waiting.principals.iter_mut().for_each(|(_, jobs)| jobs.retain(|job| !is(job)));
            waiting.principals.retain(|(_, jobs)| !jobs.is_empty());
            waiting.count = waiting.principals.iter().map(|(_, jobs)| jobs.len()).sum();
        }
        self.forget_idle();
        self.count = self.ingresses.iter().map(|waiting| waiting.count).sum();
        before - self.count
    }

    fn forget_idle(&mut self) {
        self.ingresses.retain(|waiting| waiting.count > 0);
    }

    fn count_drop(&mut self, ingress: Ingress) {
        let named = self.dropped.len();
        match self.dropped.iter_mut().find(|(known, _)| *known == ingress) {
            Some((_, count)) => *count += 1,
            None if named < NAMED_MAX => self.dropped.push((ingress, 1)),
            None => self.dropped_of_others += 1,
        }
    }

    /// What waits and what was dropped, by ingress.
    pub fn status(&self) -> Vec<QueueStatus> {
        let dropped =
            |ingress: &Ingress| self.dropped.iter().find(|(known, _)| known == ingress).map_or(0, |(_, count)| *count);
        let waiting = self.ingresses.iter().map(|waiting| (waiting.ingress, waiting.count));
        let idle = self.dropped.iter().filter(|(known, _)| self.ingresses.iter().all(|it| it.ingress != *known));
        let mut list: Vec<QueueStatus> = waiting
            .chain(idle.map(|(ingress, _)| (*ingress, 0)))
            .map(|(ingress, waiting)| QueueStatus { of: name(&ingress), waiting, dropped: dropped(&ingress) })
            .collect();
        if self.dropped_of_others > 0 {
            list.push(QueueStatus { of: "others".into(), waiting: 0, dropped: self.dropped_of_others });
        }
        list
    }
}

impl<T> Waiting<T> {
    fn leave(&mut self) {
        self.count -= 1;
        self.principals.retain(|(_, jobs)| !jobs.is_empty());
    }
}

/// An ingress for people.
fn name(ingress: &Ingress) -> String {
    match ingress {
        Ingress::Node => "the node".into(),
        Ingress::Review => "roles that are looked at again".into(),
        Ingress::Port(port, Payer(row)) if *row == port.0 => format!("all others at port {}", port.0),
        Ingress::Port(port, Payer(row)) => format!("neighbour of row {row} at port {}", port.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::PortId;

    fn from(port: u16) -> Cause {
        Cause { ingress: Ingress::Port(PortId(port), Payer(port)), principal: None }
    }

    fn drain<T>(turns: &mut Turns<T>) -> Vec<T> {
        std::iter::from_fn(|| turns.next(|_| true)).map(|(_, job)| job).collect()
    }

    #[test]
    fn who_sends_much_waits_behind_itself() {
        let mut turns = Turns::new(100);
        (0..50).for_each(|job| assert!(turns.push(from(0), job).is_none()));
        turns.push(from(1), 100);
        turns.push(Cause::default(), 200);
        assert_eq!(drain(&mut turns)[..4], [0, 100, 200, 1]);
    }

    #[test]
    fn principals_of_one_neighbour_share_its_turns() {
        let mut turns = Turns::new(100);
        let by = |name: u8| Cause { principal: Some(PrincipalId([name; 32])), ..from(0) };
        (0..5).for_each(|job| assert!(turns.push(by(1), job).is_none()));
        turns.push(by(2), 100);
        turns.push(from(1), 200);
        assert_eq!(drain(&mut turns)[..4], [0, 200, 100, 1]);
    }

    #[test]
    fn whose_jobs_take_long_has_fewer_turns() {
        let mut turns = Turns::new(100);
        (0..20).for_each(|job| assert!(turns.push(from(0), job).is_none()));
        (100..120).for_each(|job| assert!(turns.push(from(1), job).is_none()));
        let mut order = Vec::new();
        while let Some((ingress, job)) = turns.next(|_| true) {
            order.push(job);
            turns.spent(ingress, if job < 100 { 5000 } else { 500 });
            if order.len() == 22 {
                // Who begins now has neither credit nor debt.
                turns.push(from(2), 200);
            }
        }
        assert_eq!(order[..22].iter().filter(|job| **job < 100).count(), 2, "{order:?}");
        assert!(order[22..25].contains(&200), "{order:?}");
        assert!(turns.ahead.len() <= 3 && order.len() == 41);
    }

    #[test]
    fn a_flood_displaces_itself_and_is_counted() {
        let mut turns = Turns::new(10);
        let gone: Vec<_> = (0..30).filter_map(|job| turns.push(from(0), job)).collect();
        assert_eq!(gone, (10..30).collect::<Vec<_>>(), "the newest of who has most");
        assert_eq!(turns.push(from(1), 100), Some(9), "nobody holds the last place");
        assert_eq!(turns.len(), 10);
        let status = turns.status();
        assert_eq!(status.iter().map(|queue| (queue.waiting, queue.dropped)).collect::<Vec<_>>(), [(9, 21), (1, 0)]);
        assert!(drain(&mut turns).contains(&100));
    }

    #[test]
    fn who_may_not_have_another_lets_others_pass() {
        let mut turns = Turns::new(10);
        turns.push(from(0), 1);
        turns.push(from(1), 2);
        assert_eq!(turns.next(|ingress| *ingress != from(0).ingress).map(|(_, job)| job), Some(2));
        assert!(turns.next(|ingress| *ingress != from(0).ingress).is_none());
        assert_eq!(turns.next(|_| true).map(|(_, job)| job), Some(1));
    }
}
