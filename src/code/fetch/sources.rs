//! Whom to ask for a code: neighbours that capsules came from, a share for each payer.
//!
//! Names of previous hops cost nothing, payers do. So a payer that has named none displaces one of whoever has named most, has the next
//! turn, and turns alternate between payers: silent neighbours that one has made up cost the others a turn each. Of one payer's those
//! that have answered before (`answered`) go before the others, since all strangers of a port are one. Who answers wrongly is
//! not asked again while others may be, and who does so [`FAILURES_MAX`] times names nobody any more.

use super::{FAILURES_MAX, SOURCES_MAX, Source};
use crate::code::run::Ingress;
use std::collections::VecDeque;

/// A neighbour that can be asked.
#[derive(Clone, Copy)]
struct Known {
    source: Source,
    /// Who has named it.
    whose: Ingress,
    /// Whether it has answered before.
    proven: bool,
    /// Whether it has had a turn.
    asked: bool,
    /// Whether it has said that it does not have the object.
    absent: bool,
}

/// Those that can be asked for one code.
#[derive(Clone, Default)]
pub(super) struct Sources {
    /// Whose turn it is stands first, who has had one last stands last.
    known: VecDeque<Known>,
    /// Wrong answers of those that each has named; as many payers as the last ones of these.
    failures: VecDeque<(Ingress, u32)>,
}

/// Payers whose wrong answers are remembered.
const FAILED_MAX: usize = 16;

impl Sources {
    /// One alone.
    pub fn of(source: Source, whose: Ingress) -> Sources {
        let mut sources = Sources::default();
        sources.learn(source, whose, false);
        sources
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    pub fn has(&self, source: &Source) -> bool {
        self.known.iter().any(|known| known.source == *source)
    }

    /// Who has named it.
    pub fn whose(&self, source: &Source) -> Option<Ingress> {
        self.known.iter().find(|known| known.source == *source).map(|known| known.whose)
    }

    /// Whose turn it is.
    pub fn first(&self) -> Option<Source> {
        self.known.front().map(|known| known.source)
    }

    /// In their turns.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.known.iter().map(|known| &known.source)
    }

    /// Whether those of more than one payer can be asked.
    pub fn are_shared(&self) -> bool {
        self.known.iter().any(|known| Some(known.whose) != self.known.front().map(|first| first.whose))
    }

    /// Whether another payer's has not been asked at all yet.
    pub fn has_new(&self) -> bool {
        let whose = self.known.front().map(|first| first.whose);
        self.known.iter().any(|known| {
            let has_had_one = |other: &Known| other.whose == known.whose && other.asked;
            Some(known.whose) != whose && !self.known.iter().any(has_had_one)
        })
    }

    fn failures(&self, whose: Ingress) -> u32 {
        self.failures.iter().find(|(of, _)| *of == whose).map_or(0, |(_, failures)| *failures)
    }

    fn count(&self, whose: Ingress) -> usize {
        self.known.iter().filter(|known| known.whose == whose).count()
    }

    /// This payer's can be asked as well; whether it is the first of a payer, or of one's that have answered before, which has the next
    /// turn.
    pub fn learn(&mut self, source: Source, whose: Ingress, proven: bool) -> bool {
        let is_known = self.known.iter().any(|known| known.source == source && known.whose == whose);
        if is_known || self.failures(whose) >= FAILURES_MAX {
            return false;
        }
        let failed = self.failures.clone();
        self.known.retain(|known| !failed.iter().any(|(of, count)| *of == known.whose && *count >= FAILURES_MAX));
        if self.known.len() >= SOURCES_MAX {
            let Some(at) = self.to_displace(whose, proven) else { return false };
            self.known.remove(at);
        }
        let is_other = |known: &Known| known.whose == whose && !known.proven;
        let is_first = proven && !self.known.iter().any(|known| known.whose == whose && known.proven);
        let known = Known { source, whose, proven, asked: false, absent: false };
        let is_new = self.failures(whose) == 0 && (self.count(whose) == 0 || is_first);
        let before = self.known.iter().skip(1).position(is_other).filter(|_| proven).map(|at| at + 1);
        let at = if self.count(whose) == 0 && is_new { Some(self.known.len().min(1)) } else { before };
        self.known.insert(at.unwrap_or(self.known.len()), known);
        is_new
    }

    /// Which gives way to another of this payer: one of whoever has most; where each has one, one that was asked in vain gives way to a
    /// payer that has none; and one's own that has not answered before to one that has. Never the one whose turn it is.
    fn to_displace(&self, whose: Ingress, proven: bool) -> Option<usize> {
        let most = self.known.iter().map(|known| known.whose).max_by_key(|of| self.count(*of))?;
        let (many, own) = (self.count(most), self.count(whose));
        if many <= own + 1 && own > 0 {
            let worse = |known: &Known| known.whose == whose && !known.proven;
            return self.known.iter().skip(1).rposition(worse).filter(|_| proven).map(|at| at + 1);
        }
        let can = |known: &Known| many == 1 || known.whose == most;
        let asked = self.known.iter().skip(1).position(|known| can(known) && known.asked);
        let any = || self.known.iter().skip(1).rposition(can).filter(|_| many > 1);
        asked.or_else(any).map(|at| at + 1)
    }

    /// The one at this place has its turn.
    pub fn turn_to(&mut self, at: usize) {
        self.known.rotate_left(at);
    }

    /// The first of this payer has its turn, if there is one.
    pub fn turn_to_one_of(&mut self, whose: Ingress) {
        self.turn_to(self.known.iter().position(|known| known.whose == whose).unwrap_or(0));
    }

    /// The next one has its turn: another payer's, if there is one.
    pub fn next(&mut self) {
        let Some(last) = self.known.pop_front() else { return };
        self.known.push_back(last);
        let other = self.known.iter().position(|known| known.whose != last.whose).and_then(|at| self.known.remove(at));
        other.into_iter().for_each(|known| self.known.push_front(known));
    }

    /// Whose turn it is has been asked.
    pub fn asked(&mut self) {
        self.known.front_mut().into_iter().for_each(|known| known.asked = true);
    }

    /// Another object is asked for.
    pub fn forget_absent(&mut self) {
        self.known.iter_mut().for_each(|known| known.absent = false);
    }

    /// Whose turn it is does not have the object; whether nobody has.
    pub fn absent(&mut self) -> bool {
        self.known.front_mut().into_iter().for_each(|known| known.absent = true);
        self.known.iter().all(|known| known.absent)
    }

    /// This one has answered wrongly: it goes if others are left, of whom the next has its turn. False: it is the only one, and has done so
    /// often enough.
    pub fn wrong(&mut self, source: &Source) -> bool {
        let Some(at) = self.known.iter().position(|known| known.source == *source) else { return true };
        let whose = self.known[at].whose;
        match self.failures.iter_mut().find(|(of, _)| *of == whose) {
            Some((_, failures)) => *failures += 1,
            None => self.failures.push_back((whose, 1)),
        }
        if self.failures.len() > FAILED_MAX {
            self.failures.pop_front();
        }
        if self.known.len() == 1 {
            return self.failures(whose) < FAILURES_MAX;
        }
        self.turn_to(at);
        self.next();
        self.known.retain(|known| known.source != *source);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Payer, PeerId, PortId};
    use crate::wire::Addr;

    fn of(payer: u16, number: u8) -> (Source, Ingress) {
        let source = Source { port: PortId(payer), peer: PeerId::NONE, addr: Addr::v4([10, 0, payer as u8, number]) };
        (source, Ingress::Port(PortId(payer), Payer(payer)))
    }

    fn learn(sources: &mut Sources, (source, whose): (Source, Ingress)) -> bool {
        sources.learn(source, whose, false)
    }

    fn payers(sources: &Sources) -> Vec<u16> {
        sources.iter().map(|source| source.port.0).collect()
    }

    #[test]
    fn another_payers_displaces_one_of_whoever_has_most_and_is_next() {
        let mut sources = Sources::default();
        for number in 0..50 {
            assert_eq!(learn(&mut sources, of(0, number)), number == 0);
        }
        assert_eq!(payers(&sources), [0, 0, 0, 0]);
        for (payer, all) in [(1, vec![0, 1, 0, 0]), (2, vec![0, 2, 1, 0]), (3, vec![0, 3, 2, 1])] {
            assert!(learn(&mut sources, of(payer, 0)));
            assert_eq!(payers(&sources), all);
            assert!(!learn(&mut sources, of(0, 77)), "{payer}: it has as many as others");
        }
        // Each has one: only who was asked in vain gives way, and not while it is its turn.
        sources.asked();
        assert!(!learn(&mut sources, of(4, 0)));
        sources.next();
        assert!(learn(&mut sources, of(4, 0)) && payers(&sources) == [3, 4, 2, 1]);
    }

    #[test]
    fn of_one_payers_those_that_have_answered_before_go_first() {
        let mut sources = Sources::default();
        (0..SOURCES_MAX as u8).for_each(|number| _ = learn(&mut sources, of(0, number)));
        let prove = |sources: &mut Sources, number| {
            let (source, whose) = of(0, number);
            sources.learn(source, whose, true)
        };
        assert!(prove(&mut sources, 90) && !prove(&mut sources, 91), "the first of them has the next turn");
        let all = |sources: &Sources| -> Vec<u8> {
            sources.iter().filter_map(|source| Some(source.addr.bytes_v4()?[3])).collect()
        };
        assert_eq!(all(&sources), [0, 90, 91, 1]);
        assert!(!learn(&mut sources, of(0, 5)) && !prove(&mut sources, 92) && !prove(&mut sources, 93));
        assert_eq!(all(&sources), [0, 90, 91, 92]);
        // Others lose nothing by that.
        assert!(learn(&mut sources, of(1, 0)));
        assert_eq!(payers(&sources), [0, 1, 0, 0]);
    }

    #[test]
    fn turns_alternate_between_payers() {
        let mut sources = Sources::default();
        for number in 0..3 {
            learn(&mut sources, of(0, number));
        }
        learn(&mut sources, of(1, 0));
        let mut turns = vec![];
        for _ in 0..8 {
            turns.push(sources.first().unwrap().addr.bytes_v4().map(|addr| (addr[2], addr[3])).unwrap());
            sources.asked();
            sources.next();
        }
        assert_eq!(turns, [(0, 0), (1, 0), (0, 1), (1, 0), (0, 2), (1, 0), (0, 0), (1, 0)]);
    }

    #[test]
    fn who_answers_wrongly_goes_unless_it_is_the_only_one_and_after_a_few_times_its_payer_names_nobody() {
        let mut sources = Sources::default();
        learn(&mut sources, of(1, 0));
        for number in 0..FAILURES_MAX as u8 {
            assert_eq!(learn(&mut sources, of(0, number)), number == 0);
            assert!(sources.wrong(&of(0, number).0));
            assert_eq!(payers(&sources), [1]);
        }
        assert!(!learn(&mut sources, of(0, 9)) && payers(&sources) == [1]);
        let still: Vec<bool> = (0..FAILURES_MAX).map(|_| sources.wrong(&of(1, 0).0)).collect();
        assert_eq!(still, [true, true, false]);
        assert!(learn(&mut sources, of(2, 0)) && payers(&sources) == [2], "it goes when another comes");
        // Of many payers the last ones are remembered.
        for payer in 10..10 + 2 * FAILED_MAX as u16 {
            assert!(learn(&mut sources, of(payer, 0)) && sources.wrong(&of(payer, 0).0));
        }
        assert_eq!((payers(&sources), sources.failures.len()), (vec![2], FAILED_MAX));
    }

    #[test]
    fn an_object_is_nowhere_when_each_has_said_so_for_itself() {
        let mut sources = Sources::default();
        learn(&mut sources, of(0, 0));
        learn(&mut sources, of(1, 0));
        assert!(!sources.absent() && !sources.absent(), "one cannot say it for two");
        sources.next();
        assert!(sources.absent());
        sources.forget_absent();
        assert!(!sources.absent());
    }
}
