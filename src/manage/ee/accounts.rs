//! What processes of environments use of the processor: read here, charged by the worker ([`super::bills`]).
//!
//! ```text
//! cpuacct.usage, cpu.stat ──▶ thread anode-cpu, each 10 ms ──▶ Account.used ──▶ worker: its domain's cpu_ns and turn
//! cpu.shares, cpu.weight  ◀── when it is another          ◀── Account.wish ◀── what it is to have
//! ```
//!
//! Files are read and written by a thread of its own, so the worker makes no system call for this. Without a control group the clock of the
//! first process is read in its place. While no process uses anything a reading is due each 100 ms, and without processes none.

use crate::core::domain::DomainId;
use crate::sys::jail::{Groups, Meter, Unread, Weights};
use crate::sys::threads::{self, Duty};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two readings while something was used, and while nothing was.
const BUSY: Duration = Duration::from_millis(10);
const QUIET: Duration = Duration::from_millis(100);

/// What all of a node's groups may weigh beside the worker, which weighs 100.
const ALL_MAX: u32 = 10_000;

/// What one environment's processes have used, as the thread that reads it and the worker share it.
#[derive(Debug)]
pub struct Account {
    /// The domain that pays; of a process with several connections that of the first that is still there.
    domain: AtomicU32,
    /// Nanoseconds so far.
    pub used: AtomicU64,
    /// Packets that its processes were given so far; the worker counts them.
    pub told: AtomicU64,
    /// What its group is to weigh; 0: what it weighs already.
    pub wish: AtomicU32,
    /// Whether it is nobody's any more.
    pub gone: AtomicBool,
    /// Readings of all accounts of the node so far.
    pub readings: Arc<AtomicU64>,
}

/// An account that is kept as long as one of these lives; each has a domain that can pay.
#[derive(Debug)]
pub struct Kept {
    account: Arc<Account>,
    accounts: Accounts,
    domain: DomainId,
}

impl Account {
    fn of(domain: DomainId, readings: Arc<AtomicU64>) -> Account {
        Account {
            domain: AtomicU32::new(domain.0),
            used: AtomicU64::new(0),
            told: AtomicU64::new(0),
            wish: AtomicU32::new(0),
            gone: AtomicBool::new(false),
            readings,
        }
    }

    /// The domain that pays.
    pub fn domain(&self) -> DomainId {
        DomainId(self.domain.load(Ordering::Relaxed))
    }
}

/// How reading went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct AccountCounts {
    /// Accounts that are kept.
    pub kept: u64,
    /// Those that are of one process, since there is no control group.
    pub of_one_process: u64,
    /// Readings of which there was no number.
    pub unread: u64,
    /// Readings that could not follow the one before.
    pub jumped: u64,
    /// Weights that could not be written.
    pub unweighed: u64,
}

/// All accounts of a node.
#[derive(Clone, Debug, Default)]
pub struct Accounts(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
    opened: Condvar,
    readings: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Book {
    entries: Vec<Entry>,
    counts: AccountCounts,
    runs: bool,
}

#[derive(Debug)]
struct Entry {
    account: Arc<Account>,
    meter: Meter,
    weights: Option<Weights>,
    /// What was written last.
    weight: u32,
    /// What was written for all groups together.
    all: u32,
    /// The process of an operator's connections.
    process: Option<u32>,
    /// The domains of its connections, the oldest first, which pays.
    payers: Vec<DomainId>,
}

impl Accounts {
    /// Keeps that of an environment's processes from now on.
    pub fn of_groups(
        &self,
        domain: DomainId,
        groups: &Groups,
        process: u32,
        weights: Option<Weights>,
    ) -> io::Result<Kept> {
        self.keep(domain, Meter::of(groups, process), weights, None)
    }

    /// The same of one process that an operator has connected, from now on: what it did before was not the node's.
    ///
    /// A process has one account, however many connections it has, and pays as long as it has one.
    pub fn of_process(&self, domain: DomainId, process: u32) -> io::Result<Kept> {
        if let Some(entry) = self.book().entries.iter_mut().find(|entry| entry.process == Some(process)) {
            entry.payers.push(domain);
            return Ok(Kept { account: entry.account.clone(), accounts: self.clone(), domain });
        }
        let mut meter = Meter::of(&Groups::default(), process);
        // One that is gone already has nothing to be counted.
        let _ = meter.begin();
        self.keep(domain, meter, None, Some(process))
    }

    fn keep(&self, domain: DomainId, meter: Meter, weights: Option<Weights>, process: Option<u32>) -> io::Result<Kept> {
        let account = Arc::new(Account::of(domain, self.0.readings.clone()));
        let payers = vec![domain];
        let entry = Entry { account: account.clone(), meter, weights, weight: 0, all: 0, process, payers };
        let mut book = self.book();
        if !book.runs {
            let accounts = self.clone();
            threads::start("anode-cpu", Duty::Sessions, move || accounts.serve())?;
            book.runs = true;
        }
        book.entries.push(entry);
        drop(book);
        self.0.opened.notify_one();
        Ok(Kept { account, accounts: self.clone(), domain })
    }

    /// How reading went.
    pub fn counts(&self) -> AccountCounts {
        let book = self.book();
        let of_one = book.entries.iter().filter(|entry| entry.meter.is_of_process()).count();
        AccountCounts { kept: book.entries.len() as u64, of_one_process: of_one as u64, ..book.counts }
    }

    /// Reads, while there is something to be read.
    fn serve(&self) {
        loop {
            let mut book = self.book();
            while book.entries.is_empty() {
                book = self.0.opened.wait(book).unwrap_or_else(PoisonError::into_inner);
            }
            let used = book.read();
            drop(book);
            self.0.readings.fetch_add(1, Ordering::Release);
            std::thread::sleep(if used { BUSY } else { QUIET });
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // What it holds is right between any two statements.
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Reads all accounts and writes weights that are others; whether anything was used.
    fn read(&mut self) -> bool {
        let mut used = false;
        for entry in &mut self.entries {
            used |= entry.read(&mut self.counts);
        }
        let wish = |entry: &Entry| entry.account.wish.load(Ordering::Relaxed);
        let all = self.entries.iter().filter(|entry| entry.weights.is_some()).map(wish).fold(0, u32::saturating_add);
        for entry in &mut self.entries {
            if entry.weigh(all.min(ALL_MAX)).is_err() {
                self.counts.unweighed += 1;
            }
        }
        used
    }
}

impl Entry {
    fn read(&mut self, counts: &mut AccountCounts) -> bool {
        match self.meter.read() {
            Ok(used) => self.account.used.swap(used, Ordering::Relaxed) != used,
            Err(Unread::Jumped) => {
                counts.jumped += 1;
                true
            }
            Err(Unread::Gone | Unread::Nonsense) => {
                counts.unread += 1;
                false
            }
        }
    }

    /// Writes the weights that are wanted, if they are others than before.
    fn weigh(&mut self, all: u32) -> io::Result<()> {
        let (Some(weights), wish) = (&self.weights, self.account.wish.load(Ordering::Relaxed)) else { return Ok(()) };
        if wish > 0 && is_another(self.weight, wish) {
            weights.set(wish)?;
            self.weight = wish;
        }
        if all > 0 && is_another(self.all, all) {
            weights.set_all(all)?;
            self.all = all;
        }
        Ok(())
    }
}

/// Whether weights differ by more than a hundredth.
fn is_another(before: u32, after: u32) -> bool {
    before.abs_diff(after) > before / 100
}

impl Kept {
    /// What the worker charges.
    pub fn account(&self) -> Arc<Account> {
        self.account.clone()
    }

    /// What was used at the expense of a domain that was not read before: nanoseconds.
    pub fn unread_ns(&self, domain: DomainId) -> u64 {
        if domain != self.account.domain() {
            return 0;
        }
        let mut book = self.accounts.book();
        let entry = book.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.account, &self.account));
        let now = entry.and_then(|entry| entry.meter.read().ok()).unwrap_or(0);
        now.saturating_sub(self.account.used.load(Ordering::Relaxed))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut book = self.accounts.book();
        let Some(at) = book.entries.iter().position(|entry| Arc::ptr_eq(&entry.account, &self.account)) else { return };
        let payers = &mut book.entries[at].payers;
        if let Some(own) = payers.iter().position(|domain| *domain == self.domain) {
            payers.remove(own);
        }
        match payers.first() {
            Some(next) => self.account.domain.store(next.0, Ordering::Relaxed),
            None => {
                self.account.gone.store(true, Ordering::Relaxed);
                book.entries.swap_remove(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_account_that_goes_with_its_last_connection() {
        let accounts = Accounts::default();
        let [first, second] = [7, 8].map(|domain| accounts.of_process(DomainId(domain), std::process::id()).unwrap());
        let account = first.account();
        assert!(Arc::ptr_eq(&account, &second.account()), "nothing is counted twice");
        assert_eq!(account.domain(), DomainId(7));
        assert_eq!(accounts.counts(), AccountCounts { kept: 1, of_one_process: 1, ..accounts.counts() });
        drop(first);
        assert!(!account.gone.load(Ordering::Relaxed));
        assert_eq!((account.domain(), accounts.counts().kept), (DomainId(8), 1), "who is still there pays");
        let before = account.used.load(Ordering::Relaxed);
        while account.used.load(Ordering::Relaxed) == before {
            std::thread::yield_now();
        }
        drop(second);
        assert!(account.gone.load(Ordering::Relaxed));
        assert_eq!(accounts.counts().kept, 0);
    }

    #[test]
    fn what_a_process_did_before_it_connected_is_not_charged() {
        const BEFORE: u64 = 50_000_000;
        let own = std::process::id();
        while crate::sys::clock::process_cpu(own).unwrap() < BEFORE {
            std::hint::spin_loop();
        }
        let past = crate::sys::clock::process_cpu(own).unwrap();
        let kept = Accounts::default().of_process(DomainId(7), own).unwrap();
        let charged = kept.account.used.load(Ordering::Relaxed) + kept.unread_ns(DomainId(7));
        let now = crate::sys::clock::process_cpu(own).unwrap();
        assert!(charged <= now - past, "{charged} of {past} before and {} since", now - past);
    }

    #[test]
    fn what_cannot_be_read_or_written_is_counted() {
        let parent = tempfile::tempdir().unwrap();
        let own = parent.path().join("own");
        std::fs::create_dir(&own).unwrap();
        let groups = Groups { places: vec![own.clone()] };
        let write = |file: &str, text: &str| std::fs::write(own.join(file), text).unwrap();
        write("cpuacct.usage", "5000");
        write("cpu.weight", "");
        std::fs::write(parent.path().join("cpu.weight"), "").unwrap();
        let account = Arc::new(Account::of(DomainId(1), Arc::default()));
        account.wish.store(50, Ordering::Relaxed);
        let entry = Entry {
            account,
            meter: Meter::of(&groups, 0),
            weights: Weights::of(&groups),
            weight: 0,
            all: 0,
            process: None,
            payers: vec![DomainId(1)],
        };
        let mut book = Book { entries: vec![entry], ..Book::default() };
        assert!(book.read() && !book.read(), "the second time nothing more was used");
        let weights = [own.join("cpu.weight"), parent.path().join("cpu.weight")];
        assert_eq!(weights.map(|at| std::fs::read_to_string(at).unwrap()), ["50", "50"]);
        for text in ["junk", "4000"] {
            write("cpuacct.usage", text);
            book.read();
        }
        assert_eq!(book.entries[0].account.used.load(Ordering::Relaxed), 5000, "neither changes anything");
        assert_eq!((book.counts.unread, book.counts.jumped, book.counts.unweighed), (1, 1, 0));
    }
}
