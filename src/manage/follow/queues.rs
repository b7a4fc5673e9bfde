//! When the driver of a port's interface is asked how many receive queues that has, and what its answer means.
//!
//! Nobody tells of other queues, so whatever is told of the interface may mean some. Each question is a call of the driver, under the
//! lock that all changes of interfaces take. One whose link was down is asked at once, since what has come after that may be lost; where
//! links flap, as often as a port may be opened anew for it ([`Patience`]): less than once a second, and once more when all is calm.

use super::interfaces::Patience;
use std::time::{Duration, Instant};

/// From one question to the next about an interface whose link is as it was.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// What the driver of a port has said.
#[derive(Debug)]
pub(super) struct Queues {
    last: Option<Answer>,
    /// The link was down since.
    bounced: bool,
    /// How often that is a reason to ask.
    patience: Patience,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    interface: u32,
    queues: u32,
    at: Instant,
}

/// Whether to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// It is time to.
    Now,
    /// The link was down; but it is too early to ask again.
    Then(Instant),
    /// Nothing says that there are others.
    Not,
}

impl Queues {
    /// Of a port whose interface nobody was asked about yet.
    pub(super) fn new(now: Instant) -> Queues {
        Queues { last: None, bounced: false, patience: Patience::new(now) }
    }

    /// Something was told of an interface, whose link `bounced` or did not.
    pub(super) fn ask(&mut self, interface: u32, bounced: bool, now: Instant) -> Ask {
        self.bounced |= bounced;
        match self.last.filter(|last| last.interface == interface) {
            Some(_) if self.bounced => self.patience.open(now).map_or_else(Ask::Then, |()| Ask::Now),
            Some(last) if now < last.at + ASKED_AGAIN => Ask::Not,
            _ => Ask::Now,
        }
    }

    /// The driver has answered. Says whether the interface has queues that were not there at the answer before: more than then; at a
    /// veth whose link was down, all but the first may have gone and come again.
    pub(super) fn has_new(&mut self, interface: u32, queues: u32, now: Instant, is_veth: impl Fn() -> bool) -> bool {
        let bounced = core::mem::take(&mut self.bounced);
        let before =
            self.last.replace(Answer { interface, queues, at: now }).filter(|last| last.interface == interface);
        before.is_some_and(|before| queues > before.queues || bounced && queues > 1 && is_veth())
    }

    /// The last answer; 0 if there was none.
    pub(super) fn known(&self) -> u32 {
        self.last.map_or(0, |last| last.queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn of_fifty_ports_that_flap_each_is_asked_at_once_then_less_than_once_a_second_and_once_more_when_all_is_calm() {
        let begin = Instant::now();
        let mut ports: Vec<_> = (0..50).map(|_| (Queues::new(begin), 0u32)).collect();
        // For a minute one link after the other goes or comes, so there is a look each millisecond and a flap of each port in 50.
        for look in 0..60_000u32 {
            let now = begin + look * MS;
            for (at, (queues, asked)) in ports.iter_mut().enumerate() {
                let bounced = look > 0 && look as usize % 50 == at;
                if queues.ask(1, bounced, now) == Ask::Now {
                    *asked += 1;
                    // The first answer is no other one; after that only what bounced is asked about.
                    assert_eq!(queues.has_new(1, 2, now, || true), *asked > 1, "{at} {look}");
                }
            }
        }
        assert!(ports.iter().all(|(_, asked)| (30..60).contains(asked)), "{ports:?}");
        // Each has bounced since it was asked: it says when to look again, and is asked then, and no more.
        for (queues, _) in &mut ports {
            let Ask::Then(then) = queues.ask(1, false, begin + 59_999 * MS) else { panic!("{queues:?}") };
            assert!(then <= begin + 62_000 * MS);
            assert_eq!(queues.ask(1, false, then), Ask::Now);
            assert!(queues.has_new(1, 2, then, || true));
            assert_eq!(queues.ask(1, false, then + 999 * MS), Ask::Not);
        }
    }

    #[test]
    fn queues_are_new_if_there_are_more_or_the_link_of_a_veth_with_several_was_down() {
        let begin = Instant::now();
        let answer = |before: u32, bounced: bool, now: u32, veth: bool| {
            let mut queues = Queues::new(begin);
            assert!(!queues.has_new(7, before, begin, || veth));
            queues.ask(7, bounced, begin + 1000 * MS);
            queues.has_new(7, now, begin + 1000 * MS, || veth)
        };
        assert!(answer(1, false, 2, false) && answer(2, true, 2, true));
        assert!(!answer(2, false, 2, true) && !answer(2, true, 2, false) && !answer(1, true, 1, true));
        let mut queues = Queues::new(begin);
        assert!(!queues.has_new(7, 1, begin, || true) && !queues.has_new(8, 4, begin, || true), "another interface");
    }
}
