//! What has been done to the node, and what has changed in it: the last events, by number.
//!
//! An event is a line of the log that says of what kind it is: `tracing::info!(event = "link", port, "the link is down")`.
//! So it has the limit of its cause, as other lines have. What somebody has asked for over the control socket comes by [`asked`], without
//! a limit: who asks is the operator. The ring is bounded, and a gap in the numbers says how many nobody has read.

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

/// Events since the last one there that somebody else's look has kept out.
static UNKEPT: AtomicU64 = AtomicU64::new(0);

/// The last events of this process, oldest first.
pub fn happened() -> Vec<Happened> {
    HAPPENED.lock().unwrap_or_else(PoisonError::into_inner).0.iter().cloned().collect()
}

/// The kinds that there are.
const KINDS: [&str; 7] = ["node", "code", "role", "session", "neighbour", "route", "link"];

/// A line of the log says that it is an event. Nobody who writes waits for somebody who reads.
pub(super) fn note(kind: &str, what: &str) {
    let Some(kind) = KINDS.into_iter().find(|known| *known == kind) else { return };
    match HAPPENED.try_lock() {
        Ok(mut happened) => push(&mut happened, kind, what.to_owned(), None, None),
        Err(TryLockError::Poisoned(poisoned)) => push(&mut poisoned.into_inner(), kind, what.to_owned(), None, None),
        Err(TryLockError::WouldBlock) => drop(UNKEPT.fetch_add(1, Ordering::Relaxed)),
    }
}

/// Somebody has asked for something, which was done or refused.
pub fn asked(kind: &'static str, what: &str, (uid, pid): Asker, refused: Option<&str>) {
    let what = clean::shown(what).to_string();
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
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_by_number_and_are_bounded() {
        let mut ring = (VecDeque::new(), 0);
        for number in 0..HAPPENED_MAX + 10 {
            push(&mut ring, "code", number.to_string(), Some((0, 1)), None);
        }
        assert_eq!((ring.0.len(), ring.1), (HAPPENED_MAX, HAPPENED_MAX as u64 + 10));
        assert_eq!(ring.0.front().map(|event| (event.number, event.what.as_str())), Some((10, "10")));
        note("weather", "of no kind that is known");
        assert!(!happened().iter().any(|event| event.what.contains("of no kind")));
        asked("role", "words\u{1b}[2J of others", (7, 8), Some("why\u{202e}"));
        let last = happened().into_iter().rfind(|event| event.who == Some((7, 8))).unwrap();
        assert_eq!((last.what.as_str(), last.refused.as_deref()), ("words\\u001b[2J of others", Some("why\\u202e")));
    }
}
