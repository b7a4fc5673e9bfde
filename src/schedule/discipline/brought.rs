//! Orders and admissions that extensions bring: functions of numbers, which see no packets and lose none.
//!
//! ```text
//! order:     classes · a bit for each that has nothing · the last packet's class · its bytes     ─▶ the class that is next
//! admission: packets that wait · for how many is room · the packet's bytes · empty for so many ns ─▶ 1: it may wait, 0: it is dropped
//! ```
//!
//! Example: `shares/Shares(3, 1)` of the extension `shares` gives the first class three parts and the second one. A function may fail: it
//! traps, loops, or names a class that has nothing. That is counted; then classes have their turns, and a packet that
//! finds room may wait.

pub use crate::topology::gauge::PolicyCounts;
use core::fmt;
use core::str::FromStr;

/// Classes of which an order of an extension says which is next.
pub const KNOWN_MAX: usize = 64;

/// Failures in a row after which a function is asked once in so many nanoseconds.
const IN_VAIN_MAX: u32 = 16;
const REST: u64 = 100_000_000;

/// Bytes of a name with its arguments.
const NAME_MAX: usize = 1_024;

/// A class of an extension with its arguments, as `shares/Shares(3, 1)`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct PolicyName {
    text: String,
    /// The extension.
    pub extension: String,
    /// Its class.
    pub class: String,
    /// What stands in parentheses behind it.
    pub arguments: String,
}

/// A function of an extension that decides.
pub trait BroughtPolicy: Send + fmt::Debug {
    /// Gives it four numbers; the one that it gives, if it does not fail.
    fn decide(&mut self, given: [u64; 4], now: u64) -> Option<u64>;

    /// It gave nothing, or what is of no use.
    fn fail(&mut self);

    /// What it has done so far.
    fn counts(&self) -> PolicyCounts;
}

/// Who makes functions of extensions ready, each with memory of its own.
pub trait MakesPolicies {
    /// An order, or what is wrong with it.
    fn order(&self, name: &PolicyName) -> Result<Box<dyn BroughtPolicy>, String>;

    /// An admission.
    fn admission(&self, name: &PolicyName) -> Result<Box<dyn BroughtPolicy>, String>;
}

/// Where there are no extensions.
#[derive(Clone, Copy, Debug)]
pub struct NoExtensions;

impl MakesPolicies for NoExtensions {
    fn order(&self, name: &PolicyName) -> Result<Box<dyn BroughtPolicy>, String> {
        Err(format!("no extension '{}' is loaded", name.extension))
    }

    fn admission(&self, name: &PolicyName) -> Result<Box<dyn BroughtPolicy>, String> {
        self.order(name)
    }
}

impl PolicyName {
    /// As it is written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl FromStr for PolicyName {
    type Err = String;

    fn from_str(text: &str) -> Result<PolicyName, String> {
        let wrong = || format!("'{}' is not EXTENSION/CLASS or EXTENSION/CLASS(ARGUMENTS)", text.escape_debug());
        let (name, arguments) = match text.split_once('(') {
            Some((name, rest)) => (name, rest.strip_suffix(')').ok_or_else(wrong)?),
            None => (text, ""),
        };
        let (extension, class) = name.trim().split_once('/').ok_or_else(wrong)?;
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        if !is_name(extension) || !is_name(class) || text.len() > NAME_MAX || text.chars().any(char::is_control) {
            return Err(wrong());
        }
        let [extension, class, arguments] = [extension, class, arguments.trim()].map(str::to_owned);
        Ok(PolicyName { text: text.to_owned(), extension, class, arguments })
    }
}

impl TryFrom<String> for PolicyName {
    type Error = String;

    fn try_from(text: String) -> Result<PolicyName, String> {
        text.parse()
    }
}

impl serde::Serialize for PolicyName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// A function that is not asked for a while when it has failed again and again: each time may have cost all its fuel.
#[derive(Debug)]
struct Asked {
    policy: Box<dyn BroughtPolicy>,
    /// Failures in a row, and until when it is not asked.
    in_vain: u32,
    rests_until: u64,
    /// Times at which it said nothing of use, or was not asked.
    failed: u64,
}

impl Asked {
    fn new(policy: Box<dyn BroughtPolicy>) -> Asked {
        Asked { policy, in_vain: 0, rests_until: 0, failed: 0 }
    }

    /// What it says to these numbers, if that is of use.
    fn ask<R>(&mut self, given: [u64; 4], now: u64, useful: impl FnOnce(u64) -> Option<R>) -> Option<R> {
        if now < self.rests_until {
            self.failed += 1;
            return None;
        }
        let said = self.policy.decide(given, now).and_then(useful);
        if said.is_some() {
            self.in_vain = 0;
            return said;
        }
        self.policy.fail();
        self.failed += 1;
        self.in_vain = self.in_vain.saturating_add(1);
        if self.in_vain >= IN_VAIN_MAX {
            self.rests_until = now + REST;
        }
        None
    }
}

/// The classes below one, in the order of an extension.
#[derive(Debug)]
pub(crate) struct BroughtOrder {
    asked: Asked,
    classes: u32,
    /// Those that have packets, a bit each.
    waiting: u64,
    /// The packet before: its class, and its bytes until the function knows of it.
    last: (usize, usize),
}

impl BroughtOrder {
    /// Of so many classes, [`KNOWN_MAX`] at most.
    pub(super) fn new(policy: Box<dyn BroughtPolicy>, classes: usize) -> BroughtOrder {
        BroughtOrder { asked: Asked::new(policy), classes: classes.min(KNOWN_MAX) as u32, waiting: 0, last: (0, 0) }
    }

    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.count_ones() as usize
    }

    #[inline]
    pub(super) fn wake(&mut self, class: usize) {
        self.waiting |= bit(class);
    }

    pub(super) fn next(&mut self, now: u64) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        let all = u64::MAX >> (u64::BITS - self.classes.max(1));
        let (class, bytes) = self.last;
        self.last.1 = 0;
        let given = [u64::from(self.classes), !self.waiting & all, class as u64, bytes as u64];
        let waiting = self.waiting;
        let waits = |class: u64| usize::try_from(class).ok().filter(|class| waiting & bit(*class) != 0);
        // One that fails lets all have their turns.
        let behind = waiting & u64::MAX.checked_shl(class as u32 + 1).unwrap_or(0);
        let next = if behind == 0 { waiting } else { behind }.trailing_zeros();
        self.asked.ask(given, now, waits).or(Some(next as usize))
    }

    #[inline]
    pub(super) fn charge(&mut self, class: usize, bytes: usize, more: bool) {
        self.last = (class, bytes);
        if !more {
            self.waiting &= !bit(class);
        }
    }

    pub(super) fn counts(&self) -> PolicyCounts {
        self.asked.policy.counts()
    }

    #[inline]
    pub(super) fn failed(&self) -> u64 {
        self.asked.failed
    }

    pub(super) fn forget(&mut self) {
        (self.waiting, self.last) = (0, (0, 0));
    }
}

/// That of a class, if an order knows it.
#[inline]
fn bit(class: usize) -> u64 {
    if class < KNOWN_MAX { 1 << class } else { 0 }
}

/// What says of each packet whether it may wait, by an extension.
#[derive(Debug)]
pub(super) struct BroughtGate {
    asked: Asked,
    /// Since when the queue is empty, while it is.
    idle_since: Option<u64>,
}

impl BroughtGate {
    pub(super) fn new(policy: Box<dyn BroughtPolicy>) -> BroughtGate {
        BroughtGate { asked: Asked::new(policy), idle_since: Some(0) }
    }

    /// Whether a packet may wait where so many of so many do.
    pub(super) fn lets_in(&mut self, (waiting, room): (usize, usize), bytes: usize, now: u64) -> bool {
        let idle = self.idle_since.map_or(0, |since| now.saturating_sub(since));
        let given = [waiting as u64, room as u64, bytes as u64, idle];
        let lets_in = self.asked.ask(given, now, |said| (said <= 1).then_some(said == 1)).unwrap_or(true);
        if lets_in {
            self.idle_since = None;
        }
        lets_in
    }

    #[inline]
    pub(super) fn ran_empty(&mut self, now: u64) {
        self.idle_since = Some(now);
    }

    pub(super) fn counts(&self) -> PolicyCounts {
        self.asked.policy.counts()
    }
}

#[cfg(test)]
mod tests;
