//! Next hops of flows, set by programs. Example: a scout program finds a path and leaves its next hop at each node on
//! it.
//!
//! A next hop is kept under session key and flow number, so only packets of the session that set it take it. It lasts
//! five minutes at most, and the table is bounded. Each holder has a share of the places ([`Shares`]); the oldest of
//! its own gives way.

use super::holders::Holder;
use crate::frame::shares::Shares;
use plan::value::Host;
use std::collections::HashMap;

/// Ways kept.
const FLOWS_MAX: usize = 1024;

/// The longest time, in seconds.
const SECONDS_MAX: i64 = 300;

/// A way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredFlow {
    /// The next node.
    pub next: Host,
    /// The port to it.
    pub dev: u32,
    /// Until when, in nanoseconds.
    pub until: u64,
}

impl MeasuredFlow {
    /// A way for so many seconds.
    pub fn new(now: u64, next: Host, dev: u32, seconds: i64) -> MeasuredFlow {
        let seconds = seconds.clamp(0, SECONDS_MAX) as u64;
        MeasuredFlow { next, dev, until: now.saturating_add(seconds * 1_000_000_000) }
    }
}

/// The ways of one node.
pub struct Flows {
    ways: HashMap<([u8; 16], u32), (MeasuredFlow, Holder)>,
    shares: Shares<Holder>,
}

impl Default for Flows {
    fn default() -> Flows {
        Flows { ways: HashMap::new(), shares: Shares::new(FLOWS_MAX as u64) }
    }
}

impl Flows {
    /// The way of a flow.
    pub fn of(&self, now: u64, session: [u8; 16], flow: u32) -> Option<MeasuredFlow> {
        self.ways.get(&(session, flow)).map(|(way, _)| *way).filter(|way| way.until > now)
    }

    /// Keeps a way. A holder that has its share loses the oldest one that it has.
    pub fn set(&mut self, flow: ([u8; 16], u32), way: MeasuredFlow, holder: Holder) {
        self.remove(&flow);
        if !self.shares.fits(holder, 1) {
            let own = self.ways.iter().filter(|(_, (_, whose))| *whose == holder);
            let oldest = own.min_by_key(|(flow, (way, _))| (way.until, **flow)).map(|(flow, _)| *flow);
            oldest.iter().for_each(|oldest| self.remove(oldest));
        }
        if self.shares.take(holder, 1) {
            self.ways.insert(flow, (way, holder));
        }
    }

    fn remove(&mut self, flow: &([u8; 16], u32)) {
        if let Some((_, holder)) = self.ways.remove(flow) {
            self.shares.give(holder, 1);
        }
    }

    /// Forgets what has expired.
    pub fn sweep(&mut self, now: u64) {
        self.retain(|way, _| way.until > now);
    }

    /// Forgets the ways of a holder, who is none any more.
    pub fn leave(&mut self, gone: Holder) {
        self.retain(|_, holder| *holder != gone);
    }

    fn retain(&mut self, stays: impl Fn(&MeasuredFlow, &Holder) -> bool) {
        let Flows { ways, shares } = self;
        ways.retain(|_, (way, holder)| {
            let stays = stays(way, holder);
            if !stays {
                shares.give(*holder, 1);
            }
            stays
        });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ways.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_of_one_session_for_a_time_and_few() {
        let mut flows = Flows::default();
        let way = |now| MeasuredFlow::new(now, Host::v4([10, 0, 0, 1]), 1, 1);
        flows.set(([1; 16], 7), way(0), Holder::HERE);
        assert_eq!(flows.of(999_999_999, [1; 16], 7), Some(way(0)));
        assert_eq!(flows.of(1_000_000_000, [1; 16], 7), None);
        assert_eq!(flows.of(0, [2; 16], 7), None);
        (0..5000).for_each(|flow| flows.set(([1; 16], flow), way(flow.into()), Holder::HERE));
        assert_eq!(flows.len(), FLOWS_MAX / 2, "and as much is left for others");
        flows.set(([3; 16], 7), way(9), Holder::Principal(1));
        (0..5000).for_each(|flow| flows.set(([4; 16], flow), way(10_000), Holder::HERE));
        assert_eq!(flows.of(10, [3; 16], 7), Some(way(9)));
        (0..5000).for_each(|flow| flows.set(([1; 16], flow), way(flow.into()), Holder::HERE));
        assert_eq!((flows.of(0, [1; 16], 0), flows.of(0, [1; 16], 4999).is_some()), (None, true));
        flows.sweep(u64::MAX);
        assert_eq!(flows.len(), 0);
    }
}
