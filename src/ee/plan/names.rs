//! Names of hosts, such as `r1`: those of the configuration, and those found by the resolver.
//!
//! A program that asks for a name nobody knows yet waits, away from the packet path, until the outside has answered.

use crate::wire::Addr;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Answers that are remembered.
const NAMES_MAX: usize = 1024;

/// The longest name (RFC 1035, 2.3.4).
const NAME_MAX: usize = 255;

/// Nanoseconds for which an answer counts.
const KEEP: u64 = 60_000_000_000;

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Its address.
    Host(Addr),
    /// There is none of that name.
    Nobody,
    /// It must be asked for.
    NotYet,
}

/// The names of one node.
pub struct Names {
    hosts: Arc<BTreeMap<String, Addr>>,
    answers: HashMap<Box<str>, (Option<Addr>, u64)>,
    /// What the evaluation under way waits for.
    pub wanted: Option<Box<str>>,
}

impl Names {
    /// These hosts, and no answers.
    pub fn new(hosts: Arc<BTreeMap<String, Addr>>) -> Names {
        Names { hosts, answers: HashMap::new(), wanted: None }
    }

    /// What is known of a name.
    pub fn look_up(&self, now: u64, name: &[u8]) -> Known {
        let plain = |text: &&str| {
            let bytes = text.bytes();
            !text.is_empty() && text.len() <= NAME_MAX && bytes.into_iter().all(|byte| byte.is_ascii_graphic())
        };
        let Some(name) = std::str::from_utf8(name).ok().filter(plain) else { return Known::Nobody };
        if let Ok(addr) = name.parse() {
            return Known::Host(addr);
        }
        if let Some(addr) = self.hosts.get(name) {
            return Known::Host(*addr);
        }
        match self.answers.get(name) {
            Some((Some(addr), until)) if *until > now => Known::Host(*addr),
            Some((None, until)) if *until > now => Known::Nobody,
            _ => Known::NotYet,
        }
    }

    /// The outside has answered.
    pub fn answer(&mut self, now: u64, name: &str, addr: Option<Addr>) {
        if self.answers.len() >= NAMES_MAX && !self.answers.contains_key(name) {
            let oldest = self.answers.iter().min_by_key(|(_, (_, until))| *until).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| self.answers.remove(&oldest));
        }
        self.answers.insert(name.into(), (addr, now.saturating_add(KEEP)));
    }

    /// Forgets answers that count no longer.
    pub fn sweep(&mut self, now: u64) {
        self.answers.retain(|_, (_, until)| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_come_before_answers_and_answers_expire() {
        let addr = Addr::v4([10, 0, 0, 1]);
        let mut names = Names::new(Arc::new([("near".to_owned(), addr)].into()));
        assert_eq!(names.look_up(0, b"near"), Known::Host(addr));
        assert_eq!(names.look_up(0, b"10.0.0.1"), Known::Host(addr));
        assert_eq!(names.look_up(0, b"far"), Known::NotYet);
        names.answer(0, "far", Some(addr));
        names.answer(0, "nowhere", None);
        assert_eq!(names.look_up(KEEP - 1, b"far"), Known::Host(addr));
        assert_eq!(names.look_up(KEEP - 1, b"nowhere"), Known::Nobody);
        assert_eq!(names.look_up(KEEP, b"far"), Known::NotYet);
        for bad in [&b""[..], b"a b", b"a\n", &[0xff], &[b'a'; 256]] {
            assert_eq!(names.look_up(0, bad), Known::Nobody, "{bad:?}");
        }
        (0..3000).for_each(|number| names.answer(number, &number.to_string(), None));
        assert_eq!(names.answers.len(), NAMES_MAX);
    }
}
