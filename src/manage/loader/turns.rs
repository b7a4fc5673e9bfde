//! Whose job is next: queues per ingress and, in each, per principal, served in turn.
//!
//! Whoever sends much waits behind itself. All queues together hold so many jobs; when they are full, the longest ingress's newest
//! job gives way, so that a flood displaces itself and nobody can take the last place. Lists are as long as jobs wait, so they need no other
//! bound. Longest queue drop after Suter et al., Design considerations for supporting TCP with per-flow queueing, 1998.

use crate::frame::PeerId;
use crate::node::{Cause, Ingress};
use crate::trust::PrincipalId;
use serde::Serialize;
use std::collections::VecDeque;

/// Ingresses whose drops are remembered one by one; those of others are summed up.
const NAMED_MAX: usize = 64;

/// Jobs that wait.
pub struct Turns<T> {
    ingresses: VecDeque<Waiting<T>>,
    count: usize,
    most: usize,
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
        let dropped = Vec::new();
        Turns { ingresses: VecDeque::new(), count: 0, most: most.max(1), dropped, dropped_of_others: 0 }
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
        let at = self.ingresses.iter().position(|waiting| may(&waiting.ingress))?;
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
        Ingress::Store => "the store".into(),
        Ingress::Port(port, PeerId::NONE) => format!("all others at port {}", port.0),
        Ingress::Port(port, peer) => format!("neighbour {} at port {}", peer.0, port.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::PortId;

    fn from(port: u16) -> Cause {
        Cause { ingress: Ingress::Port(PortId(port), PeerId::NONE), principal: None }
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
