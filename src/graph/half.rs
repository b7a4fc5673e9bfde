//! The kernel half's part in channels: it looks at frames before the node does, and carries cut-through channels.
//!
//! The node tells it of every incoming channel and of every cut-through channel that it could carry. It does as the
//! node would, or leaves a packet to the node. Calls take effect before they return. A domain has one budget over both
//! halves ([`crate::core::share`]). The traffic there is added to the node's own accounts once in a while, so that
//! there is one account.

use super::exit::Target;
use super::fused::{GraphTable, GraphWords};
use crate::classify::rule::Rule;
use crate::contract::plan::KernelPlan;
use crate::core::domain::DomainId;
use crate::core::ledger::{Balance, gone_on};
use crate::core::share::{SharedAccount, SharedBytes};
use crate::nodeos::interface::OutChanId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What looks at frames before the node does. Errors say for people why it did not do it.
pub trait ChannelHalf: Send {
    /// Packets of a filter are an incoming channel's from now on, or not any more.
    fn change(&mut self, filter: &Rule, exists: bool) -> Result<(), String>;

    /// Packets of an incoming channel pass there by cut-through from now on, as far as nothing unusual is in them. Nothing: it
    /// does not carry such channels, or has no room.
    fn begin(&mut self, cut: &Cut<'_>) -> Result<Option<SharedCut>, String>;

    /// What has passed there by the cut-through channel of this number so far, to be read while packets do.
    fn passed(&self, number: u32) -> CutCounts;

    /// No packet passes there any more. What passed can be asked for until the next call.
    fn end(&mut self, number: u32, filter: &Rule) -> Result<(), String>;

    /// A domain has ended, or an outgoing channel: nothing is shared with it any more.
    fn forget(&mut self, whose: Whose);

    /// Makes a program of a graph, whose ports are this node's, for this place or a new one; nothing runs it yet. Nothing: it has no
    /// programs of graphs.
    fn load_graph(&mut self, place: Option<u32>, plan: &KernelPlan) -> Result<Option<LoadedGraph>, String> {
        let _ = (place, plan);
        Ok(None)
    }

    /// The program that was made last for a place runs there from now on, in the place of the one before.
    fn run_graph(&mut self, place: u32) -> Result<(), String> {
        let _ = place;
        Ok(())
    }

    /// The program that was made last for a place is not to run; the one before runs on, if there is one.
    fn discard_graph(&mut self, place: u32) {
        let _ = place;
    }

    /// No program runs at a place from now on, and it is free.
    fn end_graph(&mut self, place: u32) {
        let _ = place;
    }
}

/// A program of a graph that is ready.
#[derive(Clone, Debug)]
pub struct LoadedGraph {
    /// Its place.
    pub place: u32,
    /// What it counts.
    pub words: Arc<dyn GraphWords>,
    /// What it looks up, if it does.
    pub table: Option<Arc<dyn GraphTable>>,
}

/// What looks at frames before the node does, for several workers: one call at a time.
#[derive(Clone)]
pub struct SharedHalf(Arc<Mutex<Box<dyn ChannelHalf>>>);

impl SharedHalf {
    /// The same for whoever has a clone.
    pub fn new(half: Box<dyn ChannelHalf>) -> SharedHalf {
        SharedHalf(Arc::new(Mutex::new(half)))
    }

    fn half(&self) -> MutexGuard<'_, Box<dyn ChannelHalf>> {
        // A call that panicked has told the kernel of a channel or has not: what the next one says is right all the same.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As graphs take them.
pub fn boxed(halves: Vec<SharedHalf>) -> Vec<Box<dyn ChannelHalf>> {
    halves.into_iter().map(|half| Box::new(half) as Box<dyn ChannelHalf>).collect()
}

impl ChannelHalf for SharedHalf {
    fn change(&mut self, filter: &Rule, exists: bool) -> Result<(), String> {
        self.half().change(filter, exists)
    }

    fn begin(&mut self, cut: &Cut<'_>) -> Result<Option<SharedCut>, String> {
        self.half().begin(cut)
    }

    fn passed(&self, number: u32) -> CutCounts {
        self.half().passed(number)
    }

    fn end(&mut self, number: u32, filter: &Rule) -> Result<(), String> {
        self.half().end(number, filter)
    }

    fn forget(&mut self, whose: Whose) {
        self.half().forget(whose);
    }

    fn load_graph(&mut self, place: Option<u32>, plan: &KernelPlan) -> Result<Option<LoadedGraph>, String> {
        self.half().load_graph(place, plan)
    }

    fn run_graph(&mut self, place: u32) -> Result<(), String> {
        self.half().run_graph(place)
    }

    fn discard_graph(&mut self, place: u32) {
        self.half().discard_graph(place);
    }

    fn end_graph(&mut self, place: u32) {
        self.half().end_graph(place);
    }
}

/// Who shares a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Whose {
    /// A domain, its packets, time and bandwidth.
    Domain(DomainId),
    /// An outgoing channel, its bandwidth.
    Channel(OutChanId),
}

/// An incoming channel whose packets the other half could carry.
#[derive(Debug)]
pub struct Cut<'a> {
    /// Which packets.
    pub filter: &'a Rule,
    /// Where to.
    pub way: CutWay<'a>,
    /// Who pays.
    pub domain: DomainId,
    /// What it may use: packets a second, and steps (there: nanoseconds) a second.
    pub rates: [u64; 2],
    /// Bytes a second that it may send; nothing: as many as it likes.
    pub of_domain: Option<u64>,
}

/// Where the packets of an incoming channel go.
#[derive(Clone, Copy, Debug)]
pub enum CutWay<'a> {
    /// Out by an outgoing channel: where that leads, its name, and bytes a second that it may send.
    Out(&'a Target, OutChanId, Option<u64>),
    /// Through a graph whose program has this place.
    Graph(u32),
}

/// What both halves share of a cut-through channel.
#[derive(Clone, Debug)]
pub struct SharedCut {
    /// Its number there.
    pub number: u32,
    /// What its domain has spent of packets and time.
    pub account: Arc<dyn SharedAccount>,
    /// What its domain has spent of its bandwidth, if that is bounded.
    pub of_domain: Option<Arc<dyn SharedBytes>>,
    /// What the outgoing channel has spent of its.
    pub of_channel: Option<Arc<dyn SharedBytes>>,
}

/// Packets of a cut-through channel in the other half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutCounts {
    /// Within the budget of its domain.
    pub packets: u64,
    /// Bytes of payload of those.
    pub bytes: u64,
    /// Bytes of the frames of all.
    pub frame_bytes: u64,
    /// Dropped: beyond the budget of its domain.
    pub over_budget: u64,
    /// Bytes of payload of those.
    pub over_budget_bytes: u64,
    /// Dropped for want of the domain's bandwidth.
    pub over_domain: u64,
    /// Dropped for want of the channel's.
    pub over_channel: u64,
    /// Dropped: its headers could not be changed.
    pub broken: u64,
    /// Sent: what is neither of these.
    pub sent: u64,
    /// Bytes sent, as the outgoing channel counts them.
    pub sent_bytes: u64,
    /// Left to the node, and none of the others.
    pub left: u64,
    /// Nanoseconds that all of it took, by samples.
    pub time_ns: u64,
}

impl CutCounts {
    /// What has come since an earlier look, also if a counter has wrapped. One that could not be read has not gone on.
    pub fn since(&self, before: &CutCounts) -> CutCounts {
        self.zip(before, gone_on)
    }

    /// Both together.
    #[must_use]
    pub fn with(&self, more: &CutCounts) -> CutCounts {
        self.zip(more, u64::wrapping_add)
    }

    /// What became of them there.
    pub fn balance(&self) -> Balance {
        let CutCounts { packets, over_budget, over_domain, over_channel, broken, sent, left, .. } = *self;
        let sum = |counts: [u64; 4]| counts.into_iter().fold(0, u64::wrapping_add);
        Balance {
            received: sum([packets, over_budget, left, 0]),
            sent,
            not_ours: left,
            dropped: sum([over_budget, over_domain, over_channel, broken]),
            ..Balance::default()
        }
    }

    fn zip(&self, before: &CutCounts, more: impl Fn(u64, u64) -> u64) -> CutCounts {
        CutCounts {
            packets: more(self.packets, before.packets),
            bytes: more(self.bytes, before.bytes),
            frame_bytes: more(self.frame_bytes, before.frame_bytes),
            over_budget: more(self.over_budget, before.over_budget),
            over_budget_bytes: more(self.over_budget_bytes, before.over_budget_bytes),
            over_domain: more(self.over_domain, before.over_domain),
            over_channel: more(self.over_channel, before.over_channel),
            broken: more(self.broken, before.broken),
            sent: more(self.sent, before.sent),
            sent_bytes: more(self.sent_bytes, before.sent_bytes),
            left: more(self.left, before.left),
            time_ns: more(self.time_ns, before.time_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_wrap_lose_nothing_and_those_that_were_not_read_are_not_counted_twice() {
        let mut seen = CutCounts { packets: u64::MAX - 1, sent: u64::MAX, bytes: 700, ..CutCounts::default() };
        let mut look = |now: CutCounts| {
            let more = now.since(&seen);
            seen = seen.with(&more);
            (more.packets, more.sent, more.bytes)
        };
        let now = CutCounts { packets: 3, sent: 4, bytes: 900, ..CutCounts::default() };
        assert_eq!(look(now), (5, 5, 200));
        assert_eq!(look(CutCounts { bytes: 0, ..now }), (0, 0, 0), "it could not be read");
        assert_eq!(look(CutCounts { bytes: 901, ..now }), (0, 0, 1));
    }

    #[test]
    fn a_packet_within_the_budget_is_sent_or_dropped_for_a_cause() {
        let counts = CutCounts {
            packets: 10,
            over_budget: 4,
            over_domain: 1,
            over_channel: 2,
            broken: 3,
            sent: 4,
            left: 5,
            ..CutCounts::default()
        };
        let balance = counts.balance();
        assert_eq!((balance.received, balance.dropped, balance.unaccounted()), (19, 10, 0));
        assert_eq!(CutCounts { sent: 3, ..counts }.balance().unaccounted(), 1);
        assert_eq!(CutCounts { broken: 4, ..counts }.balance().unaccounted(), -1);
    }
}
