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
//! or what comes back in a millisecond, at most 256), one packet here. Since a bucket may be overdrawn, up to what
//! comes back in a second, that is paid back: over any time of t seconds both halves together admit at most
//! `rate × t + burst + share × CPUs` packets, and a second burst once, when code is linked.
//!
//! Workers of one node tell each other in the same way ([`super::common::account`]), but in shares: memory that others
//! read is neither written nor read for each packet.

use super::bucket::TokenBucket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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

/// The memory in which the two halves tell each other what the code of a domain has spent.
pub trait SharedAccount: Send + Sync + core::fmt::Debug {
    /// What was spent elsewhere so far: by the kernel half, or by it and all other workers.
    fn kernel(&self) -> Spent;

    /// The user half has spent so much more.
    fn spend(&self, packets: u64, steps: u64);

    /// The user half has refused a packet.
    fn refuse(&self) {}

    /// How much of it may be spent before that is told, and where it is counted meanwhile.
    fn lease(&self) -> Lease {
        Lease { packets: 1, steps: 1, owed: Arc::default() }
    }
}

/// How much may be spent before it is told.
#[derive(Debug)]
pub struct Lease {
    /// Packets, at most.
    pub packets: u64,
    /// Steps, at most.
    pub steps: u64,
    /// What is not told yet.
    pub owed: Arc<Owed>,
}

/// What was spent and not told: who spends it alone writes that, and whoever shows it reads.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Owed {
    packets: AtomicU64,
    steps: AtomicU64,
}

impl Owed {
    /// So much, while it goes on.
    pub fn now(&self) -> Spent {
        Spent { packets: self.packets.load(Relaxed), steps: self.steps.load(Relaxed), refused: 0 }
    }

    /// So much more is; gives how much that makes.
    #[inline(always)]
    fn add(&self, packets: u64, steps: u64) -> (u64, u64) {
        let add = |counter: &AtomicU64, more: u64| {
            let sum = counter.load(Relaxed) + more;
            if more > 0 {
                counter.store(sum, Relaxed);
            }
            sum
        };
        (add(&self.packets, packets), add(&self.steps, steps))
    }

    /// All of it is told.
    fn settle(&self) {
        self.packets.store(0, Relaxed);
        self.steps.store(0, Relaxed);
    }
}

/// Of what comes back in a second, the part that may be spent before it is told: what comes back in a millisecond.
const PARTS_OF_SECOND: u64 = 1000;

/// The other half of a domain, as the user half sees it.
#[derive(Debug)]
pub struct OtherHalf {
    account: Arc<dyn SharedAccount>,
    lease: Lease,
    /// How many packets and steps may be owed at present.
    most: (u64, u64),
    /// Whether what the other has spent is to be charged before anything is admitted.
    is_due: bool,
    /// The part of it that has been charged here.
    charged: Spent,
    /// Its spending at the last look.
    seen: Spent,
}

impl OtherHalf {
    /// The other half's spending from now on.
    pub fn new(account: Arc<dyn SharedAccount>) -> OtherHalf {
        let (now, lease) = (account.kernel(), account.lease());
        OtherHalf { account, lease, most: (1, 1), is_due: true, charged: now, seen: now }
    }

    /// Charges the buckets of this half what the other has spent since the last time, once for each lease.
    #[inline(always)]
    pub fn settle(&mut self, now: u64, packets: &mut TokenBucket, steps: &mut TokenBucket) {
        if self.is_due {
            self.charge(now, packets, steps);
        }
    }

    /// The same at any time.
    pub fn charge(&mut self, now: u64, packets: &mut TokenBucket, steps: &mut TokenBucket) {
        let spent = self.account.kernel();
        if spent.packets != self.charged.packets {
            packets.charge_elsewhere(now, spent.packets.wrapping_sub(self.charged.packets));
        }
        if spent.steps != self.charged.steps {
            steps.charge_elsewhere(now, spent.steps.wrapping_sub(self.charged.steps));
        }
        self.charged = spent;
        let of = |bucket: &TokenBucket, most: u64| (bucket.rate() / PARTS_OF_SECOND).clamp(1, most);
        self.most = (of(packets, self.lease.packets), of(steps, self.lease.steps));
        // Who tells each packet looks at each.
        self.is_due = self.most.0 == 1;
    }

    /// So much is spent: the other half is told as soon as more is owed than may be.
    #[inline(always)]
    pub fn spend(&mut self, packets: u64, steps: u64) {
        let (packets, steps) = self.lease.owed.add(packets, steps);
        if packets >= self.most.0 || steps >= self.most.1 {
            self.tell(packets, steps);
        }
    }

    fn tell(&mut self, packets: u64, steps: u64) {
        self.lease.owed.settle();
        self.account.spend(packets, steps);
        self.is_due = true;
    }

    /// Tells the other half that a packet was refused.
    #[cold]
    pub fn refuse(&self) {
        self.account.refuse();
    }

    /// The other half's spending since the last look.
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

/// The memory in which the two halves tell each other how many bytes of a bandwidth they have spent.
pub trait SharedBytes: Send + Sync + core::fmt::Debug {
    /// The kernel half's spending so far.
    fn kernel(&self) -> u64;

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
            let now = other.kernel();
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
        let spent = other.kernel();
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

    #[derive(Debug, Default)]
    struct Bytes(Mutex<[u64; 2]>);

    impl SharedBytes for Bytes {
        fn kernel(&self) -> u64 {
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
