//! One object on its way: which of its parts are here.
//!
//! Its length is certain if a manifest says it. Otherwise the first part says it, which is hearsay until the digest of
//! the whole is right. The mechanism is [`crate::frame::assembly`]'s; the search of the object is the table.

use super::Source;
use crate::core::reason::Reason;
use crate::frame::assembly::{Misfit, PartialMessage};
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
    /// Bytes of the whole object.
    pub total: u32,
    /// The part's bytes.
    pub bytes: &'a [u8],
}

/// An object on its way.
pub(super) struct Assembly {
    pub(super) digest: Digest,
    /// Its parts, once its length is known.
    object: Option<PartialMessage>,
    /// Whether a manifest said the length.
    is_certain: bool,
    /// Who sent the first part, and so said the length if no manifest did.
    first: Option<Source>,
    /// Whether others have sent parts too.
    mixed: bool,
    /// Parts of the last burst of requests that have not come.
    pub(super) outstanding: u64,
}

/// Nothing yet of an object of so many bytes, which are no more than an object may have.
fn nothing_of(length: u32) -> PartialMessage {
    let parts = u8::try_from(fetch::parts(length)).unwrap_or(u8::MAX);
    PartialMessage::new(parts, fetch::PART, length as usize)
}

impl Assembly {
    /// Nothing of an object yet. Without its length only part 0 can be asked for.
    pub(super) fn new(digest: Digest, length: Option<u32>) -> Assembly {
        let object = length.filter(|&length| length as usize <= fetch::MAX_OBJECT).map(nothing_of);
        Assembly { digest, is_certain: object.is_some(), object, first: None, mixed: false, outstanding: 0 }
    }

    /// The length, as far as it is known.
    pub(super) fn total(&self) -> Option<u32> {
        self.object.as_ref().map(|object| object.total() as u32)
    }

    /// The length, if a manifest said it.
    pub(super) fn certain(&self) -> Option<u32> {
        self.total().filter(|_| self.is_certain)
    }

    /// Whether the length is known, but only as somebody said it.
    pub(super) fn is_hearsay(&self) -> bool {
        !self.is_certain && self.first.is_some()
    }

    /// Who said another length than a part says, if that is all that is known.
    pub(super) fn contradicted(&self, part: &Part<'_>) -> Option<Source> {
        self.first.filter(|_| !self.is_certain && self.total() != Some(part.total))
    }

    /// Takes a part of `from` in; false if it was there already.
    pub(super) fn take(&mut self, part: &Part<'_>, from: Source) -> Result<bool, Reason> {
        if part.total as usize > fetch::MAX_OBJECT || self.total().is_some_and(|total| total != part.total) {
            return Err(Reason::FetchHash);
        }
        if fetch::part_len(part.part, part.total) != Some(part.bytes.len()) {
            return Err(Reason::MalformedFetch);
        }
        let object = self.object.get_or_insert_with(|| nothing_of(part.total));
        let index = u8::try_from(part.part).map_err(|_| Reason::MalformedFetch)?;
        let new = object.put(index, part.bytes).map_err(|Misfit| Reason::MalformedFetch)?;
        if new {
            self.mixed |= *self.first.get_or_insert(from) != from;
        }
        self.outstanding &= !(u64::from(new) << part.part);
        Ok(new)
    }

    /// Whether any part is here.
    pub(super) fn has_any(&self) -> bool {
        self.first.is_some()
    }

    /// Who has sent all that is here, if it was one.
    pub(super) fn only_of(&self) -> Option<Source> {
        self.first.filter(|_| !self.mixed)
    }

    /// Parts that are not here: part 0 alone until the length is known.
    pub(super) fn missing(&self) -> u64 {
        self.object.as_ref().map_or(1, |object| object.pieces().missing())
    }

    /// The object, once all of it is here.
    pub(super) fn whole(&mut self) -> Option<Vec<u8>> {
        self.object.as_mut().and_then(PartialMessage::whole)
    }

    /// The parts the next burst asks for: the lowest missing ones.
    pub(super) fn next_burst(&self) -> u64 {
        let missing = self.missing();
        let rest = (0..BURST_PARTS).fold(missing, |rest, _| rest & rest.wrapping_sub(1));
        missing & !rest
    }
}
