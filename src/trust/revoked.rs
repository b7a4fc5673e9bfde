//! The memory of revocations: a bounded table that nobody fills at others' cost.
//!
//! The operator's own come first and give way to nobody. Every root key of the node's roles has a share of its own; it
//! is full rather than forgetful. All other signers, whose keys cost nothing, have few places, and the oldest gives
//! way; those that have revoked something used here have a share of their own. The table is read where rights are
//! decided, off the packet path.

use super::key::PrincipalId;
use super::revocation::{Extent, Revocation, Rights};

/// Words of the operator.
pub const OPERATOR_MAX: usize = 1024;
/// Words of all root keys, and of one.
pub const ROOTS_MAX: usize = 2048;
/// See [`ROOTS_MAX`].
pub const ROOT_SHARE: usize = 256;
/// Words of other signers that have taken something here, and of one signer.
pub const PROVEN_MAX: usize = 512;
/// See [`PROVEN_MAX`].
pub const PROVEN_SHARE: usize = 16;
/// Words of other signers, and of one.
pub const STRANGERS_MAX: usize = 512;
/// See [`STRANGERS_MAX`].
pub const STRANGER_SHARE: usize = 4;

/// Whose word it is, to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Somebody's.
    Stranger,
    /// Somebody's that has taken something here.
    Proven,
    /// A root's of one of the node's roles.
    Root,
    /// The operator's.
    Operator,
}

/// What became of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is new, or counts for more than before. Another one was forgotten for it, if so.
    New(Option<Revocation>),
    /// It was known.
    Known,
    /// Its signer, or the table, has no room.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    revocation: Revocation,
    rank: Rank,
}

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Revoked {
    /// In the order in which they came.
    entries: Vec<Entry>,
}

impl Rank {
    /// How many words of this rank there may be, and of one signer.
    fn limits(self) -> (usize, usize) {
        match self {
            Rank::Operator => (OPERATOR_MAX, OPERATOR_MAX),
            Rank::Root => (ROOTS_MAX, ROOT_SHARE),
            Rank::Proven => (PROVEN_MAX, PROVEN_SHARE),
            Rank::Stranger => (STRANGERS_MAX, STRANGER_SHARE),
        }
    }
}

impl Revoked {
    /// Takes a word in whose signature was verified.
    pub fn add(&mut self, revocation: Revocation, rank: Rank) -> Kept {
        let same = |entry: &Entry| {
            (entry.revocation.subject, entry.revocation.signer()) == (revocation.subject, revocation.signer())
        };
        let known = self.entries.iter().position(same);
        if known.is_some_and(|at| self.entries[at].rank >= rank) {
            return Kept::Known;
        }
        let mut forgotten = None;
        if !self.has_room(rank, revocation.signer()) {
            let oldest = self.entries.iter().position(|entry| entry.rank == Rank::Stranger);
            let whole = self.count(rank) >= rank.limits().0;
            match oldest
                .filter(|_| rank == Rank::Stranger && whole && self.of(rank, revocation.signer()) < STRANGER_SHARE)
            {
                Some(at) => forgotten = Some(self.entries.remove(at).revocation),
                None => return Kept::Full,
            }
        }
        // What counts for more than before comes anew.
        self.entries.retain(|entry| !same(entry));
        self.entries.push(Entry { revocation, rank });
        Kept::New(forgotten)
    }

    /// What is taken of something that is here by these rights, and by which word: the one that takes most, the
    /// operator's own where the key's would take less.
    pub fn takes(&self, of: &Rights<'_>) -> Option<(Extent, Revocation)> {
        let take = |entry: &Entry| {
            let operator = entry.rank == Rank::Operator;
            let extent = entry.revocation.takes(operator, of)?;
            Some((extent, entry.revocation.as_it_counts(operator, of)))
        };
        self.entries.iter().filter_map(take).max_by_key(|(extent, _)| *extent)
    }

    /// A word has taken something here: if a stranger's, it is not forgotten for others of strangers.
    pub fn prove(&mut self, revocation: &Revocation) {
        if self.has_room(Rank::Proven, revocation.signer())
            && let Some(entry) = self.entries.iter_mut().find(|entry| entry.revocation == *revocation)
            && entry.rank == Rank::Stranger
        {
            entry.rank = Rank::Proven;
        }
    }

    /// All words, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&Revocation, Rank)> {
        self.entries.iter().map(|entry| (&entry.revocation, entry.rank))
    }

    fn count(&self, rank: Rank) -> usize {
        self.entries.iter().filter(|entry| entry.rank == rank).count()
    }

    fn of(&self, rank: Rank, signer: Option<PrincipalId>) -> usize {
        self.entries.iter().filter(|entry| entry.rank == rank && entry.revocation.signer() == signer).count()
    }

    fn has_room(&self, rank: Rank, signer: Option<PrincipalId>) -> bool {
        let (all, share) = rank.limits();
        let own = if rank == Rank::Operator { 0 } else { self.of(rank, signer) };
        self.count(rank) < all && own < share
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::PrincipalKey;
    use super::super::revocation::Subject;
    use super::*;
    use crate::wire::Digest;

    fn word(seed: u32, number: u32) -> Revocation {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&seed.to_be_bytes());
        Revocation::sign(&PrincipalKey::from_seed(key), Subject::Code(Digest::of(&number.to_be_bytes())), 0)
    }

    #[test]
    fn strangers_flush_neither_the_operators_words_nor_roots_nor_what_has_taken_something() {
        let mut table = Revoked::default();
        assert_eq!(table.add(word(1, 0), Rank::Operator), Kept::New(None));
        assert_eq!(table.add(word(2, 0), Rank::Root), Kept::New(None));
        let proven = word(3, 0);
        assert_eq!(table.add(proven, Rank::Stranger), Kept::New(None));
        table.prove(&proven);
        for seed in 100..100 + 2 * STRANGERS_MAX as u32 {
            assert!(matches!(table.add(word(seed, 0), Rank::Stranger), Kept::New(_)), "{seed}");
        }
        assert_eq!(table.entries.len(), 3 + STRANGERS_MAX);
        for (seed, rank) in [(1, Rank::Operator), (2, Rank::Root), (3, Rank::Proven)] {
            assert!(table.iter().any(|(known, of)| *known == word(seed, 0) && of == rank), "{seed}");
        }
        assert!(!table.iter().any(|(known, _)| *known == word(100, 0)), "the oldest stranger gave way");
    }

    #[test]
    fn a_signer_has_its_share_and_is_full_rather_than_forgetful() {
        let mut table = Revoked::default();
        for number in 0..ROOT_SHARE as u32 {
            assert_eq!(table.add(word(2, number), Rank::Root), Kept::New(None));
        }
        assert_eq!(table.add(word(2, 9999), Rank::Root), Kept::Full);
        assert_eq!(table.add(word(5, 0), Rank::Root), Kept::New(None), "another root has its own");
        for number in 0..STRANGER_SHARE as u32 {
            assert_eq!(table.add(word(7, number), Rank::Stranger), Kept::New(None));
        }
        assert_eq!(table.add(word(7, 9999), Rank::Stranger), Kept::Full);
        assert_eq!(table.add(word(2, 0), Rank::Root), Kept::Known);
        assert_eq!(table.add(word(2, 0), Rank::Operator), Kept::New(None), "it counts for more now");
        assert_eq!(table.add(word(2, 0), Rank::Root), Kept::Known);
        assert_eq!(table.add(word(2, 9999), Rank::Root), Kept::New(None), "and leaves the share");
    }
}
