//! Code-fetch messages: a node asks the previous hop for an object named by its SHA-256.
//!
//! They are payloads of ANEP packets with type id [`FETCH`](super::anep::type_id::FETCH), after the
//! demand loading of PAN and ANTS. An object (a manifest or a representation) of at most
//! [`MAX_OBJECT`] bytes travels in [`PART`]-byte parts; a request says with a bit mask which parts
//! are still missing. A request is padded with zeroes so that the parts it may cause never exceed
//! [`AMPLIFICATION`] times its own bytes: a forged request is not worth sending. When to ask, to
//! wait or to give up is decided elsewhere, and nothing here believes a digest: the receiver hashes.

use super::{Addr, Digest, Error, Result, anep, field, put};

/// Bytes in every part but the last.
pub const PART: usize = 1024;
/// Most bytes in an object.
pub const MAX_OBJECT: usize = 65536;
/// Most parts in an object.
pub const MAX_PARTS: u32 = (MAX_OBJECT / PART) as u32;
/// Replies to one request may together have this many times its bytes, ANEP headers included.
pub const AMPLIFICATION: usize = 3;
/// Parts that one request can ask for when it has to fit into a frame of 1500 bytes over IPv6 and UDP.
pub const PARTS_PER_REQUEST: u32 = 4;
/// The version this implementation speaks.
pub const VERSION: u8 = 1;

const KIND: usize = 1;
const NUMBER: usize = 2;
const NONCE: usize = 4;
const DIGEST: usize = 8;
const COMMON: usize = 40;
const MISSING: usize = 40;
const REQUESTER: usize = 48;
const REQUEST: usize = 64;
const TOTAL: usize = 40;
/// Bytes before the bytes of a part.
pub const PART_HEADER: usize = 44;

const KIND_REQUEST: u8 = 1;
const KIND_PART: u8 = 2;
const KIND_ABSENT: u8 = 3;

/// Bytes on the wire (ANEP header included) of the longest part.
const REPLY: usize = anep::HEADER + PART_HEADER + PART;

/// A code-fetch message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Send me these parts.
    Request {
        /// Chosen by the requester and repeated by every reply to it.
        nonce: u32,
        /// The object's name.
        digest: Digest,
        /// Bit i: part i is wanted. Never zero.
        missing: u64,
        /// Where the replies go.
        requester: Addr,
    },
    /// Here is one part.
    Part {
        /// The request's.
        nonce: u32,
        /// The object's name.
        digest: Digest,
        /// Which part, from 0.
        part: u16,
        /// The object's length in bytes, 1 to [`MAX_OBJECT`].
        total: u32,
        /// The part's bytes: [`PART`], or what is left in the last one.
        bytes: &'a [u8],
    },
    /// I do not have that object.
    Absent {
        /// The request's.
        nonce: u32,
        /// The object's name.
        digest: Digest,
    },
}

impl<'a> Message<'a> {
    /// Reads a message that fills `bytes`.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>> {
        let common = bytes.first_chunk::<COMMON>().ok_or(Error::Truncated)?;
        if common[0] != VERSION {
            return Err(Error::Version);
        }
        let number = u16::from_be_bytes(field::<NUMBER, _, _>(common));
        let nonce = u32::from_be_bytes(field::<NONCE, _, _>(common));
        let digest = Digest(field::<DIGEST, _, _>(common));
        match common[KIND] {
            KIND_PART => parse_part(bytes, nonce, digest, number),
            _ if number != 0 => Err(Error::Malformed),
            KIND_REQUEST => parse_request(bytes, nonce, digest),
            KIND_ABSENT if bytes.len() == COMMON => Ok(Message::Absent { nonce, digest }),
            KIND_ABSENT => Err(Error::Length),
            _ => Err(Error::Malformed),
        }
    }

    /// Bytes on the wire, a request's padding included.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Message::Request { missing, .. } => padded_request_len(missing.count_ones()),
            Message::Part { bytes, .. } => PART_HEADER + bytes.len(),
            Message::Absent { .. } => COMMON,
        }
    }

    /// Never: every message has bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the message at the beginning of `buf` and returns its length; `Truncated` if it does
    /// not fit, `Malformed` or `Length` if it is not one that `parse` would accept.
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize> {
        let buf = buf.get_mut(..self.len()).ok_or(Error::Truncated)?;
        match *self {
            Message::Request { nonce, digest, missing, requester } => {
                if missing == 0 {
                    return Err(Error::Malformed);
                }
                emit_common(buf, KIND_REQUEST, 0, nonce, digest)?;
                let (header, padding) = buf.split_first_chunk_mut::<REQUEST>().ok_or(Error::Truncated)?;
                put::<MISSING, _, _>(header, missing.to_be_bytes());
                put::<REQUESTER, _, _>(header, requester.0);
                padding.fill(0);
            }
            Message::Part { nonce, digest, part, total, bytes } => {
                if bytes.len() != part_len(part, total).ok_or(Error::Malformed)? {
                    return Err(Error::Length);
                }
                emit_common(buf, KIND_PART, part, nonce, digest)?;
                let (header, payload) = buf.split_first_chunk_mut::<PART_HEADER>().ok_or(Error::Truncated)?;
                put::<TOTAL, _, _>(header, total.to_be_bytes());
                payload.copy_from_slice(bytes);
            }
            Message::Absent { nonce, digest } => emit_common(buf, KIND_ABSENT, 0, nonce, digest)?,
        }
        Ok(self.len())
    }
}

fn parse_request(bytes: &[u8], nonce: u32, digest: Digest) -> Result<Message<'_>> {
    // The padding behind the fields only has to exist: what it holds is ignored.
    let request = bytes.first_chunk::<REQUEST>().ok_or(Error::Truncated)?;
    let missing = u64::from_be_bytes(field::<MISSING, _, _>(request));
    if missing == 0 {
        return Err(Error::Malformed);
    }
    Ok(Message::Request { nonce, digest, missing, requester: Addr(field::<REQUESTER, _, _>(request)) })
}

fn parse_part(bytes: &[u8], nonce: u32, digest: Digest, part: u16) -> Result<Message<'_>> {
    let (header, bytes) = bytes.split_first_chunk::<PART_HEADER>().ok_or(Error::Truncated)?;
    let total = u32::from_be_bytes(field::<TOTAL, _, _>(header));
    let length = part_len(part, total).ok_or(Error::Malformed)?;
    if bytes.len() < length {
        return Err(Error::Truncated);
    }
    if bytes.len() > length {
        return Err(Error::Length);
    }
    Ok(Message::Part { nonce, digest, part, total, bytes })
}

fn emit_common(buf: &mut [u8], kind: u8, number: u16, nonce: u32, digest: Digest) -> Result<()> {
    let header = buf.first_chunk_mut::<COMMON>().ok_or(Error::Truncated)?;
    header[0] = VERSION;
    header[KIND] = kind;
    put::<NUMBER, _, _>(header, number.to_be_bytes());
    put::<NONCE, _, _>(header, nonce.to_be_bytes());
    put::<DIGEST, _, _>(header, digest.0);
    Ok(())
}

/// Parts in an object of `total` bytes.
#[inline]
pub const fn parts(total: u32) -> u32 {
    total.div_ceil(PART as u32)
}

/// All parts of an object of `total` bytes, as the mask of a request; none of one that is too long.
#[inline]
pub const fn all_parts(total: u32) -> u64 {
    match parts(total) {
        0 => 0,
        count if count > MAX_PARTS => 0,
        count => u64::MAX >> (MAX_PARTS - count),
    }
}

/// Bytes in part `part` of an object of `total` bytes; none if there is no such object or part.
#[inline]
pub const fn part_len(part: u16, total: u32) -> Option<usize> {
    if total as usize > MAX_OBJECT || part as u32 >= parts(total) {
        return None;
    }
    let left = total as usize - part as usize * PART;
    Some(if left < PART { left } else { PART })
}

/// The length in bytes of a request (without ANEP header) that may cause replies with `parts_wanted` parts.
#[inline]
pub const fn padded_request_len(parts_wanted: u32) -> usize {
    let needed = (parts_wanted as usize * REPLY).div_ceil(AMPLIFICATION);
    if needed <= anep::HEADER + REQUEST { REQUEST } else { needed - anep::HEADER }
}

/// How many parts may answer a request of `request_len` bytes (without ANEP header), padding included.
#[inline]
pub const fn reply_budget(request_len: usize) -> u32 {
    let parts = request_len.saturating_add(anep::HEADER).saturating_mul(AMPLIFICATION) / REPLY;
    if parts > MAX_PARTS as usize { MAX_PARTS } else { parts as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Digest = Digest([9; 32]);

    #[test]
    fn a_request_pays_for_exactly_the_parts_it_asks_for() {
        for wanted in 1..=MAX_PARTS {
            let length = padded_request_len(wanted);
            assert_eq!(reply_budget(length), wanted);
            assert!(wanted as usize * REPLY <= AMPLIFICATION * (length + anep::HEADER));
        }
        assert_eq!(reply_budget(REQUEST), 0);
        assert_eq!(reply_budget(usize::MAX), MAX_PARTS);
    }

    #[test]
    fn the_parts_of_one_request_keep_it_inside_an_ethernet_frame() {
        assert!(40 + 8 + anep::HEADER + padded_request_len(PARTS_PER_REQUEST) <= 1500);
        assert!(40 + 8 + anep::HEADER + padded_request_len(PARTS_PER_REQUEST + 1) > 1500);
    }

    #[test]
    fn the_last_part_is_what_is_left() {
        assert_eq!((parts(0), parts(1), parts(1024), parts(1025), parts(65536)), (0, 1, 1, 2, 64));
        assert_eq!([0, 1, 1025, 65536, 65537].map(all_parts), [0, 1, 3, u64::MAX, 0]);
        assert_eq!(part_len(0, 0), None);
        assert_eq!(part_len(1, 1025), Some(1));
        assert_eq!(part_len(2, 1025), None);
        assert_eq!(part_len(63, 65536), Some(1024));
        assert_eq!(part_len(64, 65537), None);
        assert_eq!(part_len(0, u32::MAX), None);
    }

    #[test]
    fn a_part_of_another_length_than_announced_is_refused() {
        let data = [1; PART];
        let part = Message::Part { nonce: 1, digest: NAME, part: 1, total: 1030, bytes: &data[..6] };
        let mut buf = [0; 2000];
        let length = part.emit(&mut buf).unwrap();
        assert_eq!(Message::parse(&buf[..length]), Ok(part));
        assert_eq!(Message::parse(&buf[..length - 1]), Err(Error::Truncated));
        assert_eq!(Message::parse(&buf[..length + 1]), Err(Error::Length));
        let long = Message::Part { nonce: 1, digest: NAME, part: 1, total: 1030, bytes: &data };
        assert_eq!(long.emit(&mut buf), Err(Error::Length));
    }

    #[test]
    fn a_request_for_nothing_is_refused() {
        let request = Message::Request { nonce: 1, digest: NAME, missing: 0, requester: Addr::v4([1, 2, 3, 4]) };
        let mut buf = [0; 2000];
        assert_eq!(request.emit(&mut buf), Err(Error::Malformed));
    }
}
