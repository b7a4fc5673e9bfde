//! The host sides of `apps/multicast.c`: a subscriber that joins again before its branches end, and a publisher at the
//! root.

use super::attached::{Attached, Error, header, receive_until};
use super::payload;
use crate::wire::{Addr, Digest};
use core::time::Duration;
use serde::Serialize;

/// Payload bytes before the data.
pub const HEADER: usize = 64;

const JOIN: u8 = 1;
const DATA: u8 = 2;
const JOINED: u8 = 3;
const CONFIRM: u8 = 1;

/// A group: a number at a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The address of the node from which data branches, spelt as its publisher spells it.
    pub root: Addr,
    /// The group's number there.
    pub number: u64,
}

/// What comes to a subscriber.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// The first node that knew of the group, or the root, has the join.
    Joined {
        /// That node.
        at: Addr,
        /// Links the join passed.
        hops: u16,
    },
    /// A datum.
    Datum {
        /// The publisher's run.
        stream: u32,
        /// Counted in that run, from 0.
        sequence: u32,
        /// The data.
        bytes: Vec<u8>,
    },
}

/// A member of a group, at one node.
#[derive(Debug)]
pub struct Subscriber {
    code: Digest,
    group: Group,
    keep: Duration,
    bound: u32,
    next_join: Duration,
    confirmed: bool,
}

impl Subscriber {
    /// A member whose branches last for `keep` after each join; it joins four times in that time.
    pub fn new(code: Digest, group: Group, keep: Duration, bound: u32) -> Subscriber {
        Subscriber { code, group, keep, bound, next_join: Duration::ZERO, confirmed: false }
    }

    /// Waits for what comes next and joins again whenever it is time. Nothing after `timeout`.
    pub fn receive(&mut self, node: &mut dyn Attached, timeout: Duration) -> Result<Option<Event>, Error> {
        let end = node.now() + timeout;
        loop {
            if node.now() >= self.next_join {
                self.join(node, self.keep)?;
                // A little more than a quarter: so each join finds the mark of the one before gone.
                self.next_join = node.now() + self.keep * 26 / 100;
            }
            let until = end.min(self.next_join);
            let group = self.group;
            let event = receive_until(node, self.code, until, |header, bytes| parse(header.source, bytes, group))?;
            self.confirmed |= matches!(event, Some(Event::Joined { .. }));
            if event.is_some() || node.now() >= end {
                return Ok(event);
            }
        }
    }

    /// Takes the branch away, as far as nobody else needs it.
    pub fn leave(&mut self, node: &mut dyn Attached) -> Result<(), Error> {
        self.join(node, Duration::ZERO)
    }

    fn join(&self, node: &mut dyn Attached, keep: Duration) -> Result<(), Error> {
        let mut bytes = encode(JOIN, self.group);
        bytes[1] = if keep.is_zero() || self.confirmed { 0 } else { CONFIRM };
        payload::put(&mut bytes, 4, &(keep.as_millis() as u32).to_be_bytes());
        let header = header(node, self.code, self.group.root, self.bound);
        node.send(&header, &bytes)
    }
}

/// A sender of data, at the root of its group.
#[derive(Debug)]
pub struct Publisher {
    code: Digest,
    group: Group,
    stream: u32,
    next: u32,
}

impl Publisher {
    /// A publisher; `stream` distinguishes this run from others.
    pub fn new(code: Digest, group: Group, stream: u32) -> Publisher {
        Publisher { code, group, stream, next: 0 }
    }

    /// Sends one datum, with `bound` links and branchings to spend; gives its number.
    pub fn publish(&mut self, node: &mut dyn Attached, data: &[u8], bound: u32) -> Result<u32, Error> {
        let mut bytes = encode(DATA, self.group);
        payload::put(&mut bytes, 48, &self.stream.to_be_bytes());
        payload::put(&mut bytes, 52, &self.next.to_be_bytes());
        bytes.extend_from_slice(data);
        let header = header(node, self.code, self.group.root, bound);
        node.send(&header, &bytes)?;
        self.next = self.next.wrapping_add(1);
        Ok(self.next.wrapping_sub(1))
    }
}

fn encode(kind: u8, group: Group) -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[0] = kind;
    payload::put(&mut bytes, 8, &group.number.to_be_bytes());
    payload::put(&mut bytes, 16, &group.root.0);
    bytes
}

fn parse(source: Addr, bytes: &[u8], group: Group) -> Option<Event> {
    let of = Group { root: payload::addr(bytes, 16)?, number: payload::u64(bytes, 8)? };
    if of != group {
        return None;
    }
    match payload::u8(bytes, 0)? {
        JOINED => Some(Event::Joined { at: source, hops: payload::u16(bytes, 2)? }),
        DATA => Some(Event::Datum {
            stream: payload::u32(bytes, 48)?,
            sequence: payload::u32(bytes, 52)?,
            bytes: bytes.get(HEADER..)?.to_vec(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_other_groups_is_not_ours() {
        let group = Group { root: Addr::v4([10, 0, 0, 1]), number: 7 };
        let mut bytes = encode(DATA, group);
        bytes.extend_from_slice(b"hello");
        let datum = Event::Datum { stream: 0, sequence: 0, bytes: b"hello".to_vec() };
        assert_eq!(parse(group.root, &bytes, group), Some(datum));
        assert_eq!(parse(group.root, &bytes, Group { number: 8, ..group }), None);
        assert_eq!(parse(group.root, &bytes[..40], group), None);
        assert_eq!(parse(group.root, &encode(JOIN, group), group), None);
    }
}
