//! Protocols that are taught: what a header has where, how long it is, and which one is behind it. Example: the header of `ip`
//! has `ihl * 4` bytes, and behind it is the protocol that `proto` says.
//!
//! They are taught as text (`definition.rs`, `protocols.rs`). A header is read within its bytes alone: every field lies in the part that
//! every header of the protocol has, and what claims more bytes than there are is not that header.

use super::bits::Bits;
use super::token::{Mistake, nearest};
use crate::wire::sum::Sum;

/// Protocols at once.
pub const PROTOCOLS_MAX: usize = 256;
/// Fields of one.
pub const FIELDS_MAX: usize = 64;
/// Values by which one can follow others.
pub const FOLLOWS_MAX: usize = 1024;
/// Bytes of a header.
pub const HEADER_MAX: u64 = 2048;

/// How values of a field are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// Decimal, or hexadecimal behind `0x`.
    Number,
    /// The same, and shown in hexadecimal.
    Hex,
    /// `02:00:00:00:00:01`.
    Mac,
    /// An address of IPv4, or the name of a host.
    V4,
    /// An address of IPv6, or the name of a host.
    V6,
}

/// A field that rules can name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolField {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub bits: Bits,
    /// What a rule that names it is worth, where the best rule is wanted.
    pub cost: u16,
    /// How its values are written.
    pub notation: Notation,
    /// Whether it tells flows apart, even if no rule names it.
    pub flow: bool,
}

/// A number of bytes: a field's value times something plus something, or only the latter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// The field and the factor.
    pub field: Option<(Bits, u32)>,
    /// What is added.
    pub add: u32,
    /// What it is at least.
    pub least: u32,
}

/// A field that must have a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Must {
    /// The number of the field.
    pub field: usize,
    /// Its bits.
    pub bits: Bits,
    /// The value.
    pub value: u64,
}

/// What says which protocol is behind a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHeader {
    /// The number of the field.
    pub field: usize,
    /// Its bits.
    pub bits: Bits,
    /// Only if this holds: what is behind an IP header of a piece of a packet is no header.
    pub only_if: Option<Must>,
}

/// The form that most headers of a protocol have: bits that are so in eight bytes, with which it is the protocol, has its least length,
/// and says what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UsualForm {
    byte: u32,
    mask: u64,
    value: u64,
}

/// A protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name.
    pub name: String,
    /// Bytes of its header.
    pub header: Length,
    /// Bytes of header and contents, where the header says that; else all there are.
    pub whole: Option<Length>,
    /// What makes it this protocol.
    pub requires: Vec<Must>,
    /// Whether the header is summed up as IPv4's is (RFC 1071).
    pub has_sum: bool,
    /// What says which protocol is behind it.
    pub next: Option<NextHeader>,
    /// Which protocols it is behind, at which value.
    pub follows: Vec<(String, u64)>,
    /// Its fields.
    pub fields: Vec<ProtocolField>,
    /// Its usual form, if eight bytes show that.
    pub(super) usual: Option<UsualForm>,
}

/// What a header leaves to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// Where it begins.
    pub start: usize,
    /// Where the outer one's bytes end.
    pub end: usize,
    /// What it is, if the outer one says so.
    pub next: Option<u64>,
}

/// Why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotThis {
    /// They are fewer than it has, or than it says.
    Short,
    /// This field has another value.
    Must(usize, u64),
    /// The sum is wrong.
    Sum,
}

impl Length {
    /// The length that a header says, if its field is there.
    #[inline(always)]
    pub fn of(&self, bytes: &[u8], start: usize) -> Option<usize> {
        let said = match self.field {
            None => 0,
            Some((bits, times)) => bits.read(bytes, start)?.checked_mul(times.into())?,
        };
        let length = usize::try_from(said).ok()?.checked_add(self.add as usize)?;
        (length >= self.least as usize).then_some(length)
    }
}

impl Protocol {
    /// Reads a header that begins at `start`, in bytes that end at `end`.
    #[inline(always)]
    pub fn read(&self, bytes: &[u8], start: usize, end: usize) -> Result<Inner, NotThis> {
        if start + self.header.least as usize > end {
            return Err(NotThis::Short);
        }
        let is_usual = self.usual.as_ref().is_some_and(|usual| usual.is(bytes, start));
        let (inner, has_next) = match is_usual {
            true => (start + self.header.least as usize, true),
            false => self.read_unusual(bytes, start)?,
        };
        let mut own_end = end;
        if let Some(whole) = &self.whole {
            own_end = start + whole.of(bytes, start).ok_or(NotThis::Short)?;
        }
        if inner > own_end || own_end > end {
            return Err(NotThis::Short);
        }
        if self.has_sum && Sum::new().bytes(bytes.get(start..inner).unwrap_or_default()).finish() != 0 {
            return Err(NotThis::Sum);
        }
        let next = self.next.as_ref().filter(|_| has_next);
        Ok(Inner { start: inner, end: own_end, next: next.and_then(|next| next.bits.read(bytes, start)) })
    }

    /// Where what is in it begins, and whether it says what that is.
    fn read_unusual(&self, bytes: &[u8], start: usize) -> Result<(usize, bool), NotThis> {
        for must in &self.requires {
            let value = must.bits.read(bytes, start).ok_or(NotThis::Short)?;
            if value != must.value {
                return Err(NotThis::Must(must.field, value));
            }
        }
        let length = self.header.of(bytes, start).ok_or(NotThis::Short)?;
        let only_if = self.next.as_ref().and_then(|next| next.only_if);
        Ok((start + length, only_if.is_none_or(|must| must.bits.read(bytes, start) == Some(must.value))))
    }

    /// The usual form, if there is one.
    pub(super) fn usual_form(&self) -> Option<UsualForm> {
        let least = match self.header.field {
            None => None,
            Some((bits, times)) => {
                let rest = self.header.least.checked_sub(self.header.add)?;
                let value = u64::from(rest / times);
                (rest % times == 0 && bits.holds(value)).then_some(Some((bits, value)))?
            }
        };
        let only_if = self.next.as_ref().and_then(|next| next.only_if);
        let musts = self.requires.iter().copied().chain(only_if).map(|must| (must.bits, must.value));
        let wanted: Vec<_> = musts.chain(least).collect();
        let byte = wanted.iter().map(|(bits, _)| bits.byte).min().unwrap_or(0);
        let mut usual = UsualForm { byte, mask: 0, value: 0 };
        for (bits, value) in wanted {
            let first = (bits.byte - byte) * 8 + u32::from(bits.bit);
            let behind = 64u32.checked_sub(first + u32::from(bits.count))?;
            let mask = bits.most() << behind;
            // Two that contradict are never so.
            if usual.mask & mask & (usual.value ^ value << behind) != 0 {
                return None;
            }
            (usual.mask, usual.value) = (usual.mask | mask, usual.value | value << behind);
        }
        Some(usual)
    }

    /// The number of a field.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// There is no such field: which ones are near.
    pub fn no_field(&self, name: &str, at: usize) -> Mistake {
        let near = nearest(name, self.fields.iter().map(|field| &*field.name));
        let known: Vec<_> = self.fields.iter().map(|field| &*field.name).collect();
        let known = if near.is_empty() { format!("; it has {}", known.join(", ")) } else { near };
        Mistake::at(at, format!("{} has no field '{}'{known}", self.name, super::token::shown(name)))
    }
}

impl UsualForm {
    #[inline(always)]
    fn is(&self, bytes: &[u8], start: usize) -> bool {
        let word = || bytes.get(start + self.byte as usize..).and_then(<[u8]>::first_chunk::<8>);
        self.mask == 0 || word().is_some_and(|word| u64::from_be_bytes(*word) & self.mask == self.value)
    }
}

/// The number of a protocol, as long as it is taught.
pub type ProtocolId = usize;
