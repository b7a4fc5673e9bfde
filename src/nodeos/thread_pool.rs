//! Thread pools: the number of threads that work for a domain, and the time that one may work.
//!
//! Every domain has one pool. A packet, an event or an exception activates a thread, which runs end to end. No call
//! ends a thread: one that works for too long ends its domain, since the node does not run that code itself.
//!
//! In the node's process domains have one thread, the node's, and only the account ([`Activations`]). In a process of
//! its own each thread shows the node a number in shared memory: odd while it works, changed at each beginning and end,
//! and its domain. The node looks now and then ([`ThreadPool::look`]); a thread with the same odd number for too long
//! hangs. False numbers of a process hide only its own threads. After PLAN on OSKit, §3.3.1; Snow on Silk, §2.4.

use super::interface::{ThreadPoolSpec, Upcall};
use crate::core::domain::{Activations, DomainId};
use crate::trust::grants::Grants;

impl Upcall {
    /// Counts the thread that it activates.
    #[inline]
    pub fn count_in(&self, activations: &mut Activations) {
        match self {
            Upcall::Packet { .. } => {}
            Upcall::Event { .. } | Upcall::Changed { .. } => activations.events += 1,
            Upcall::Overrun { .. } | Upcall::Ended => activations.exceptions += 1,
        }
    }
}

/// What a thread shows: the number above, and its domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown(u64);

impl Shown {
    fn works(self) -> bool {
        self.0 >> 32 & 1 == 1
    }

    fn domain(self) -> DomainId {
        DomainId(self.0 as u32)
    }
}

/// The threads of one process, as they were seen.
#[derive(Debug)]
pub struct ThreadPool {
    seen: Box<[(Shown, u64)]>,
}

impl ThreadPool {
    /// So many threads, of which none has been seen at work.
    pub fn new(threads: u16) -> ThreadPool {
        ThreadPool { seen: vec![(Shown::default(), 0); usize::from(threads)].into() }
    }

    /// Looks at what threads show: the domains in which one has worked at the same for longer than `limit` says, in
    /// nanoseconds. A domain of which that says nothing is not the process's.
    pub fn look(
        &mut self,
        now: u64,
        shown: impl Fn(u16) -> u64,
        limit: impl Fn(DomainId) -> Option<u64>,
    ) -> Vec<DomainId> {
        let mut hung = Vec::new();
        for (number, (before, since)) in self.seen.iter_mut().enumerate() {
            let shows = Shown(shown(number as u16));
            if *before != shows {
                (*before, *since) = (shows, now);
            } else if shows.works()
                && limit(shows.domain()).is_some_and(|limit| now.saturating_sub(*since) > limit)
                && !hung.contains(&shows.domain())
            {
                hung.push(shows.domain());
            }
        }
        hung
    }
}

impl Grants {
    /// The same with as many threads as are asked for, if they are granted, each for as long as is asked for.
    pub fn with_threads(self, asked: &ThreadPoolSpec) -> Option<Grants> {
        let thread_ms = if asked.hold_ms == 0 { self.thread_ms } else { asked.hold_ms };
        let granted = asked.max_threads <= self.threads && thread_ms <= self.thread_ms;
        granted.then_some(Grants { threads: asked.max_threads, thread_ms, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn shows(turn: u64, domain: u64) -> u64 {
        turn << 32 | domain
    }

    fn limit(domain: DomainId) -> Option<u64> {
        (domain.0 < 10).then_some(10 * MS)
    }

    #[test]
    fn a_thread_that_works_at_the_same_for_too_long_is_found() {
        let mut pool = ThreadPool::new(2);
        let look =
            |pool: &mut ThreadPool, now: u64, words: [u64; 2]| pool.look(now, |at| words[usize::from(at)], limit);
        assert!(look(&mut pool, 5 * MS, [shows(1, 7), 0]).is_empty());
        assert!(look(&mut pool, 15 * MS, [shows(1, 7), shows(3, 8)]).is_empty(), "ten milliseconds are granted");
        assert_eq!(look(&mut pool, 15 * MS + 1, [shows(1, 7), shows(3, 8)]), [DomainId(7)]);
        assert_eq!(look(&mut pool, 26 * MS, [shows(2, 7), shows(3, 8)]), [DomainId(8)]);
        assert!(
            look(&mut pool, u64::MAX, [shows(2, 7), shows(5, 8)]).is_empty(),
            "one rests, one works at something new"
        );
    }

    #[test]
    fn nobody_hangs_in_domains_of_others_and_each_is_named_once() {
        let mut pool = ThreadPool::new(4);
        let words = [shows(1, 10), shows(1, 3), shows(1, 3), u64::MAX];
        let all = |at: u16| words[usize::from(at)];
        assert!(pool.look(0, all, limit).is_empty());
        assert_eq!(pool.look(u64::MAX, all, limit), [DomainId(3)]);
    }

    #[test]
    fn activations_are_counted_by_their_cause() {
        let mut activations = Activations::default();
        Upcall::Ended.count_in(&mut activations);
        Upcall::Event { event: crate::nodeos::interface::EventId(1), argument: 2 }.count_in(&mut activations);
        assert_eq!(activations, Activations { events: 1, exceptions: 1 });
    }
}
