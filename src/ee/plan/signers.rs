//! Principals that sign packets: their roles, and the numbers of their packets that have been used.
//!
//! The outside judges signatures and credentials, which may take its time ([`super::Wish::Vouch`]); the packet waits. A
//! principal has a place here for as long as one of its numbers could come again. The place is its number in the table
//! of services and in the node.

use crate::trust::{PrincipalId, Role, STATEMENT_WITHIN};
use std::sync::Arc;

/// Principals that have signed lately.
pub const SIGNERS_MAX: usize = 64;

/// Nanoseconds for which a principal is remembered: a statement is good for so long before and after its time.
const KEEP: u64 = 3 * STATEMENT_WITHIN;

/// Numbers that are remembered of a principal.
const NUMBERS_MAX: usize = 64;

/// Which numbers have been there: each counts once, in any order as long as no more than [`NUMBERS_MAX`] larger ones came before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// No number up to this counts.
    floor: u64,
    /// Larger ones that were there, in order.
    seen: Vec<u64>,
}

impl Numbers {
    /// Takes a number; false if it was there before, or is too old.
    pub fn take(&mut self, number: u64) -> bool {
        let Err(at) = self.seen.binary_search(&number) else { return false };
        if number <= self.floor {
            return false;
        }
        self.seen.insert(at, number);
        if self.seen.len() > NUMBERS_MAX {
            self.floor = self.seen.remove(0);
        }
        true
    }
}

/// A principal that has signed.
#[derive(Debug)]
pub(super) struct Signer {
    pub principal: PrincipalId,
    /// As programs and operators see it.
    pub name: String,
    pub role: Arc<Role>,
    numbers: Numbers,
    until: u64,
}

/// Those that have signed lately.
#[derive(Debug, Default)]
pub(super) struct Signers {
    list: Vec<Signer>,
    /// Questions to the outside so far.
    asked: u64,
}

/// What came of a number of a principal's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seated {
    /// It counts; the principal is at this place, as before.
    Again(usize),
    /// It counts; who is at this place, or in which role, is new.
    New(usize),
    /// It was there before, or all places are taken.
    Refused,
}

impl Signers {
    /// A principal in a role says something with a number. Places where something `waits` are not given away.
    pub fn take(
        &mut self,
        now: u64,
        principal: PrincipalId,
        role: Arc<Role>,
        number: u64,
        waits: impl Fn(usize) -> bool,
    ) -> Seated {
        let until = now.saturating_add(KEEP);
        if let Some(at) = self.list.iter().position(|signer| signer.principal == principal) {
            let Some(signer) = self.list.get_mut(at) else { return Seated::Refused };
            if !signer.numbers.take(number) {
                return Seated::Refused;
            }
            signer.until = until;
            let same = Arc::ptr_eq(&signer.role, &role) || signer.role == role;
            signer.role = role;
            return if same { Seated::Again(at) } else { Seated::New(at) };
        }
        let free = if self.list.len() < SIGNERS_MAX {
            self.list.len()
        } else {
            let is_free = |(at, signer): &(usize, &Signer)| signer.until <= now && !waits(*at);
            let Some((free, _)) = self.list.iter().enumerate().find(is_free) else { return Seated::Refused };
            free
        };
        let mut numbers = Numbers::default();
        if !numbers.take(number) {
            return Seated::Refused;
        }
        let signer = Signer { principal, name: principal.to_string(), role, numbers, until };
        match self.list.get_mut(free) {
            Some(place) => *place = signer,
            None => self.list.push(signer),
        }
        Seated::New(free)
    }

    /// A number for the next question.
    pub fn next_question(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// Who is at a place.
    pub fn at(&self, place: usize) -> Option<&Signer> {
        self.list.get(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_once_and_an_old_one_never() {
        let mut numbers = Numbers::default();
        let taken = [1, 1, 0, 5, 3, 3, 2, 70, 7, 1000, 936].map(|number| numbers.take(number));
        assert_eq!(taken, [true, false, false, true, true, false, true, true, true, true, true]);
        assert!((2000..2100).all(|number| numbers.take(number)));
        assert!((0..=2035).all(|number| !numbers.take(number)), "too old, or there");
        assert_eq!(numbers.seen.len(), NUMBERS_MAX);
        assert!(!numbers.take(2099) && numbers.take(u64::MAX) && !numbers.take(u64::MAX));
    }

    #[test]
    fn a_place_is_given_away_only_when_no_number_can_come_again() {
        let role = Arc::new(Role::anyone(Default::default()));
        let who = |number: u8| PrincipalId([number; 32]);
        let mut signers = Signers::default();
        for number in 0..SIGNERS_MAX as u8 {
            assert_eq!(
                signers.take(u64::from(number), who(number), role.clone(), 9, |_| false),
                Seated::New(number.into())
            );
        }
        assert_eq!(signers.take(KEEP - 1, who(200), role.clone(), 9, |_| false), Seated::Refused, "no place");
        let all = signers.take(KEEP, who(201), role.clone(), 9, |_| true);
        assert_eq!(all, Seated::Refused, "packets of theirs wait");
        assert_eq!(signers.take(KEEP, who(200), role.clone(), 9, |_| false), Seated::New(0));
        assert_eq!(signers.take(KEEP, who(200), role.clone(), 9, |_| false), Seated::Refused, "replayed");
        assert_eq!(signers.take(KEEP, who(200), role.clone(), 10, |_| false), Seated::Again(0));
        let other = Arc::new(Role { name: "other".into(), ..(*role).clone() });
        assert_eq!(signers.take(KEEP, who(200), other, 11, |_| false), Seated::New(0), "another role");
        assert_eq!(signers.at(0).unwrap().name, who(200).to_string());
    }
}
