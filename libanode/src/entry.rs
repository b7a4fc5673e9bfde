//! Entries of the rings between node and process: eight words each, for a packet, an event or a free buffer.
//!
//! ```text
//! word 0  kind(8) buffer(16) offset(16) length(16) flags(8), from the lowest bit
//!      1  object(32) domain(32)                              channel, pool or watch
//!      2  event, or deadline
//!      3  argument, or source port(16) destination port(16)
//!      4, 5  source address, most significant word first
//!      6, 7  destination address
//! ```

use crate::ring::Entry;

/// A packet: up, one that came in; down, one to be sent.
const PACKET: u8 = 1;
/// A buffer of the node's is free again.
const FREE: u8 = 2;
/// An event is due.
const EVENT: u8 = 3;
/// A memory pool is over its limit.
const OVERRUN: u8 = 4;
/// A domain has ended.
const ENDED: u8 = 5;
/// Something has changed in a store.
const CHANGED: u8 = 6;

const SOURCE: u8 = 1;
const DESTINATION: u8 = 2;

/// An address of 16 bytes and a port.
pub type End = ([u8; 16], u16);

/// Bytes in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which buffer.
    pub buffer: u16,
    /// Where in it.
    pub offset: u16,
    /// How many.
    pub length: u16,
}

/// An entry, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A packet of a channel.
    Packet {
        /// Where it is.
        span: Span,
        /// The channel.
        channel: u32,
        /// Its domain.
        domain: u32,
        /// Who sent it.
        source: Option<End>,
        /// To whom.
        destination: Option<End>,
    },
    /// A buffer is free again.
    Free {
        /// Which.
        buffer: u16,
    },
    /// An event is due.
    Event {
        /// Whose.
        domain: u32,
        /// Which.
        event: u64,
        /// What it was scheduled with.
        argument: u64,
    },
    /// A memory pool is over its limit.
    Overrun {
        /// Of a domain.
        domain: u32,
        /// The pool.
        pool: u32,
        /// Until when, in nanoseconds of the node's clock.
        deadline: u64,
    },
    /// A domain has ended.
    Ended {
        /// Which.
        domain: u32,
    },
    /// Something has changed in a store.
    Changed {
        /// For a watch of this domain.
        domain: u32,
        /// The watch.
        watch: u32,
        /// What it was begun with.
        argument: u64,
    },
}

fn put_end(entry: &mut Entry, at: usize, end: Option<End>) -> u64 {
    let Some((address, port)) = end else { return 0 };
    let address = u128::from_be_bytes(address);
    (entry[4 + 2 * at], entry[5 + 2 * at]) = ((address >> 64) as u64, address as u64);
    entry[3] |= u64::from(port) << (16 * at);
    1 << at
}

fn end(entry: &Entry, at: usize, flags: u8) -> Option<End> {
    let address = u128::from(entry[4 + 2 * at]) << 64 | u128::from(entry[5 + 2 * at]);
    (flags & [SOURCE, DESTINATION][at] != 0).then_some((address.to_be_bytes(), (entry[3] >> (16 * at)) as u16))
}

impl Message {
    /// The entry that says it.
    #[inline]
    pub fn entry(&self) -> Entry {
        let mut entry = [0; 8];
        let object = |object: u32, domain: u32| u64::from(object) | u64::from(domain) << 32;
        match *self {
            Message::Packet { span, channel, domain, source, destination } => {
                let flags = put_end(&mut entry, 0, source) | put_end(&mut entry, 1, destination);
                entry[0] = u64::from(PACKET)
                    | u64::from(span.buffer) << 8
                    | u64::from(span.offset) << 24
                    | u64::from(span.length) << 40
                    | flags << 56;
                entry[1] = object(channel, domain);
            }
            Message::Free { buffer } => entry[0] = u64::from(FREE) | u64::from(buffer) << 8,
            Message::Event { domain, event, argument } => {
                (entry[0], entry[1]) = (EVENT.into(), object(0, domain));
                (entry[2], entry[3]) = (event, argument);
            }
            Message::Overrun { domain, pool, deadline } => {
                (entry[0], entry[1], entry[2]) = (OVERRUN.into(), object(pool, domain), deadline);
            }
            Message::Changed { domain, watch, argument } => {
                (entry[0], entry[1], entry[3]) = (CHANGED.into(), object(watch, domain), argument);
            }
            Message::Ended { domain } => (entry[0], entry[1]) = (ENDED.into(), object(0, domain)),
        }
        entry
    }

    /// What an entry says, if it says something.
    #[inline]
    pub fn of(entry: &Entry) -> Option<Message> {
        let (object, domain) = (entry[1] as u32, (entry[1] >> 32) as u32);
        let (buffer, flags) = ((entry[0] >> 8) as u16, (entry[0] >> 56) as u8);
        Some(match entry[0] as u8 {
            PACKET => Message::Packet {
                span: Span { buffer, offset: (entry[0] >> 24) as u16, length: (entry[0] >> 40) as u16 },
                channel: object,
                domain,
                source: end(entry, 0, flags),
                destination: end(entry, 1, flags),
            },
            FREE => Message::Free { buffer },
            EVENT => Message::Event { domain, event: entry[2], argument: entry[3] },
            OVERRUN => Message::Overrun { domain, pool: object, deadline: entry[2] },
            ENDED => Message::Ended { domain },
            CHANGED => Message::Changed { domain, watch: object, argument: entry[3] },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_an_entry_says_is_said_again_by_its_entry(entry: [u64; 8], kind in 0u8..8) {
            let mut entry = entry;
            entry[0] = entry[0] & !0xff | u64::from(kind);
            if let Some(message) = Message::of(&entry) {
                prop_assert_eq!(Message::of(&message.entry()), Some(message));
            }
        }
    }
}
