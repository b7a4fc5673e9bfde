//! One budget over both halves.
//!
//! ```text
//! user half: bucket ──spends──▶ ┌────────┐ ──charges──▶ bucket: kernel half
//!                   ◀─charges── │ memory │ ◀─spends────
//!                               └────────┘
//! ```
//!
//! Each half keeps a bucket of the same rate, tells the other what it spends by counters in memory that both see, and
//! charges its own bucket what the other has spent before it admits anything. So both buckets hold the same, but for what
//! the other half spends while one looks: a share of packets of each CPU in the kernel (`SHARE` of `bpf/contract.h`, 64), one packet
//! here. Since a bucket may be overdrawn, up to what comes back in a second, that is paid back: over any time of t seconds both halves
//! together admit at most `rate × t + burst + 64 × CPUs` packets, and a second burst once, when code is linked.

use super::bucket::TokenBucket;
use std::sync::Arc;

/// What has been used of a budget since counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Packets.
    pub packets: u64,
    /// Steps; in the kernel half nanoseconds.
    pub steps: u64,
    /// Packets that were refused because it was used up.
    pub refused: u64,
}

/// The memory in which the two halves tell each other what the code of a domain has spent.
pub trait SharedAccount: Send + Sync + core::fmt::Debug {
    /// What the kernel half has spent so far.
    fn kernel(&self) -> Spent;

    /// The user half has spent so much more.
    fn spend(&self, packets: u64, steps: u64);
}

/// The other half of a domain, as the user half sees it.
#[derive(Debug)]
pub struct OtherHalf {
    account: Arc<dyn SharedAccount>,
    /// What of it has been charged here.
    charged: Spent,
    /// What it had spent when somebody asked last.
    seen: Spent,
}

impl OtherHalf {
    /// What the other half spends from now on.
    pub fn new(account: Arc<dyn SharedAccount>) -> OtherHalf {
        let now = account.kernel();
        OtherHalf { account, charged: now, seen: now }
    }

    /// Charges the buckets of this half what the other has spent since the last time.
    #[inline]
    pub fn settle(&mut self, now: u64, packets: &mut TokenBucket, steps: &mut TokenBucket) {
        let spent = self.account.kernel();
        if spent.packets != self.charged.packets {
            packets.charge(now, spent.packets.wrapping_sub(self.charged.packets));
        }
        if spent.steps != self.charged.steps {
            steps.charge(now, spent.steps.wrapping_sub(self.charged.steps));
        }
        self.charged = spent;
    }

    /// Tells the other half.
    #[inline]
    pub fn spend(&self, packets: u64, steps: u64) {
        self.account.spend(packets, steps);
    }

    /// What the other half has spent since this was asked last.
    pub fn since(&mut self) -> Spent {
        let now = self.account.kernel();
        let before = core::mem::replace(&mut self.seen, now);
        Spent {
            packets: now.packets.wrapping_sub(before.packets),
            steps: now.steps.wrapping_sub(before.steps),
            refused: now.refused.wrapping_sub(before.refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Debug, Default)]
    struct Memory(Mutex<(Spent, u64)>);

    impl SharedAccount for Memory {
        fn kernel(&self) -> Spent {
            self.0.lock().unwrap().0
        }

        fn spend(&self, packets: u64, _: u64) {
            self.0.lock().unwrap().1 += packets;
        }
    }

    #[test]
    fn what_the_other_half_spends_is_charged_once_and_may_overdraw() {
        let memory = Arc::new(Memory::default());
        memory.0.lock().unwrap().0.packets = 1000;
        let (mut packets, mut steps) = (TokenBucket::new(100, 10), TokenBucket::new(100, 10));
        let mut other = OtherHalf::new(memory.clone());
        other.settle(0, &mut packets, &mut steps);
        assert!(packets.has_any(0), "what was spent before does not count");
        memory.0.lock().unwrap().0 = Spent { packets: 1020, steps: 0, refused: 3 };
        other.settle(0, &mut packets, &mut steps);
        other.settle(0, &mut packets, &mut steps);
        assert!(!packets.has_any(100_000_000) && packets.has_any(120_000_000), "ten are to be paid back");
        assert_eq!(other.since(), Spent { packets: 20, steps: 0, refused: 3 });
        assert_eq!(other.since(), Spent::default());
        other.spend(4, 0);
        assert_eq!(memory.0.lock().unwrap().1, 4);
    }
}
