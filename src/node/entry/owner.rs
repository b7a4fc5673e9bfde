//! One payer at the entrance, and the level of time that each of them may have.

use super::limits::{EntryCounts, bytes_beside_others};
use crate::core::bucket::TokenBucket;

/// Nanoseconds, and as many steps, in a second of a worker.
pub(super) const SECOND: u64 = 1_000_000_000;

/// A payer: a neighbour with a bucket of its own, or all others of a port.
#[derive(Clone)]
pub(super) struct Owner {
    pub(super) bytes: TokenBucket,
    pub(super) time: TokenBucket,
    pub(super) counts: EntryCounts,
    /// The window in which it came last.
    pub(super) seen: u64,
    /// Worker time since the window began, whether it has wanted more, and whether it did in the window before.
    pub(super) used: u64,
    pub(super) hungry: bool,
    pub(super) was_hungry: bool,
    /// Frames of the batch.
    pub(super) came: u32,
    /// The expected cost of one of its waiting packets, from those before.
    pub(super) mean: u32,
    /// Whether it has a key: only what proves to be its own is charged to it.
    pub(super) keyed: bool,
}

impl Owner {
    pub(super) fn new(bits_per_second: u64) -> Owner {
        let bytes = bytes_beside_others(0, bits_per_second);
        Owner {
            bytes: TokenBucket::new(bytes, (bytes / 10).max(65_536)),
            time: TokenBucket::new(0, 0),
            counts: EntryCounts::default(),
            seen: 0,
            used: 0,
            hungry: false,
            was_hungry: false,
            came: 0,
            mean: 0,
            keyed: false,
        }
    }

    #[inline]
    pub(super) fn take(&mut self, now: u64, bytes: usize) -> bool {
        let there = self.time.has_any(now) && self.bytes.has_any(now);
        if there {
            self.bytes.charge(now, bytes as u64);
        }
        there
    }

    #[inline]
    pub(super) fn spend(&mut self, now: u64, cost: u64, alone: bool) {
        self.used += cost;
        self.counts.worker_ns += cost;
        if !alone {
            self.time.charge(now, cost);
        }
    }
}

/// Nanoseconds a second that each may have, from what the active ones have used in a window and whether they wanted more.
pub(super) fn level(active: impl Iterator<Item = (u64, bool)>, length: u64, permille: u32) -> u64 {
    let (mut count, mut hungry, mut content) = (0u64, 0u64, 0u64);
    for (used, wants_more) in active {
        count += 1;
        hungry += u64::from(wants_more);
        content += if wants_more { 0 } else { used };
    }
    let most = u64::from(permille) * SECOND / 1000;
    if hungry == 0 {
        return most;
    }
    // What the content have if they need twice as much, and a sixteenth of the worker for those that begin.
    let content = (u128::from(content) * u128::from(SECOND) / u128::from(length)) as u64;
    let kept = if count > hungry { (2 * content).max(SECOND / 16) } else { 0 };
    (SECOND.saturating_sub(kept) / hungry).max(SECOND / count).min(most)
}
