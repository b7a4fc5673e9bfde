//! What a store that outlives the node is kept as: a journal of its changes, each with a digest.
//!
//! ```text
//! record = length(32) complement(32) digest(64) body       digest: the first bytes of the body's
//! body   = kind(8) version(64) key's length(16) key value
//! kind   = 0 begins the file   1 put   2 deleted   3 shared (key: with whom, value: how far)
//! ```
//!
//! All numbers are big endian. A node that is killed leaves a beginning of the last record, which nobody was told of: it
//! is *torn*, and cut off. Anything else that does not fit is *damage*: the store is not opened then, since what stands
//! behind cannot be trusted. The reader is total.

use super::bounds::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use crate::wire::Digest;

/// Bytes before a body.
const HEAD: usize = 16;

/// Bytes of a body before its key.
const FIXED: usize = 11;

/// Bytes of the longest body.
const BODY_MAX: usize = FIXED + KEY_BYTES_MAX + VALUE_BYTES_MAX;

/// What the first record says, with the version of this format.
const BEGINS: &[u8] = b"anode store";
const FORMAT: u8 = 1;

/// A change that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalEntry<'a> {
    /// The file begins; so many changes were made before.
    Begins,
    /// A value was put.
    Put(&'a [u8], &'a [u8]),
    /// A key was deleted.
    Deleted(&'a [u8]),
    /// Somebody may use the store so far: 0 not, 1 read, 2 write.
    Shared(&'a str, u8),
}

/// Writes a record behind what is in `into`.
pub fn write(version: u64, entry: JournalEntry<'_>, into: &mut Vec<u8>) {
    let (kind, key, value): (u8, &[u8], &[u8]) = match &entry {
        JournalEntry::Begins => (0, BEGINS, &[FORMAT]),
        JournalEntry::Put(key, value) => (1, key, value),
        JournalEntry::Deleted(key) => (2, key, &[]),
        JournalEntry::Shared(with, access) => (3, with.as_bytes(), core::slice::from_ref(access)),
    };
    let at = into.len();
    into.extend([0; HEAD]);
    into.push(kind);
    into.extend(version.to_be_bytes());
    into.extend((key.len() as u16).to_be_bytes());
    into.extend(key);
    into.extend(value);
    let length = (into.len() - at - HEAD) as u32;
    let digest = Digest::of(&into[at + HEAD..]);
    into[at..at + 4].copy_from_slice(&length.to_be_bytes());
    into[at + 4..at + 8].copy_from_slice(&(!length).to_be_bytes());
    into[at + 8..at + HEAD].copy_from_slice(&digest.0[..8]);
}

/// Damage, where it is, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// In bytes from the file's beginning.
    pub at: usize,
    /// In words.
    pub what: &'static str,
}

/// Reads a journal, each change with its number, until `each` says what is wrong with one. Gives how many bytes are whole
/// records; what stands behind them is torn.
pub fn read(
    bytes: &[u8],
    mut each: impl FnMut(u64, JournalEntry<'_>) -> Result<(), &'static str>,
) -> Result<usize, Damage> {
    let (mut whole, mut last) = (0, 0);
    while let Some(body) = next(bytes, whole)? {
        let damage = |what| Damage { at: whole, what };
        let (version, entry) = understand(body).ok_or(damage("a record means nothing"))?;
        if (whole == 0) != (entry == JournalEntry::Begins) {
            return Err(damage("it does not begin as a store does"));
        }
        if version < last {
            return Err(damage("a change comes before an earlier one"));
        }
        each(version, entry).map_err(damage)?;
        (last, whole) = (version, whole + HEAD + body.len());
    }
    Ok(whole)
}

/// The body of the record at a place; nothing at the end, and if what stands there is torn.
fn next(bytes: &[u8], at: usize) -> Result<Option<&[u8]>, Damage> {
    let damage = |what| Damage { at, what };
    let rest = bytes.get(at..).unwrap_or(&[]);
    let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else {
        // Of a record that was not written to its end.
        return Ok(None);
    };
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let length = word(0) as usize;
    if word(0) != !word(4) {
        // Where the host has ended with it, a file may end with zeros.
        let zeros = head.iter().chain(rest).all(|byte| *byte == 0);
        return if zeros { Ok(None) } else { Err(damage("a length is damaged")) };
    }
    if !(FIXED..=BODY_MAX).contains(&length) {
        return Err(damage("a length is none that is written"));
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    if Digest::of(body).0[..8] != head[8..] {
        return Err(damage("a digest is another one"));
    }
    Ok(Some(body))
}

fn understand(body: &[u8]) -> Option<(u64, JournalEntry<'_>)> {
    let (kind, rest) = body.split_first()?;
    let (version, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (key, value) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let is_key = (1..=KEY_BYTES_MAX).contains(&key.len()) && value.len() <= VALUE_BYTES_MAX;
    let kept = match (kind, value) {
        (0, [FORMAT]) if key == BEGINS => JournalEntry::Begins,
        (1, value) if is_key => JournalEntry::Put(key, value),
        (2, []) if is_key => JournalEntry::Deleted(key),
        (3, [access @ 0..=2]) => JournalEntry::Shared(core::str::from_utf8(key).ok()?, *access),
        _ => return None,
    };
    Some((u64::from_be_bytes(*version), kept))
}
