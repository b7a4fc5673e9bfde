//! One budget over both halves: a domain with 1,000 packets a second has 1,000, not 2,000.
//!
//! ```text
//! user half: bucket ──spends──▶ ┌────────┐ ──charges──▶ bucket: kernel half
//!                   ◀─charges── │ memory │ ◀─spends────
//!                               └────────┘
//! ```
//!
//! Each half keeps a bucket of the same rate, tells the other what it spends by counters in memory that both see, and
//! charges its own bucket what the other has spent before it admits anything. So both buckets hold the same, but for
//! what the other half spends while one looks: a share of packets of each CPU in the kernel (of `bpf/contract.h`: 64,
//! or what comes back in a millisecond, at most 256), and what a worker takes at a time here. Since a bucket may be
//! overdrawn, up to what comes back in a second, that is paid back: over any time of t seconds both halves together
//! admit at most `rate × t + burst + shares` packets, and a second burst once, when code is linked.
//!
//! Here a code's bucket is that of all workers: [`super::common::account`]. A bandwidth of bytes is below.

use super::bucket::TokenBucket;
use super::wish::WishWords;
use std::sync::Arc;

/// The used part of a budget since counting began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Packets.
    pub packets: u64,
    /// Steps; in the kernel half nanoseconds.
    pub steps: u64,
    /// Packets that were refused because it was used up.
    pub refused: u64,
}

impl Spent {
    /// Both together.
    pub fn plus(self, other: Spent) -> Spent {
        self.each(other, u64::wrapping_add)
    }

    /// What came since `before`.
    pub fn since(self, before: Spent) -> Spent {
        self.each(before, u64::wrapping_sub)
    }

    fn each(self, other: Spent, made: fn(u64, u64) -> u64) -> Spent {
        Spent {
            packets: made(self.packets, other.packets),
            steps: made(self.steps, other.steps),
            refused: made(self.refused, other.refused),
        }
    }
}

/// The memory in which the two halves tell each other what the code of a domain has spent.
pub trait SharedAccount: Send + Sync + core::fmt::Debug {
    /// What the kernel half has spent so far.
    fn spent(&self) -> Spent;

    /// The user half has spent so much more.
    fn spend(&self, packets: u64, steps: u64);

    /// What the domain's code wishes for in the kernel half, if it can.
    fn wishes(&self) -> Option<&dyn WishWords> {
        None
    }
}

/// The memory in which the two halves tell each other how many bytes of a bandwidth they have spent.
pub trait SharedBytes: Send + Sync + core::fmt::Debug {
    /// The kernel half's spending so far.
    fn spent(&self) -> u64;

    /// The user half has spent so much more.
    fn spend(&self, bytes: u64);
}

/// A bandwidth, over both halves as soon as both use it.
#[derive(Debug)]
pub struct Bandwidth {
    bucket: TokenBucket,
    /// The other half, and what of it has been charged here.
    other: Option<(Arc<dyn SharedBytes>, u64)>,
}

impl Bandwidth {
    /// So many bytes a second; at once as many as there are in a tenth of it, and always a whole packet.
    pub fn new(rate: u64) -> Bandwidth {
        Bandwidth { bucket: TokenBucket::new(rate, Bandwidth::burst(rate)), other: None }
    }

    /// The bytes that may be sent at once.
    pub fn burst(rate: u64) -> u64 {
        (rate / 10).max(65_536)
    }

    /// So many bytes a second from `now` on, of this half alone until it is shared again.
    pub fn renew(&mut self, now: u64, rate: u64) {
        self.bucket.renew(now, rate, Bandwidth::burst(rate));
        self.other = None;
    }

    /// The other half spends of it too.
    pub fn share(&mut self, other: Arc<dyn SharedBytes>) {
        if self.other.is_none() {
            let now = other.spent();
            self.other = Some((other, now));
        }
    }

    /// Takes so many bytes at `now` (nanoseconds) if they are there.
    #[inline]
    pub fn take(&mut self, now: u64, bytes: u64) -> bool {
        self.settle(now);
        let there = self.bucket.take(now, bytes);
        if let Some((other, _)) = self.other.as_ref().filter(|_| there) {
            other.spend(bytes);
        }
        there
    }

    /// Whether so many bytes are there at `now`.
    pub fn has(&mut self, now: u64, bytes: u64) -> bool {
        self.settle(now);
        self.bucket.has(now, bytes)
    }

    /// Charges what the other half has spent since the last time.
    #[inline]
    fn settle(&mut self, now: u64) {
        let Some((other, charged)) = &mut self.other else { return };
        let spent = other.spent();
        if spent != *charged {
            self.bucket.charge_elsewhere(now, spent.wrapping_sub(*charged));
            *charged = spent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Debug, Default)]
    struct Bytes(Mutex<[u64; 2]>);

    impl SharedBytes for Bytes {
        fn spent(&self) -> u64 {
            self.0.lock().unwrap()[0]
        }

        fn spend(&self, bytes: u64) {
            self.0.lock().unwrap()[1] += bytes;
        }
    }

    #[test]
    fn a_bandwidth_is_one_for_both_halves() {
        let memory = Arc::new(Bytes::default());
        let mut bandwidth = Bandwidth::new(1_000_000);
        assert!(bandwidth.take(0, 50_000));
        bandwidth.share(memory.clone());
        memory.0.lock().unwrap()[0] = 50_000;
        assert!(!bandwidth.take(0, 50_000), "the other half has it");
        assert_eq!(memory.0.lock().unwrap()[1], 0, "what is refused is not spent");
        assert!(bandwidth.take(50_000_000, 50_000));
        assert_eq!(memory.0.lock().unwrap()[1], 50_000);
    }
}
