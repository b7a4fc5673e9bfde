//! The node's share of a CPU: `[cpu]` of the configuration, carried out for the worker's thread.
//!
//! The worker asks between batches whether it has used its share, and sleeps if it has ([`crate::schedule::share`]).
//! Meanwhile packets wait in the system's queues; those without room there are counted as missed.

use super::ee::{AccountCounts, Accounts};
use crate::broker;
use crate::config::cpu::CpuFile;
use crate::schedule::Policy;
use crate::schedule::share::CpuShare;
use crate::sys::{clock, realtime};
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// What became of it: counted by the worker, read by control.
#[derive(Debug)]
pub struct Report {
    file: RwLock<CpuFile>,
    used_ns: AtomicU64,
    rests: AtomicU64,
    rested_ns: AtomicU64,
    gaps: Arc<Gaps>,
    accounts: Accounts,
}

/// A time in which the worker had work and did not run is a gap from here on, in nanoseconds.
const GAP_NS: u64 = 1_000_000;

/// Gaps: the machine, or whoever shares the worker's CPU, has kept it from its work.
#[derive(Debug, Default)]
pub struct Gaps {
    count: AtomicU64,
    longest_ns: AtomicU64,
}

impl Gaps {
    /// The worker had work and did not run for so long. Only the worker calls this.
    #[inline]
    pub fn note(&self, nanoseconds: u64) {
        if nanoseconds >= GAP_NS {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.longest_ns.fetch_max(nanoseconds, Ordering::Relaxed);
        }
    }

    /// How many there were, and the longest, in nanoseconds.
    pub fn seen(&self) -> (u64, u64) {
        (self.count.load(Ordering::Relaxed), self.longest_ns.load(Ordering::Relaxed))
    }
}

/// The same as a value.
#[derive(Clone, Debug, Serialize)]
pub struct CpuStatus {
    /// How the CPU is divided among domains.
    pub scheduler: &'static str,
    /// Of one CPU.
    pub share: f64,
    /// Whether the worker runs before ordinary threads.
    pub realtime: bool,
    /// CPU time of the worker when it last looked, which it does when it has less than a whole CPU.
    pub used_ms: u64,
    /// How often it has rested because its share was used up.
    pub rests: u64,
    /// And for how long.
    pub rested_ms: u64,
    /// How often it had work and did not run for a millisecond or more.
    pub gaps: u64,
    /// The longest of these, in microseconds.
    pub longest_gap_us: u64,
    /// What is known of what processes of environments use.
    pub processes: AccountCounts,
}

impl Report {
    /// What processes of environments use.
    pub fn accounts(&self) -> Accounts {
        self.accounts.clone()
    }

    fn file(&self) -> CpuFile {
        self.file.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is known now.
    pub fn status(&self) -> CpuStatus {
        let file = self.file();
        let (gaps, longest) = self.gaps.seen();
        let ms = |counter: &AtomicU64| counter.load(Ordering::Relaxed) / 1_000_000;
        CpuStatus {
            scheduler: file.scheduler.unwrap_or_default().name(),
            share: file.share,
            realtime: file.realtime,
            used_ms: ms(&self.used_ns),
            rests: self.rests.load(Ordering::Relaxed),
            rested_ms: ms(&self.rested_ns),
            gaps,
            longest_gap_us: longest / 1000,
            processes: self.accounts.counts(),
        }
    }
}

/// The worker's side.
#[derive(Debug)]
pub struct Cpu {
    report: Arc<Report>,
    account: Option<CpuShare>,
}

impl Cpu {
    /// As the configuration says; the worker's thread calls [`Cpu::begin`] before it works.
    pub fn new(file: &CpuFile) -> Cpu {
        let counter = AtomicU64::default;
        let (gaps, accounts) = (Arc::default(), Accounts::default());
        let [used_ns, rests, rested_ns] = [(); 3].map(|()| counter());
        let report = Report { file: RwLock::new(file.clone()), used_ns, rests, rested_ns, gaps, accounts };
        Cpu { report: Arc::new(report), account: None }
    }

    /// What became of it.
    pub fn report(&self) -> Arc<Report> {
        self.report.clone()
    }

    /// Where its gaps are noted.
    pub fn gaps(&self) -> Arc<Gaps> {
        self.report.gaps.clone()
    }

    /// How the CPU is divided among domains.
    pub fn scheduler(&self) -> Policy {
        self.report.file().scheduler.unwrap_or_default()
    }

    /// What capsules and PLAN have of it beside other environments, by weight.
    pub fn weights(&self) -> (u32, u32) {
        let file = self.report.file();
        (file.capsules_weight, file.plan_weight)
    }

    /// Makes the calling thread the worker's.
    pub fn begin(&mut self, now: u64) -> io::Result<()> {
        let file = self.report.file();
        if !file.affinity.is_empty() {
            realtime::pin(&file.affinity)?;
        }
        if file.realtime {
            let (thread, priority) = (realtime::this_thread(), file.priority);
            broker::ask(&broker::Request::Realtime { thread, priority }, &[])?;
        }
        self.account = CpuShare::new(file.share, now, clock::thread_cpu());
        Ok(())
    }

    /// Has another share from now on, and what else of this does not hold for a thread from its start.
    pub fn renew(&mut self, file: CpuFile, now: u64) {
        let before = self.report.file().share;
        let share = file.share;
        *self.report.file.write().unwrap_or_else(PoisonError::into_inner) = file;
        if share != before {
            self.account = CpuShare::new(share, now, clock::thread_cpu());
        }
    }

    /// How long the worker is to rest now, if at all. After that, it asks again.
    #[inline]
    pub fn rest(&mut self, now: u64) -> Option<Duration> {
        let account = self.account.as_mut().filter(|account| account.is_due(now))?;
        self.report.rest(account, now)
    }

    /// The same just after a rest.
    pub fn rest_on(&mut self, now: u64) -> Option<Duration> {
        self.report.rest(self.account.as_mut()?, now)
    }
}

impl Report {
    fn rest(&self, account: &mut CpuShare, now: u64) -> Option<Duration> {
        let used = clock::thread_cpu();
        let rest = account.rest(now, used);
        self.used_ns.store(used, Ordering::Relaxed);
        self.rests.store(account.rests(), Ordering::Relaxed);
        self.rested_ns.store(account.rested_ns(), Ordering::Relaxed);
        (rest > 0).then_some(Duration::from_nanos(rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_works_all_the_time_rests_and_a_whole_cpu_does_not() {
        let mut cpu = Cpu::new(&CpuFile { share: 0.01, ..CpuFile::default() });
        let clock = clock::Clock::start();
        cpu.begin(clock.now()).unwrap();
        let end = clock::thread_cpu() + 20_000_000;
        // Two milliseconds of work are more than a hundredth of any time but 200 ms, and the burst.
        while clock::thread_cpu() < end && cpu.rest(clock.now()).is_none() {}
        assert!(clock::thread_cpu() < end, "never asked to rest");
        assert_eq!(cpu.report().status().rests, 1);
        let mut whole = Cpu::new(&CpuFile::default());
        whole.begin(clock.now()).unwrap();
        assert_eq!((whole.rest(u64::MAX), whole.rest_on(u64::MAX)), (None, None));
    }
}
