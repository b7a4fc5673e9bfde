//! Values of soft state and what can be done with one, whoever keeps it. Example: 5 is added to the number under a key.
//!
//! The node keeps them in its table ([`super::state_store`]), the kernel half in a map that both halves share.

use super::domain::DomainId;
use std::sync::Arc;

/// Bytes of one value.
pub const VALUE: usize = crate::contract::an_value::SIZE;

/// A value.
pub type Value = [u8; VALUE];

/// A change of the value of a key, in one step: nobody else changes it between what is read and what is kept. Numbers are the
/// value's first word, little endian. Where nothing is kept it begins as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// It is replaced.
    Put(&'a Value),
    /// So much is added (modulo 2^64).
    Add(u64),
    /// It is raised to this, if it is lower.
    Max(u64),
    /// It is replaced, if the number is what was expected.
    Exchange {
        /// The number.
        expected: u64,
        /// The new value.
        value: &'a Value,
    },
}

/// Why a change was refused; then nothing has changed. A read is refused for the last reason only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The quota is used up, or others hold the set.
    Full,
    /// The number is not what was expected.
    Changed,
    /// Whoever keeps it did not answer.
    Failed,
}

/// What is kept under one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptValue {
    /// The key.
    pub key: u64,
    /// The value.
    pub value: Value,
    /// Until when, in nanoseconds of the node's clock.
    pub until: u64,
}

/// Some of what is kept for one domain, and the place at which the next look begins; nothing: that was all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The entries.
    pub entries: Vec<KeptValue>,
    /// Where to go on.
    pub next: Option<u64>,
}

/// Entries of a page, at most (a few more where several are looked at together).
pub const PAGE: usize = 256;

/// How much more a domain may keep, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Whether it holds as many entries as it may.
    pub is_used_up: bool,
    /// The longest time that it may keep anything, in milliseconds.
    pub keep_ms_max: u32,
}

/// What became of an entry of a domain's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It has one more.
    Taken,
    /// It has one fewer.
    Released,
    /// It was refused one.
    Refused,
    /// One that it still kept gave way to another domain's.
    Displaced,
}

/// Who knows what domains may keep, and counts what they hold.
pub trait Books {
    /// What a domain may still keep; nothing: there is no such domain.
    fn quota(&mut self, owner: DomainId) -> Option<Allowance>;

    /// Something became of an entry of a domain's.
    fn note(&mut self, owner: DomainId, what: Held);
}

/// Soft state of one domain that is kept elsewhere, since others use it too.
pub trait SharedState: Send + Sync + core::fmt::Debug {
    /// The value under `key` if it is still kept at `now`. Refused only if whoever keeps it did not answer.
    fn value(&self, key: u64, now: u64) -> Result<Option<Value>, Refused>;

    /// As [`super::state_store::StateStore::change`].
    fn change(&self, key: u64, change: Change<'_>, keep_ms: u32, now: u64) -> Result<u64, Refused>;

    /// What is kept at `now`, from a place on: as in [`Page`], from 0. For whoever looks at it, off the packet path.
    fn page(&self, from: u64, now: u64) -> Result<Page, Refused>;

    /// Whether the workers keep it, under locks that nobody but they may hold: then a worker is asked for pages.
    fn is_of_workers(&self) -> bool {
        false
    }
}

/// Where a page of a domain's soft state is to be had.
#[derive(Clone, Debug)]
pub enum StateFound {
    /// In the node's own table: here it is.
    Page(Page),
    /// Elsewhere: there it can be asked for without the node. The clock says this.
    Elsewhere(Arc<dyn SharedState>, u64),
}

/// The number in a value.
pub fn number(value: &Value) -> u64 {
    let (word, _) = value.split_first_chunk().unwrap_or((&[0; 8], &[]));
    u64::from_le_bytes(*word)
}

impl Change<'_> {
    /// The value to be kept in the place of `kept`.
    pub(super) fn of(self, mut kept: Value) -> Result<Value, Refused> {
        let before = number(&kept);
        let after = match self {
            Change::Put(value) => return Ok(*value),
            Change::Exchange { expected, value } if expected == before => return Ok(*value),
            Change::Exchange { .. } => return Err(Refused::Changed),
            Change::Add(delta) => before.wrapping_add(delta),
            Change::Max(least) => before.max(least),
        };
        if let Some(word) = kept.first_chunk_mut() {
            *word = after.to_le_bytes();
        }
        Ok(kept)
    }
}
