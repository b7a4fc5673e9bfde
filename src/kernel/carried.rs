//! What both halves count and share of the channels that the kernel carries.

use super::channels::KernelChannels;
use super::maps::sums;
use crate::contract::{cut_usage, spent, usage};
use crate::core::share::SharedBytes;
use crate::graph::half::CutCounts;
use crate::sys::mapping::SharedWords;
use std::sync::Arc;

/// Words of `struct spent`, and where the halves' stand.
pub(super) const SPENT: usize = spent::SIZE / 8;
const SPENT_KERNEL: usize = spent::KERNEL.word();
pub(super) const SPENT_USER: usize = spent::USER.word();

/// A bandwidth that both halves use.
#[derive(Debug)]
pub(super) struct Bytes {
    pub(super) words: Arc<SharedWords>,
    pub(super) at: usize,
}

impl SharedBytes for Bytes {
    #[inline]
    fn spent(&self) -> u64 {
        self.words.load(self.at + SPENT_KERNEL)
    }

    #[inline]
    fn spend(&self, bytes: u64) {
        // The node's worker alone writes this word.
        let at = self.at + SPENT_USER;
        self.words.store(at, self.words.load(at).wrapping_add(bytes));
    }
}

// It begins with what is counted of a code.
const _: () = assert!(cut_usage::USAGE.at() == 0);

impl KernelChannels {
    /// What has passed by one cut-through channel: `struct cut_usage`.
    pub(super) fn look(&self, number: u32) -> CutCounts {
        let all: [u64; cut_usage::SIZE / 8] = sums(&self.usage, number).unwrap_or_default();
        CutCounts {
            packets: usage::PACKETS.among(&all),
            bytes: cut_usage::BYTES.among(&all),
            frame_bytes: usage::BYTES.among(&all),
            over_budget: usage::BY_BUDGET.among(&all),
            over_budget_bytes: cut_usage::REFUSED_BYTES.among(&all),
            over_domain: cut_usage::BY_DOMAIN.among(&all),
            over_channel: cut_usage::BY_CHANNEL.among(&all),
            broken: usage::BY_CODE.among(&all),
            sent: cut_usage::SENT.among(&all),
            sent_bytes: cut_usage::SENT_BYTES.among(&all),
            left: usage::PASSED_UP.among(&all),
            time_ns: usage::TIME.among(&all),
        }
    }
}
