//! Shares of a bounded table, so that nobody takes the last place. Example: of 64 places one greedy neighbour gets 32,
//! two get 21 each.
//!
//! An owner (a neighbour, all strangers of a port, a principal, a domain) may take a place while it holds less than is
//! free: a dynamic threshold (Choudhury and Hahne, *IEEE/ACM Transactions on Networking* 6(2), 1998). So *n* greedy
//! owners leave one part of *n* + 1 free, and a newcomer finds it. No share is set by hand, none is lost while nobody
//! wants it, and no entry has to be thrown out. Places come back by the table's own time-out.
//!
//! This only counts: the table holds the entries. Owners must be few and dear to forge: [`crate::frame::Payer`] is
//! meant, not an address that a packet claims.

use std::collections::HashMap;
use std::hash::Hash;

/// Who holds how much of a table, in places, bytes or whatever it counts.
#[derive(Clone, Debug)]
pub struct Shares<Owner> {
    room: u64,
    held: u64,
    by: HashMap<Owner, u64, foldhash::fast::FixedState>,
}

impl<Owner: Copy + Eq + Hash> Shares<Owner> {
    /// Shares of a table with so much room.
    pub fn new(room: u64) -> Shares<Owner> {
        Shares { room, held: 0, by: HashMap::default() }
    }

    /// What an owner holds.
    pub fn of(&self, owner: Owner) -> u64 {
        self.by.get(&owner).copied().unwrap_or(0)
    }

    /// What all hold.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Whether an owner may hold so much more: then it holds no more than is left for others.
    pub fn fits(&self, owner: Owner, amount: u64) -> bool {
        let left = self.room.saturating_sub(self.held).checked_sub(amount);
        left.is_some_and(|left| self.of(owner) + amount <= left)
    }

    /// Takes so much if the owner may; whether it has it.
    pub fn take(&mut self, owner: Owner, amount: u64) -> bool {
        let fits = self.fits(owner, amount);
        if fits {
            self.take_back(owner, amount);
        }
        fits
    }

    /// Takes so much, whether there is room or not: what was there before comes back.
    pub fn take_back(&mut self, owner: Owner, amount: u64) {
        *self.by.entry(owner).or_default() += amount;
        self.held += amount;
    }

    /// Gives so much back. An owner without any is forgotten.
    pub fn give(&mut self, owner: Owner, amount: u64) {
        let Some(held) = self.by.get_mut(&owner) else { return };
        let amount = amount.min(*held);
        *held -= amount;
        self.held -= amount;
        if *held == 0 {
            self.by.remove(&owner);
        }
    }

    /// Nobody holds anything any more.
    pub fn clear(&mut self) {
        self.by.clear();
        self.held = 0;
    }

    /// Who holds most: where something has to give way, it is this one's.
    pub fn largest(&self) -> Option<Owner>
    where
        Owner: Ord,
    {
        self.by.iter().max_by_key(|(owner, held)| (**held, **owner)).map(|(owner, _)| *owner)
    }
}

/// Of a list, whose oldest stand first, the place of what gives way: the oldest of whoever has most there.
pub fn gives_way<Item, Owner: Eq + Hash + Copy + Ord>(
    list: impl Iterator<Item = Item> + Clone,
    whose: impl Fn(Item) -> Owner,
) -> Option<usize> {
    let mut shares = Shares::new(u64::MAX);
    list.clone().for_each(|item| shares.take_back(whose(item), 1));
    let most = shares.largest()?;
    list.into_iter().position(|item| whose(item) == most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_oldest_of_whoever_has_most_gives_way() {
        let list = [(1, 'a'), (2, 'a'), (2, 'b'), (3, 'a'), (2, 'c'), (1, 'b')];
        assert_eq!(gives_way(list.iter(), |item| item.0), Some(1));
        assert_eq!(gives_way([0; 0].iter(), |item| *item), None);
    }

    #[test]
    fn one_has_half_two_a_third_and_there_is_always_room_for_another() {
        let mut shares = Shares::new(120);
        let fill = |shares: &mut Shares<u8>, owner| (0..200).take_while(|_| shares.take(owner, 1)).count();
        assert_eq!(fill(&mut shares, 0), 60);
        assert_eq!(fill(&mut shares, 1), 30, "as much as it leaves");
        assert_eq!(fill(&mut shares, 2), 15);
        shares.give(0, 60);
        assert_eq!((shares.of(0), shares.held(), shares.largest()), (0, 45, Some(1)));
        assert_eq!((fill(&mut shares, 1), fill(&mut shares, 2)), (22, 19), "what one gives back, others may have");
    }

    #[test]
    fn something_too_large_is_refused_and_changes_nothing() {
        let mut shares = Shares::new(100);
        assert!(!shares.take(1, 51) && !shares.take(1, u64::MAX));
        assert_eq!((shares.held(), shares.largest()), (0, None));
        assert!(shares.take(1, 50) && !shares.take(1, 1) && shares.take(2, 25));
    }

    proptest! {
        /// Whatever all others do, who holds nothing can take a part of what is left, and sums are right.
        #[test]
        fn nobody_takes_the_last_place(steps in prop::collection::vec((0u8..8, 1u64..9, any::<bool>()), 1..400)) {
            let mut shares = Shares::new(1000);
            let mut held = [0u64; 8];
            for (owner, amount, takes) in steps {
                let one = &mut held[usize::from(owner)];
                if takes {
                    *one += if shares.take(owner, amount) { amount } else { 0 };
                } else {
                    shares.give(owner, amount);
                    *one -= amount.min(*one);
                }
                prop_assert_eq!(shares.held(), held.iter().sum::<u64>());
                prop_assert!(shares.held() < 1000);
                prop_assert!(shares.fits(99, 1));
            }
        }
    }
}
