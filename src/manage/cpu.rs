//! The node's share of a CPU: `[cpu]` of the configuration, carried out for the worker's thread.
//!
//! The worker asks between batches whether it has used its share, and sleeps if it has ([`crate::schedule::share`]).
//! Meanwhile packets wait in the system's queues; those without room there are counted as missed.

use super::ee::{AccountCounts, Accounts};
use super::watchdog::Rounds;
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
    slice_ns: AtomicU64,
    gaps: Arc<Gaps>,
    accounts: Accounts,
    rounds: Arc<Rounds>,
    panics: AtomicU64,
    load_permille: AtomicU64,
}

/// A time in which the worker had work and did not run is a gap from here on, in nanoseconds.
const GAP_NS: u64 = 1_000_000;

/// Gaps: the machine, or whoever shares the worker's CPU, has kept it from its work.
#[derive(Debug, Default)]
pub struct Gaps {
    count: AtomicU64,
    longest_ns: AtomicU64,
    /// The longest of the even and of the odd minutes, in microseconds, beside the number of the minute.
    minutes: [AtomicU64; 2],
}

/// Bits of such a word that are the gap: an hour and more.
const GAP_BITS: u32 = 32;

/// The minute that it is, of the system's clock.
fn minute() -> u64 {
    clock::Clock::of_host().now() / 60_000_000_000
}

impl Gaps {
    /// The worker had work and did not run for so long. Only the worker calls this.
    #[inline]
    pub fn note(&self, nanoseconds: u64) {
        if nanoseconds >= GAP_NS {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.longest_ns.fetch_max(nanoseconds, Ordering::Relaxed);
            self.note_in(minute(), nanoseconds / 1000);
        }
    }

    fn note_in(&self, minute: u64, microseconds: u64) {
        let word = &self.minutes[(minute % 2) as usize];
        let now = minute << GAP_BITS | microseconds.min((1 << GAP_BITS) - 1);
        // A later minute is a larger number, and so is a longer gap of the same.
        word.fetch_max(now, Ordering::Relaxed);
    }

    /// The longest of this minute and of the one before, in microseconds.
    fn longest_since(&self, minute: u64) -> u64 {
        let words = self.minutes.iter().map(|word| word.load(Ordering::Relaxed));
        let recent = words.filter(|word| (word >> GAP_BITS) + 1 >= minute);
        recent.map(|word| word & ((1 << GAP_BITS) - 1)).max().unwrap_or(0)
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
    /// For how much of the last full second it was at work, in thousandths.
    pub load_permille: u64,
    /// How often it has begun anew after a panic.
    pub panics: u64,
    /// The longest time that it was held by somebody who had its counters copied, in microseconds.
    pub longest_slice_us: u64,
    /// What is known of what processes of environments use.
    pub processes: AccountCounts,
}

impl Report {
    /// The rounds of the worker, for who looks whether it comes round.
    pub fn rounds(&self) -> Arc<Rounds> {
        self.rounds.clone()
    }

    /// How often the worker has begun anew after a panic.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// What processes of environments use.
    pub fn accounts(&self) -> Accounts {
        self.accounts.clone()
    }

    /// The longest gap of the last minute or two, in microseconds.
    pub fn recent_gap_us(&self) -> u64 {
        self.gaps.longest_since(minute())
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
            load_permille: self.load_permille.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            longest_slice_us: self.slice_ns.load(Ordering::Relaxed) / 1000,
            processes: self.accounts.counts(),
        }
    }
}

/// The worker's side.
#[derive(Debug)]
pub struct Cpu {
    report: Arc<Report>,
    account: Option<CpuShare>,
    /// When its load was looked at last, and what it had worked then.
    looked: (u64, u64),
}

/// Time between two looks at the load, in nanoseconds.
const LOAD_WINDOW: u64 = 1_000_000_000;

impl Cpu {
    /// As the configuration says; the worker's thread calls [`Cpu::begin`] before it works.
    pub fn new(file: &CpuFile) -> Cpu {
        let counter = AtomicU64::default;
        let (gaps, accounts) = (Arc::default(), Accounts::default());
        let [used_ns, rests, rested_ns, slice_ns, panics, load_permille] = [(); 6].map(|()| counter());
        let (file, rounds) = (RwLock::new(file.clone()), Arc::default());
        let report =
            Report { file, used_ns, rests, rested_ns, slice_ns, gaps, accounts, rounds, panics, load_permille };
        Cpu { report: Arc::new(report), account: None, looked: (0, 0) }
    }

    /// What became of it.
    pub fn report(&self) -> Arc<Report> {
        self.report.clone()
    }

    /// Where its gaps are noted.
    pub fn gaps(&self) -> Arc<Gaps> {
        self.report.gaps.clone()
    }

    /// Looks at the load once a second; `worked` says how many nanoseconds of work there were so far.
    #[inline]
    pub fn look_at_load(&mut self, now: u64, worked: impl FnOnce() -> u64) {
        if now.saturating_sub(self.looked.0) >= LOAD_WINDOW {
            self.note_load(now, worked());
        }
    }

    #[cold]
    fn note_load(&mut self, now: u64, worked: u64) {
        let (since, before) = std::mem::replace(&mut self.looked, (now, worked));
        let load = worked.saturating_sub(before) * 1000 / (now - since).max(1);
        self.report.load_permille.store(load.min(1000), Ordering::Relaxed);
    }

    /// Where its rounds are noted.
    #[inline]
    pub fn rounds(&self) -> &Rounds {
        &self.report.rounds
    }

    /// It has begun anew after a panic.
    pub fn count_panic(&self) {
        self.report.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Its counters were copied for so long, in nanoseconds, while packets waited.
    pub fn sliced(&self, nanoseconds: u64) {
        self.report.slice_ns.fetch_max(nanoseconds, Ordering::Relaxed);
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
        self.looked = (now, self.looked.1);
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
    fn the_load_is_what_it_has_worked_of_the_last_window() {
        let mut cpu = Cpu::new(&CpuFile::default());
        cpu.begin(5).unwrap();
        let mut load = |now, worked| {
            cpu.look_at_load(now, || worked);
            cpu.report().status().load_permille
        };
        assert_eq!(load(LOAD_WINDOW, 7), 0, "the window is not over");
        assert_eq!(load(LOAD_WINDOW + 5, LOAD_WINDOW / 4), 250);
        assert_eq!(load(LOAD_WINDOW + 9, LOAD_WINDOW), 250);
        assert_eq!(load(3 * LOAD_WINDOW + 5, LOAD_WINDOW / 4 + LOAD_WINDOW), 500);
        assert_eq!(load(9 * LOAD_WINDOW, 0), 0, "a node that begins anew counts anew");
    }

    #[test]
    fn gaps_are_forgotten_after_a_minute_or_two() {
        let gaps = Gaps::default();
        gaps.note_in(7, 500);
        gaps.note_in(7, 300);
        assert_eq!((gaps.longest_since(7), gaps.longest_since(8), gaps.longest_since(9)), (500, 500, 0));
        gaps.note_in(8, 200);
        gaps.note_in(9, 100);
        assert_eq!((gaps.longest_since(9), gaps.longest_since(10), gaps.longest_since(11)), (200, 100, 0));
    }

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
