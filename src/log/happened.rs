//! What has been done to the node, and what has changed in it: the last events, by number.
//!
//! An event is a line of the log that says of what kind it is: `tracing::info!(event = "link", port, "the link is down")`.
//! So it has the limit of its cause, as other lines have; whether it is written makes no difference ([`super::sieve`]). What somebody has
//! asked for over the control socket comes by [`asked`], without a limit: who asks is the operator. The ring is bounded, and a gap in the
//! numbers says how many nobody has read. Those that were not kept have numbers too, and are counted ([`Kept::unkept`]).

use super::words::Words;
use crate::clean;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Events that are kept.
pub const HAPPENED_MAX: usize = 1024;

/// The target of lines about what somebody has asked for: they have no limit.
pub const ASKED: &str = "anode::asked";

/// Who has asked for something: user and process.
pub type Asker = (u32, i32);

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Its number, from 0.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Of what it is.
    pub kind: &'static str,
    /// What has happened, clean.
    pub what: String,
    /// Who has asked for it, if somebody has.
    pub who: Option<Asker>,
    /// Why it was refused, if it was.
    pub refused: Option<String>,
}

/// The last ones, and the number of the next.
static HAPPENED: Mutex<(VecDeque<Happened>, u64)> = Mutex::new((VecDeque::new(), 0));

/// Events since the last one there that were not kept: somebody else looked just then, or their cause had too many.
static UNKEPT: AtomicU64 = AtomicU64::new(0);

/// All of those.
static UNKEPT_EVER: AtomicU64 = AtomicU64::new(0);

/// The last events of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Oldest first.
    pub events: Vec<Happened>,
    /// Events since the process began that were not kept, each of which is a gap in the numbers.
    pub unkept: u64,
}

/// The last events of this process.
pub fn happened() -> Kept {
    let events = HAPPENED.lock().unwrap_or_else(PoisonError::into_inner).0.iter().cloned().collect();
    Kept { events, unkept: unkept() }
}

/// Events of this process so far, those that were not kept among them: other numbers, other events.
pub fn so_far() -> u64 {
    let next = HAPPENED.lock().unwrap_or_else(PoisonError::into_inner).1;
    next + UNKEPT.load(Ordering::Relaxed)
}

/// Events of this process that were not kept.
pub fn unkept() -> u64 {
    UNKEPT_EVER.load(Ordering::Relaxed)
}

/// An event is not kept.
pub(super) fn lose() {
    UNKEPT.fetch_add(1, Ordering::Relaxed);
    UNKEPT_EVER.fetch_add(1, Ordering::Relaxed);
}

/// Keeps an event that is a line of the log.
pub(super) fn keep(event: &tracing::Event<'_>) {
    let words = Words::of(event);
    if let Some(kind) = &words.event {
        note(kind, &words.cleaned());
    }
}

/// The kinds that there are.
const KINDS: [&str; 7] = ["node", "code", "role", "session", "neighbour", "route", "link"];

/// A line of the log says that it is an event. Nobody who writes waits for somebody who reads.
pub(super) fn note(kind: &str, what: &str) {
    let Some(kind) = KINDS.into_iter().find(|known| *known == kind) else { return };
    match HAPPENED.try_lock() {
        Ok(mut happened) => push(&mut happened, kind, what.to_owned(), None, None),
        Err(TryLockError::Poisoned(poisoned)) => push(&mut poisoned.into_inner(), kind, what.to_owned(), None, None),
        Err(TryLockError::WouldBlock) => lose(),
    }
}

/// Somebody has asked for something, which was done, as these words say, or refused.
pub fn asked(kind: &'static str, what: &str, (uid, pid): Asker, refused: Option<&str>) {
    let not = if refused.is_some() { "not done: " } else { "" };
    let what = format!("{not}{}", clean::shown(what));
    let refused = refused.map(|why| clean::shown(why).to_string());
    match &refused {
        Some(why) => tracing::info!(target: ASKED, uid, pid, refused = why, "{what}"),
        None => tracing::info!(target: ASKED, uid, pid, "{what}"),
    }
    let mut happened = HAPPENED.lock().unwrap_or_else(PoisonError::into_inner);
    push(&mut happened, kind, what, Some((uid, pid)), refused);
}

fn push(
    (kept, next): &mut (VecDeque<Happened>, u64),
    kind: &'static str,
    what: String,
    who: Option<Asker>,
    refused: Option<String>,
) {
    *next += UNKEPT.swap(0, Ordering::Relaxed);
    if kept.len() == HAPPENED_MAX {
        kept.pop_front();
    }
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    kept.push_back(Happened { number: *next, unix_ms, kind, what, who, refused });
    *next += 1;
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Who looks keeps events out, so tests that count them have turns.
    pub static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn events_are_kept_by_number_and_are_bounded() {
        let _alone = ALONE.lock();
        let mut ring = (VecDeque::new(), 0);
        for number in 0..HAPPENED_MAX + 10 {
            push(&mut ring, "code", number.to_string(), Some((0, 1)), None);
        }
        assert_eq!((ring.0.len(), ring.1), (HAPPENED_MAX, HAPPENED_MAX as u64 + 10));
        assert_eq!(ring.0.front().map(|event| (event.number, event.what.as_str())), Some((10, "10")));
        note("weather", "of no kind that is known");
        assert!(!happened().events.iter().any(|event| event.what.contains("of no kind")));
        asked("role", "words\u{1b}[2J of others", (7, 8), Some("why\u{202e}"));
        let last = happened().events.into_iter().rfind(|event| event.who == Some((7, 8))).unwrap();
        assert_eq!(
            (last.what.as_str(), last.refused.as_deref()),
            ("not done: words\\u001b[2J of others", Some("why\\u202e"))
        );
    }
}
