//! One object on its way: which of its parts are here.
//!
//! Its length is certain if a manifest says it; otherwise the first part says it, which is hearsay until
//! the digest of the whole is right.

use super::Source;
use crate::core::reason::Reason;
use crate::wire::{Digest, fetch};

/// Parts one burst of requests asks for.
const BURST_PARTS: u32 = 16;

/// A part of an object, as it came in.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The nonce of the request it answers.
    pub nonce: u32,
    /// The object.
    pub digest: Digest,
    /// Which part, from 0.
    pub part: u16,
    /// Octets of the whole object.
    pub total: u32,
    /// The part's octets.
    pub bytes: &'a [u8],
}

/// An object on its way.
pub(super) struct Assembly {
    pub(super) digest: Digest,
    total: Option<u32>,
    /// Who said the length, if no manifest did.
    said_by: Option<Source>,
    /// Parts not here yet; part 0 alone until the length is known.
    pub(super) missing: u64,
    /// Parts of the last burst of requests that have not come.
    pub(super) outstanding: u64,
    pub(super) bytes: Vec<u8>,
}

impl Assembly {
    /// Nothing of an object yet. Without its length only part 0 can be asked for.
    pub(super) fn new(digest: Digest, length: Option<u32>) -> Assembly {
        let (total, said_by, bytes) = (None, None, Vec::new());
        let mut assembly = Assembly { digest, total, said_by, missing: 1, outstanding: 0, bytes };
        if let Some(length) = length.filter(|&length| length as usize <= fetch::MAX_OBJECT) {
            assembly.expect(length);
        }
        assembly
    }

    fn expect(&mut self, length: u32) {
        let parts = fetch::parts(length);
        self.total = Some(length);
        self.missing = if parts >= 64 { u64::MAX } else { (1 << parts) - 1 };
        self.bytes = vec![0; length as usize];
    }

    /// The length, if a manifest said it.
    pub(super) fn certain(&self) -> Option<u32> {
        self.total.filter(|_| self.said_by.is_none())
    }

    /// Whether the length is known, but only as somebody said it.
    pub(super) fn is_hearsay(&self) -> bool {
        self.said_by.is_some()
    }

    /// Who said another length than a part says, if that is all that is known.
    pub(super) fn contradicted(&self, part: &Part<'_>) -> Option<Source> {
        self.said_by.filter(|_| self.total != Some(part.total))
    }

    /// Takes a part of `from` in; false if it was there already.
    pub(super) fn take(&mut self, part: &Part<'_>, from: Source) -> Result<bool, Reason> {
        if part.total as usize > fetch::MAX_OBJECT || self.total.is_some_and(|total| total != part.total) {
            return Err(Reason::FetchHash);
        }
        if fetch::part_len(part.part, part.total) != Some(part.bytes.len()) {
            return Err(Reason::Malformed);
        }
        if self.total.is_none() {
            self.said_by = Some(from);
            self.expect(part.total);
        }
        let bit = 1u64 << part.part;
        if self.missing & bit == 0 {
            return Ok(false);
        }
        let start = usize::from(part.part) * fetch::PART;
        self.bytes[start..start + part.bytes.len()].copy_from_slice(part.bytes);
        self.missing &= !bit;
        self.outstanding &= !bit;
        Ok(true)
    }

    /// The parts the next burst asks for: the lowest missing ones.
    pub(super) fn next_burst(&self) -> u64 {
        let rest = (0..BURST_PARTS).fold(self.missing, |rest, _| rest & rest.wrapping_sub(1));
        self.missing & !rest
    }
}
