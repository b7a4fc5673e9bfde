//! The budget of one code, of which all workers of a node and its kernel half spend.
//!
//! Example: of 100,000 packets a second worker 0 has taken 640 and worker 1 320. A worker takes [`LEASE`] packets at a time
//! out of one bucket, or what comes back in a millisecond, if that is less: a lease, which it alone spends. So no memory
//! of others is touched for each packet, and several workers together admit at most
//! `rate × t + burst + LEASE × workers` packets in t seconds. A worker that has had more than an equal part leaves a few
//! packets to one that was refused and has had less. Steps are known only afterwards: they are charged when 65,536 are
//! owed, or what comes back in a millisecond.
//!
//! ```text
//! worker 0: lease ◀─takes─┐                  ┌─told──▶ kernel half:
//! worker 1: lease ◀─takes─┤ bucket of packets┤         a bucket of its own,
//!           steps ─charged▶ bucket of steps  ◀─charged─ what it has spent
//! ```

use super::bucket::CommonBucket;
use super::sync::{AtomicU64, Mutex, OnceLock, Relaxed};
use crate::core::bucket::{TokenBucket, burst};
use crate::core::share::{SharedAccount, Spent};
use crate::frame::WorkerId;
use crate::trust::limits::Limits;
use std::sync::Arc;

/// Packets that a worker takes at a time, and steps that it charges at a time, at most.
pub const LEASE: u64 = 32;
const CHARGED_STEPS: u64 = 1 << 16;

/// Of what comes back in a second, the part that is taken at a time: what comes back in a millisecond.
const PARTS_OF_SECOND: u64 = 1000;

/// Nanoseconds in which a worker may have had more than an equal part, as a burst is: one that has had more is sated.
const TOLERANCE: u64 = 100_000_000;

/// Nanoseconds for which a worker is sated at most: later it is as any other.
const SATED_MAX: u64 = 1_000_000_000;

/// Nanoseconds for which sated workers leave something to one that was refused and is not sated.
const HUNGRY: u64 = 10_000_000_000;

/// Packets that they leave, for each other worker.
const LEFT_EACH: u64 = 8;

/// What one worker has: it alone writes that, in cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OfWorker {
    /// Packets of its lease that it has not admitted yet.
    left: AtomicU64,
    /// Steps that it has not charged yet.
    owed: AtomicU64,
    /// Packets that it has taken, steps that it has charged, and packets refused.
    packets: AtomicU64,
    steps: AtomicU64,
    refused: AtomicU64,
}

impl OfWorker {
    fn spent(&self) -> Spent {
        let [packets, steps, refused] = [&self.packets, &self.steps, &self.refused].map(|count| count.load(Relaxed));
        Spent { packets, steps, refused }
    }
}

/// How much of a budget workers have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Leased {
    /// Packets that workers have taken.
    pub leased_packets: u64,
    /// Of these, packets that they have not admitted yet.
    pub out_packets: u64,
    /// The most that can be.
    pub out_packets_max: u64,
    /// Steps that they have charged.
    pub charged_steps: u64,
    /// Steps that they have taken and not charged yet.
    pub out_steps: u64,
}

/// The budget of one code.
#[derive(Debug)]
pub struct CommonAccount {
    packets: CommonBucket,
    steps: CommonBucket,
    workers: Box<[OfWorker]>,
    kernel: OnceLock<OfKernel>,
    hungry: Hungry,
    /// Held while limits change.
    renewing: Mutex<()>,
    /// The most packets, and steps, at a time.
    most: (u64, u64),
}

/// Which worker was refused last that had had no more than an equal part, and until when others leave it something.
#[derive(Debug, Default)]
struct Hungry {
    worker: AtomicU64,
    until: AtomicU64,
}

/// The kernel half's part.
#[derive(Debug)]
struct OfKernel {
    account: Arc<dyn SharedAccount>,
    /// What of its spending has been charged.
    packets: AtomicU64,
    steps: AtomicU64,
}

/// A worker's view of it, with the lease that it alone spends.
#[derive(Debug)]
pub struct Lease {
    account: Arc<CommonAccount>,
    worker: usize,
    /// Packets that it takes, and steps that it charges, at a time.
    at_once: (u64, u64),
    /// Whether the steps are to be looked at before anything more is admitted.
    is_due: bool,
    /// Until when it has had more than an equal part.
    sated_until: u64,
    /// What others had spent at the last look.
    seen: Spent,
}

impl Hungry {
    fn is_other(&self, worker: usize, now: u64) -> bool {
        now < self.until.load(Relaxed) && self.worker.load(Relaxed) != worker as u64
    }

    /// This one was refused. Of several the last is known, which does for all.
    fn note(&self, worker: usize, now: u64) {
        self.worker.store(worker as u64, Relaxed);
        self.until.store(now.saturating_add(HUNGRY), Relaxed);
    }
}

/// Adds to a counter that one thread writes.
fn add(counter: &AtomicU64, more: u64) -> u64 {
    let sum = counter.load(Relaxed).wrapping_add(more);
    counter.store(sum, Relaxed);
    sum
}

/// What comes back in a millisecond: one at least.
fn part(rate: u64, most: u64) -> u64 {
    (rate / PARTS_OF_SECOND).clamp(1, most)
}

impl CommonAccount {
    /// A full budget for so many workers. A single one takes each packet by itself.
    pub fn new(workers: WorkerId, limits: &Limits) -> CommonAccount {
        let Limits { packets_per_second, steps_per_second, .. } = *limits;
        CommonAccount {
            packets: CommonBucket::new(packets_per_second, burst(packets_per_second), workers),
            steps: CommonBucket::new(steps_per_second, burst(steps_per_second), workers),
            workers: (0..workers).map(|_| OfWorker::default()).collect(),
            kernel: OnceLock::new(),
            hungry: Hungry::default(),
            renewing: Mutex::new(()),
            most: if workers == 1 { (1, 1) } else { (LEASE, CHARGED_STEPS) },
        }
    }

    /// One for a single worker, which goes on from its buckets of packets and steps.
    pub fn going_on_from(packets: &TokenBucket, steps: &TokenBucket) -> CommonAccount {
        let (packets, steps) = (CommonBucket::going_on_from(packets), CommonBucket::going_on_from(steps));
        CommonAccount { packets, steps, ..CommonAccount::new(1, &Limits::default()) }
    }

    /// The kernel half spends of it too, from now on.
    pub fn join_kernel(&self, account: &Arc<dyn SharedAccount>) {
        let now = account.spent();
        let (packets, steps) = (AtomicU64::new(now.packets), AtomicU64::new(now.steps));
        // It is linked once: code that is linked anew is another domain's.
        let _ = self.kernel.set(OfKernel { account: account.clone(), packets, steps });
    }

    /// The budget as a worker sees it.
    pub fn of(self: &Arc<CommonAccount>, worker: WorkerId) -> Lease {
        let worker = usize::from(worker);
        let mut lease = Lease {
            account: self.clone(),
            worker,
            at_once: (1, 1),
            is_due: true,
            sated_until: 0,
            seen: Spent::default(),
        };
        lease.size_lease();
        lease.seen = lease.spent_elsewhere();
        lease
    }

    /// What is taken and what is out, while they go on.
    pub fn leased(&self) -> Leased {
        let sum = |of: fn(&OfWorker) -> &AtomicU64| {
            self.workers.iter().map(|worker| of(worker).load(Relaxed)).fold(0, u64::wrapping_add)
        };
        Leased {
            leased_packets: sum(|worker| &worker.packets),
            out_packets: sum(|worker| &worker.left),
            out_packets_max: (self.most.0 - 1) * self.workers.len() as u64,
            charged_steps: sum(|worker| &worker.steps),
            out_steps: sum(|worker| &worker.owed),
        }
    }

    /// What the workers but for one have taken: without the kernel half.
    pub fn of_others(&self, worker: WorkerId) -> Spent {
        let others = self.workers.iter().enumerate().filter(|(at, _)| *at != usize::from(worker));
        others.fold(Spent::default(), |sum, (_, other)| sum.plus(other.spent()))
    }

    /// Takes a lease for a worker; how many packets it has. One that is sated has a whole lease or none, and leaves something while
    /// another one is hungry: so a flood at one worker has what is over, and who sends less than a part by another one is not refused.
    fn lease(&self, worker: usize, now: u64, most: u64, is_sated: bool) -> u64 {
        let (least, keep) = match is_sated {
            true => (most, if self.hungry.is_other(worker, now) { self.left_to_others() } else { 0 }),
            false => (1, 0),
        };
        let taken = self.packets.take(now, (least, most), keep);
        if taken > 0 {
            self.workers.get(worker).into_iter().for_each(|own| _ = add(&own.packets, taken));
            self.tell(taken, 0);
        } else if !is_sated && self.workers.len() > 1 {
            self.hungry.note(worker, now);
        }
        taken
    }

    /// Packets that a sated worker leaves while another is hungry: half of a burst at most, so that it has the rest.
    fn left_to_others(&self) -> u64 {
        (LEFT_EACH * (self.workers.len() as u64 - 1)).min(burst(self.packets.rate()) / 2)
    }

    /// Nanoseconds in which an equal part of the rate is so many packets.
    fn sated_by(&self, taken: u64) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        (taken * self.workers.len() as u64 * SECOND).checked_div(self.packets.rate()).unwrap_or(SECOND)
    }

    /// Charges what the kernel half has spent since the last time, whoever asked for that.
    fn settle(&self, now: u64) {
        let Some(kernel) = self.kernel.get() else { return };
        let spent = kernel.account.spent();
        for (charged, spent, bucket) in
            [(&kernel.packets, spent.packets, &self.packets), (&kernel.steps, spent.steps, &self.steps)]
        {
            if charged.load(Relaxed) < spent {
                // Another one may have charged a part of it by now, or more than was seen here.
                let before = charged.fetch_max(spent, Relaxed);
                if before < spent {
                    bucket.charge_elsewhere(now, spent - before);
                }
            }
        }
    }

    /// Tells the kernel half what was taken here.
    fn tell(&self, packets: u64, steps: u64) {
        self.kernel.get().into_iter().for_each(|kernel| kernel.account.spend(packets, steps));
    }
}

impl Lease {
    /// Whether a packet may be admitted, which is spent then.
    #[inline(always)]
    pub fn admit(&mut self, now: u64) -> bool {
        let Some(own) = self.account.workers.get(self.worker) else { return false };
        let left = own.left.load(Relaxed);
        if left > 0 && !self.is_due {
            own.left.store(left - 1, Relaxed);
            return true;
        }
        self.renew_lease(now)
    }

    /// The same where there is no lease, or the steps are to be looked at.
    #[inline(never)]
    fn renew_lease(&mut self, now: u64) -> bool {
        let account = &*self.account;
        let Some(own) = account.workers.get(self.worker) else { return false };
        account.settle(now);
        let mut there = own.left.load(Relaxed);
        if !account.steps.has_any(now) {
            there = 0;
        } else if there == 0 {
            let is_sated = self.sated_until > now.saturating_add(TOLERANCE);
            there = account.lease(self.worker, now, self.at_once.0, is_sated);
            let until = self.sated_until.max(now).saturating_add(account.sated_by(there));
            self.sated_until = until.min(now.saturating_add(SATED_MAX));
        }
        // Of a lease that is there while there are no steps nothing is lost.
        self.is_due = there == 0;
        match there.checked_sub(1) {
            Some(left) => own.left.store(left, Relaxed),
            None => _ = add(&own.refused, 1),
        }
        !self.is_due
    }

    /// Steps were taken.
    #[inline(always)]
    pub fn charge(&mut self, now: u64, steps: u64) {
        let Some(own) = self.account.workers.get(self.worker).filter(|_| steps > 0) else { return };
        let owed = add(&own.owed, steps);
        if owed >= self.at_once.1 {
            self.charge_owed(now, owed);
        }
    }

    #[inline(never)]
    fn charge_owed(&mut self, now: u64, owed: u64) {
        let account = &*self.account;
        let Some(own) = account.workers.get(self.worker) else { return };
        own.owed.store(0, Relaxed);
        add(&own.steps, owed);
        account.steps.charge(now, owed);
        account.tell(0, owed);
        self.is_due = true;
    }

    /// Whether any steps are left.
    pub fn has_steps(&self, now: u64) -> bool {
        self.account.settle(now);
        self.account.steps.has_any(now)
    }

    /// The budget is charged what the kernel half has spent.
    pub fn settle(&self, now: u64) {
        self.account.settle(now);
    }

    /// These limits hold from `now` on. Each worker says so; the first one changes them.
    pub fn renew(&mut self, now: u64, limits: &Limits) {
        let Limits { packets_per_second, steps_per_second, .. } = *limits;
        let alone = self.account.renewing.lock();
        self.account.packets.renew(now, packets_per_second, burst(packets_per_second));
        self.account.steps.renew(now, steps_per_second, burst(steps_per_second));
        drop(alone);
        self.size_lease();
    }

    /// What comes back in a millisecond may be taken at a time, within bounds; the steps are to be looked at.
    fn size_lease(&mut self) {
        let CommonAccount { packets, steps, most, .. } = &*self.account;
        self.at_once = (part(packets.rate(), most.0), part(steps.rate(), most.1));
        self.is_due = true;
    }

    /// Buckets of packets and steps that go on from it, when one worker alone spends of it again.
    pub fn back(&self, now: u64) -> (TokenBucket, TokenBucket) {
        self.settle(now);
        (self.account.packets.back(now), self.account.steps.back(now))
    }

    /// What others have spent since the last look.
    pub fn since(&mut self) -> Spent {
        let now = self.spent_elsewhere();
        now.since(core::mem::replace(&mut self.seen, now))
    }

    /// What the other workers and the kernel half have spent so far.
    fn spent_elsewhere(&self) -> Spent {
        let others = self.account.of_others(self.worker as WorkerId);
        others.plus(self.account.kernel.get().map(|kernel| kernel.account.spent()).unwrap_or_default())
    }
}
