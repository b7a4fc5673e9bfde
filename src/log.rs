//! The node's log: a bounded number of lines for each cause, written by a thread of its own.
//!
//! ```text
//! any thread ─▶ limit of the line's cause ─▶ clean ─▶ queue ─▶ thread "anode-log" ─▶ standard error
//!                        └──── left out: counted ───────┴─ full ──▶ said every ten seconds
//! ```
//!
//! Most lines say what others have caused, and some of those can cause it as fast as they send. So each place of the
//! program that writes lines has a limit of its own, and what is beyond is counted. Whoever reads the log can be slow,
//! or stop: no thread waits for him but the one that writes. Lines of levels below `info` are written for somebody who
//! looks for something, and have no limit but the queue. The last lines stay in memory too ([`recent`]), for
//! `anode node log --follow`.

pub mod fall;
mod happened;
pub mod journald;
pub mod level;
pub mod sieve;
mod words;

pub use happened::{ASKED, Asker, HAPPENED_MAX, Happened, Kept, asked, happened, so_far, unkept};

use crate::clean;
use crate::core::bucket::TokenBucket;
use crate::sys::threads::{self, Duty};
use journald::Journald;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::{Event, Level, Subscriber, callsite::Identifier};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer};
use words::Words;

/// Lines of one cause a second in the long run, and at once.
pub const LINES_PER_SECOND: u64 = 1;
/// See [`LINES_PER_SECOND`].
pub const LINES_BURST: u64 = 64;

/// The target of lines that are counted where they are written, each environment's for itself.
pub const COUNTED: &str = "anode::counted";

/// Lines that can wait to be written.
pub const QUEUE_MAX: usize = 1024;

/// Time between two lines that say how many were left out.
const SAID_AGAIN: Duration = Duration::from_secs(10);

/// Time that a process waits at its end for who reads the log.
const SETTLE: Duration = Duration::from_secs(1);

/// A place of the program that writes lines.
struct Cause {
    lines: TokenBucket,
    left_out: u64,
    place: String,
}

/// Lines that stay in memory.
const RECENT_MAX: usize = 256;

/// A line that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recent {
    /// Its number, from 0.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// How grave it is.
    pub level: Level,
    /// What was written, clean.
    pub text: String,
}

/// The last lines of this process, and the number of the next one.
static RECENT: Mutex<(VecDeque<Recent>, u64)> = Mutex::new((VecDeque::new(), 0));

/// Lines since the last one there that somebody else's look has kept out.
static UNKEPT: AtomicU64 = AtomicU64::new(0);

/// The last lines of this process, oldest first.
pub fn recent() -> Vec<Recent> {
    RECENT.lock().unwrap_or_else(PoisonError::into_inner).0.iter().cloned().collect()
}

fn keep(event: &Event<'_>) {
    let words = Words::of(event);
    let text = words.cleaned();
    if let Some(kind) = &words.event {
        happened::note(kind, &text);
    }
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    // Nobody who writes waits for somebody who reads: the gap in the numbers says that a line is missing.
    let mut recent = match RECENT.try_lock() {
        Ok(recent) => recent,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => {
            UNKEPT.fetch_add(1, Ordering::Relaxed);
            return;
        }
    };
    let (lines, next) = &mut *recent;
    *next += UNKEPT.swap(0, Ordering::Relaxed);
    if lines.len() == RECENT_MAX {
        lines.pop_front();
    }
    lines.push_back(Recent { number: *next, unix_ms, level: *event.metadata().level(), text });
    *next += 1;
}

struct Shared {
    since: Instant,
    causes: Mutex<HashMap<Identifier, Cause>>,
    /// Lines that found the queue full.
    overrun: AtomicU64,
    thread: OnceLock<SyncSender<Line>>,
    journal: OnceLock<Journald>,
}

enum Line {
    Text(Vec<u8>),
    /// For the journal.
    Entry(Vec<u8>),
    /// All before is to be written; then this is to be told.
    Settle(SyncSender<()>),
}

/// The log of a process.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

/// The limits of its causes.
pub struct Limits(Log);

/// Lines are written by a thread until this goes.
pub struct Settled(Log);

/// Takes lines, and hands them on.
pub struct Writer(Log);

/// Hands lines on to the journal.
pub struct Journal(Log);

impl Default for Log {
    fn default() -> Log {
        let (causes, overrun, thread, journal) = Default::default();
        Log(Arc::new(Shared { since: Instant::now(), causes, overrun, thread, journal }))
    }
}

impl Log {
    /// The layer that leaves out what is beyond a cause's limit.
    pub fn limits(&self) -> Limits {
        Limits(self.clone())
    }

    /// The layer that sends lines to the journal, in the place of one that writes them.
    pub fn journal(&self, journal: Journald) -> Journal {
        // A log has one journal.
        let _ = self.0.journal.set(journal);
        Journal(self.clone())
    }

    /// Lines so far that found the queue full, or that nobody took, and of which was not told yet.
    pub fn overrun(&self) -> u64 {
        self.0.overrun.load(Ordering::Relaxed)
    }

    /// Hands a line on, or writes it where there is no thread for that yet.
    fn hand_on(&self, line: Line) {
        let Some(lines) = self.0.thread.get() else { return self.put(line) };
        match lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.lost(),
            Err(TrySendError::Disconnected(line)) => self.put(line),
        }
    }

    fn lost(&self) {
        self.0.overrun.fetch_add(1, Ordering::Relaxed);
    }

    /// Where a line goes in the end.
    fn put(&self, line: Line) {
        match line {
            Line::Text(text) => write(&text),
            Line::Entry(entry) => {
                if self.0.journal.get().is_none_or(|journal| !journal.send(&entry)) {
                    self.lost();
                }
            }
            Line::Settle(told) => drop(told.try_send(())),
        }
    }

    /// Has a thread write from now on; before, and in a process that is forked before, whoever has a line writes it.
    /// When what this gives goes, all is written.
    pub fn start(&self) -> io::Result<Settled> {
        let (lines, queue) = sync_channel(QUEUE_MAX);
        let log = self.clone();
        threads::start("anode-log", Duty::Ticks, move || log.serve(&queue))?;
        self.0.thread.set(lines).map_err(|_| io::Error::other("the log has its thread already"))?;
        Ok(Settled(self.clone()))
    }

    /// Waits until all lines are written that have come so far, unless nobody takes them.
    fn settle(&self) {
        let Some(lines) = self.0.thread.get() else { return };
        let (told, settled) = sync_channel(1);
        let end = Instant::now() + SETTLE;
        while let Err(TrySendError::Full(_)) = lines.try_send(Line::Settle(told.clone())) {
            if Instant::now() > end {
                return;
            }
            std::thread::sleep(SETTLE / 100);
        }
        // Whoever reads has stopped, or has everything.
        let _ = settled.recv_timeout(end.saturating_duration_since(Instant::now()));
    }

    fn serve(&self, queue: &Receiver<Line>) {
        let mut said = Instant::now();
        loop {
            match queue.recv_timeout(SAID_AGAIN.saturating_sub(said.elapsed())) {
                Ok(line) => self.put(line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if said.elapsed() >= SAID_AGAIN {
                said = Instant::now();
                self.say_left_out();
            }
        }
    }

    /// Whether a cause may write a line now.
    fn may_write(&self, event: &Event<'_>) -> bool {
        let meta = event.metadata();
        if *meta.level() > Level::INFO || [COUNTED, ASKED].contains(&meta.target()) {
            return true;
        }
        let mut causes = self.0.causes.lock().unwrap_or_else(PoisonError::into_inner);
        let cause = causes.entry(meta.callsite()).or_insert_with(|| Cause {
            lines: TokenBucket::new(LINES_PER_SECOND, LINES_BURST),
            left_out: 0,
            place: format!("{}:{}", meta.target(), meta.line().unwrap_or(0)),
        });
        let may = cause.lines.take(self.0.since.elapsed().as_nanos() as u64, 1);
        cause.left_out += u64::from(!may);
        if !may && words::is_event(meta) {
            happened::lose();
        }
        may
    }

    /// What was left out since the last call: of which cause, and how many lines.
    fn left_out(&self) -> Vec<(String, u64)> {
        let mut causes = self.0.causes.lock().unwrap_or_else(PoisonError::into_inner);
        let some = causes.values_mut().filter(|cause| cause.left_out > 0);
        let mut list: Vec<_> = some.map(|cause| (cause.place.clone(), std::mem::take(&mut cause.left_out))).collect();
        drop(causes);
        let overrun = self.0.overrun.swap(0, Ordering::Relaxed);
        list.extend((overrun > 0).then(|| ("all: they were not taken".to_owned(), overrun)));
        list
    }

    fn say_left_out(&self) {
        for (of, lines) in self.left_out() {
            tracing::warn!(lines, of, "left out of the log");
        }
    }
}

fn write(text: &[u8]) {
    // Who has closed it wants no log.
    let _ = io::stderr().write_all(text);
}

impl Drop for Settled {
    fn drop(&mut self) {
        self.0.settle();
    }
}

impl<S: Subscriber> Layer<S> for Limits {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.0.may_write(event)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        keep(event);
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.hand_on(Line::Entry(journald::entry(event)));
    }
}

impl Write for Writer {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.hand_on(Line::Text(text.to_vec()));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = clean::Writer<Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        // All control characters in a log are somebody else's.
        clean::Writer(Writer(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::layer::SubscriberExt as _;

    /// A log whose lines come here.
    pub(super) fn log() -> (Log, Receiver<Line>) {
        let (lines, queue) = sync_channel(QUEUE_MAX);
        let log = Log::default();
        log.0.thread.set(lines).unwrap();
        (log, queue)
    }

    fn within<R>(log: &Log, work: impl FnOnce() -> R) -> R {
        let lines = tracing_subscriber::fmt::layer().with_writer(log.clone()).with_ansi(false);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(log.limits()).with(lines), work)
    }

    pub(super) fn texts(queue: &Receiver<Line>) -> Vec<String> {
        let text = |line| if let Line::Text(text) = line { String::from_utf8(text).unwrap() } else { String::new() };
        queue.try_iter().map(text).collect()
    }

    #[test]
    fn a_cause_has_so_many_lines_and_what_is_beyond_is_counted_and_said() {
        let (log, queue) = log();
        within(&log, || {
            (0..1000).for_each(|number| tracing::warn!(number, "a packet has no role"));
            tracing::warn!("another cause");
            log.say_left_out();
        });
        let lines = texts(&queue);
        let of = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
        let written = of("a packet has no role");
        assert!((64..1000).contains(&written), "{written}");
        assert_eq!((of("another cause"), of("left out of the log")), (1, 1));
        assert!(of(&format!("lines={}", 1000 - written)) == 1 && log.left_out().is_empty(), "{lines:?}");
        let kept = recent();
        let last = kept.iter().rfind(|line| line.text.contains("left out of the log")).unwrap();
        assert!((last.level, kept.len()) <= (Level::WARN, RECENT_MAX), "{last:?}");
        assert!(last.text.starts_with("left out of the log lines="), "{last:?}");
    }

    #[test]
    fn nobody_waits_for_who_does_not_read() {
        let (log, queue) = log();
        for number in 0..QUEUE_MAX + 100 {
            log.make_writer().write_all(format!("{number}\u{7}\n").as_bytes()).unwrap();
        }
        assert_eq!(log.left_out(), [("all: they were not taken".to_owned(), 100)]);
        let lines = texts(&queue);
        assert_eq!((lines.len(), lines[9].as_str()), (QUEUE_MAX, "9\\u0007\n"));
    }
}
