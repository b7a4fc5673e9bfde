//! What the workers of a node, and its kernel half, have spent of the budget of one code.
//!
//! Example: of 1,000 packets a second worker 0 has admitted 640 and worker 1 320, which each can see. A worker tells what
//! it spends, and is charged what others have told, once in [`SHARE`] packets or in what comes back in a millisecond, if
//! that is less: so no memory of others is touched for each packet. Several workers together admit at most
//! `rate × t + burst + SHARE × workers` packets in t seconds.

use super::sync::{AtomicU64, OnceLock, Relaxed};
use crate::core::share::{Lease, Owed, SharedAccount, Spent};
use crate::frame::WorkerId;
use std::sync::Arc;

/// Packets that a worker admits before it tells, and steps.
pub const SHARE: u64 = 32;
const SHARE_STEPS: u64 = 1 << 16;

/// What one worker has told: a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Told {
    packets: AtomicU64,
    steps: AtomicU64,
    refused: AtomicU64,
}

/// How far the spending of all workers is known to each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Leased {
    /// Packets that workers have admitted and told the others of.
    pub told_packets: u64,
    /// Packets that they have admitted and not told yet.
    pub out_packets: u64,
    /// The most that can be.
    pub out_packets_max: u64,
    /// Steps that they have told of.
    pub told_steps: u64,
    /// Steps that they have not told of yet.
    pub out_steps: u64,
}

/// The spending of all workers.
#[derive(Debug)]
pub struct CommonAccount {
    told: Box<[Told]>,
    owed: Box<[Arc<Owed>]>,
    kernel: OnceLock<Arc<dyn SharedAccount>>,
}

/// The same as one worker sees it: the other workers and the kernel half are its other half.
#[derive(Debug)]
struct View {
    account: Arc<CommonAccount>,
    worker: usize,
}

impl CommonAccount {
    /// Nothing is spent yet.
    pub fn new(workers: WorkerId) -> CommonAccount {
        let all = 0..workers;
        CommonAccount {
            told: all.clone().map(|_| Told::default()).collect(),
            owed: all.map(|_| Arc::default()).collect(),
            kernel: OnceLock::new(),
        }
    }

    /// The kernel half spends of it too, from now on.
    pub fn share(&self, kernel: &Arc<dyn SharedAccount>) {
        // It is linked once: code that is linked anew is another domain's.
        let _ = self.kernel.set(kernel.clone());
    }

    /// The account as a worker sees it.
    pub fn of(self: &Arc<CommonAccount>, worker: WorkerId) -> Arc<dyn SharedAccount> {
        Arc::new(View { account: self.clone(), worker: worker.into() })
    }

    /// What is told and what is out, while they go on.
    pub fn leased(&self) -> Leased {
        let sum = |of: &dyn Fn(usize) -> u64| (0..self.told.len()).map(of).fold(0, u64::wrapping_add);
        Leased {
            told_packets: sum(&|at| self.told[at].packets.load(Relaxed)),
            out_packets: sum(&|at| self.owed[at].now().packets),
            out_packets_max: (SHARE - 1) * self.told.len() as u64,
            told_steps: sum(&|at| self.told[at].steps.load(Relaxed)),
            out_steps: sum(&|at| self.owed[at].now().steps),
        }
    }

    /// What the workers but for one have told: without the kernel half.
    pub fn of_others(&self, worker: WorkerId) -> Spent {
        let others = self.told.iter().enumerate().filter(|(at, _)| *at != usize::from(worker));
        others.fold(Spent::default(), |sum, (_, told)| Spent {
            packets: sum.packets.wrapping_add(told.packets.load(Relaxed)),
            steps: sum.steps.wrapping_add(told.steps.load(Relaxed)),
            refused: sum.refused.wrapping_add(told.refused.load(Relaxed)),
        })
    }
}

/// Adds to a counter that one thread writes.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

impl SharedAccount for View {
    fn kernel(&self) -> Spent {
        let others = self.account.of_others(self.worker as WorkerId);
        let Some(kernel) = self.account.kernel.get() else { return others };
        let kernel = kernel.kernel();
        Spent {
            packets: others.packets.wrapping_add(kernel.packets),
            steps: others.steps.wrapping_add(kernel.steps),
            refused: others.refused.wrapping_add(kernel.refused),
        }
    }

    fn spend(&self, packets: u64, steps: u64) {
        if let Some(told) = self.account.told.get(self.worker) {
            add(&told.packets, packets);
            add(&told.steps, steps);
        }
        if let Some(kernel) = self.account.kernel.get() {
            kernel.spend(packets, steps);
        }
    }

    fn lease(&self) -> Lease {
        let owed = self.account.owed.get(self.worker).cloned().unwrap_or_default();
        Lease { packets: SHARE, steps: SHARE_STEPS, owed }
    }

    #[cold]
    fn refuse(&self) {
        if let Some(told) = self.account.told.get(self.worker) {
            add(&told.refused, 1);
        }
    }
}
