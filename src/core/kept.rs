//! Values of soft state and what can be done with one, whoever keeps it. Example: 5 is added to the number under a key.
//!
//! The node keeps them in its table ([`super::state_store`]), the kernel half in a map that both halves share.

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

/// Soft state of one domain that is kept elsewhere, since others use it too.
pub trait SharedState: Send + Sync + core::fmt::Debug {
    /// The value under `key` if it is still kept at `now`. Refused only if whoever keeps it did not answer.
    fn value(&self, key: u64, now: u64) -> Result<Option<Value>, Refused>;

    /// As [`super::state_store::StateStore::change`].
    fn change(&self, key: u64, change: Change<'_>, keep_ms: u32, now: u64) -> Result<u64, Refused>;
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
