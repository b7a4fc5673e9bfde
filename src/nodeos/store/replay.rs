//! What the journal of a store comes to, and the shortest journal that comes to the same.

use super::ask::{StoreKey, StoreValue};
use super::journal::{self, Damage, JournalEntry, write};
use crate::nodeos::file::{Access, Sharing};
use std::collections::BTreeMap;

/// How far somebody may use a store, by its number in journals.
const ACCESS: [Access; 3] = [Access::None, Access::Read, Access::Write];

/// The number of that.
pub fn number_of(access: Access) -> u8 {
    ACCESS.iter().position(|known| *known == access).unwrap_or(0) as u8
}

/// What a journal comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Changes so far.
    pub version: u64,
    /// What there is.
    pub entries: BTreeMap<StoreKey, (u64, StoreValue)>,
    /// Who else may use it.
    pub sharing: Sharing,
    /// Bytes that are whole records; what stands behind them is torn.
    pub whole: usize,
}

impl Replayed {
    /// What these bytes come to.
    pub fn of(bytes: &[u8]) -> Result<Replayed, Damage> {
        let mut replayed = Replayed::default();
        replayed.whole = journal::read(bytes, |version, entry| {
            match entry {
                JournalEntry::Begins => {}
                JournalEntry::Put(key, value) => {
                    replayed.entries.insert(key.into(), (version, value.into()));
                }
                JournalEntry::Deleted(key) => drop(replayed.entries.remove(key)),
                JournalEntry::Shared(with, access) => {
                    let access = ACCESS.get(usize::from(access)).copied().unwrap_or_default();
                    replayed.sharing.share(with, access).map_err(|_| "it is shared with nobody")?;
                }
            }
            replayed.version = version;
            Ok(())
        })?;
        Ok(replayed)
    }

    /// The shortest journal that comes to the same.
    pub fn rewritten(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut order: Vec<_> = self.entries.iter().collect();
        order.sort_unstable_by_key(|(_, (version, _))| *version);
        let first = order.first().map_or(self.version, |(_, (version, _))| *version);
        write(first, JournalEntry::Begins, &mut bytes);
        for (key, (version, value)) in &order {
            write(*version, JournalEntry::Put(key, value), &mut bytes);
        }
        let mut sharing: Vec<_> = self.sharing.iter().collect();
        sharing.sort_unstable();
        for (with, access) in &sharing {
            write(self.version, JournalEntry::Shared(with, number_of(**access)), &mut bytes);
        }
        // The last change may have been one that leaves nothing.
        if sharing.is_empty() && order.last().is_some_and(|(_, (version, _))| *version < self.version) {
            write(self.version, JournalEntry::Shared("*", number_of(Access::None)), &mut bytes);
        }
        bytes
    }
}
