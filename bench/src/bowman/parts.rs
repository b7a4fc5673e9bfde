//! What the parts of a packet's way cost, as figure 7 of Bowman's paper has them. Example: a buffer, the headers, the flow and whose it is
//! together, beside a place in the queue of its domain.
//!
//! Packets are in memory. The last row is the whole way through a node: a program in its process gets the payload and sends it at once, so
//! it has headers of the way out as well.

use std::collections::VecDeque;

use anode::classify::taught::classifier::MatchMode;
use anode::frame::{Frame, FramePool};
use anode::schedule::{PathScheduler, Policy, Share};

use super::super::micro::Micro;
use super::super::nodeos::stand::Stand as Way;
use super::super::series::Series;
use super::super::{Error, Settings};
use super::sets::{Chance, access_list, packets};
use super::{FEW, KNOWN, Stand, texts};

const REGIME: &str = "figure 7: parts of the way, wfq";
const ALLOCATE: &str = "allocate";
const CLASSIFY: &str = "allocate, classify, demultiplex";
const QUEUE: &str = "enqueue, dequeue";
const ALL: &str = "all, and a null program that sends on";

/// What others are compared with.
pub(super) const BASELINE: &str = ALLOCATE;

/// Domains that have packets in turn; bytes of an IP packet; nanoseconds from one to the next.
const DOMAINS: usize = 10;
const SIZE: usize = 128;
const GAP: u64 = 400;

/// Domains of which each has a packet that waits.
struct Queues {
    order: PathScheduler,
    waiting: Vec<VecDeque<u32>>,
    now: u64,
    next: usize,
}

impl Queues {
    fn new() -> Queues {
        let mut order = PathScheduler::new(Policy::Wfq);
        for domain in 0..DOMAINS {
            order.enter(domain, Share::default(), 0);
        }
        let mut queues = Queues { order, waiting: vec![VecDeque::new(); DOMAINS], now: 0, next: 0 };
        (1..DOMAINS).for_each(|domain| queues.put(domain));
        queues
    }

    fn put(&mut self, domain: usize) {
        self.waiting[domain].push_back(domain as u32);
        self.order.wake(domain, self.now);
    }

    /// One comes, and one has its turn.
    fn one(&mut self) -> Option<u32> {
        self.now += GAP;
        self.put(self.next);
        let domain = self.order.next(self.now)?;
        let packet = self.waiting[domain].pop_front();
        self.order.charge(domain, GAP, !self.waiting[domain].is_empty(), self.now);
        self.next = domain;
        packet
    }
}

/// Buffers for packets in turn.
struct Buffers<'a> {
    pool: FramePool,
    sample: &'a [Vec<u8>],
    next: usize,
}

impl Buffers<'_> {
    /// Takes one for the next packet, and gives it back when this is done with it.
    fn one<R>(&mut self, work: impl FnOnce(&Frame) -> R) -> R {
        self.next = (self.next + 1) % self.sample.len();
        let mut frame = self.pool.take();
        frame.fill(&self.sample[self.next]);
        let done = work(&frame);
        self.pool.give(frame);
        done
    }
}

/// Measures them.
pub(super) fn run(settings: &Settings) -> Result<Series, Error> {
    let mut chance = Chance::new(5);
    let rules = access_list(FEW, &mut chance);
    let sample = packets(&rules, KNOWN, &mut chance);
    let mut stand = Stand::new(&texts(&rules), Vec::new(), MatchMode::First, KNOWN)?;
    let mut buffers = [0; 2].map(|_| Buffers { pool: FramePool::new(2048, 32), sample: &sample, next: 0 });
    let [alone, found] = &mut buffers;
    let (mut queues, mut way) = (Queues::new(), Way::new(Policy::Wfq, DOMAINS, SIZE)?);
    let micro = Micro::new(REGIME, None)
        .variant(ALLOCATE, || alone.one(Frame::len))
        .variant(CLASSIFY, || {
            found.one(|frame| {
                let first = stand.classifier.find(frame.bytes()).first().copied();
                first.and_then(|number| stand.classifier.owner(number).copied())
            })
        })
        .variant(QUEUE, || queues.one())
        .variant(ALL, || way.pass());
    let series = micro.run(settings)?;
    way.balanced()?;
    Ok(series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_packets_leave_the_queues_as_come() {
        let mut queues = Queues::new();
        assert!((0..100).all(|_| queues.one().is_some()));
        assert_eq!(queues.waiting.iter().map(VecDeque::len).sum::<usize>(), DOMAINS - 1);
    }
}
