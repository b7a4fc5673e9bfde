//! The host sides of `apps/cache.c`: an origin with the values, and a client with requests.

use super::attached::{Attached, Error, header, receive_until};
use super::payload;
use crate::wire::capsule::Header;
use crate::wire::{Addr, Digest};
use core::fmt;
use core::time::Duration;
use serde::Serialize;
use std::collections::HashMap;

/// The most bytes of a value.
pub const VALUE_MAX: usize = 64;

/// The application port of origins, unless another is chosen.
pub const ORIGIN_PORT: u16 = 3322;

/// Bytes of a payload.
const PAYLOAD: usize = 120;

const GET: u8 = 1;
const PUT: u8 = 2;
const VALUE: u8 = 3;
const ABSENT: u8 = 4;
const STORED: u8 = 5;
const FRESH: u8 = 1;
const COPY: u8 = 2;

/// A key: the beginning of the SHA-256 of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(pub [u8; 16]);

impl Key {
    /// The key of a text of any length.
    pub fn of(text: &str) -> Key {
        let mut key = [0; 16];
        key.copy_from_slice(&Digest::of(text.as_bytes()).0[..16]);
        Key(key)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A capsule's payload.
#[derive(Clone, Debug)]
struct Message {
    kind: u8,
    flags: u8,
    hops: u8,
    request: u32,
    version: u32,
    keep_ms: u32,
    origin_port: u16,
    key: Key,
    origin: Addr,
    value: Vec<u8>,
}

impl Message {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; PAYLOAD];
        let length = self.value.len().min(VALUE_MAX);
        bytes[..4].copy_from_slice(&[self.kind, self.flags, length as u8, self.hops]);
        payload::put(&mut bytes, 4, &self.request.to_be_bytes());
        payload::put(&mut bytes, 8, &self.version.to_be_bytes());
        payload::put(&mut bytes, 12, &self.keep_ms.to_be_bytes());
        payload::put(&mut bytes, 16, &self.origin_port.to_be_bytes());
        payload::put(&mut bytes, 24, &self.key.0);
        payload::put(&mut bytes, 40, &self.origin.0);
        payload::put(&mut bytes, 56, &self.value[..length]);
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Message> {
        let length = usize::from(payload::u8(bytes, 2)?);
        if bytes.len() < PAYLOAD || length > VALUE_MAX {
            return None;
        }
        Some(Message {
            kind: payload::u8(bytes, 0)?,
            flags: payload::u8(bytes, 1)?,
            hops: payload::u8(bytes, 3)?,
            request: payload::u32(bytes, 4)?,
            version: payload::u32(bytes, 8)?,
            keep_ms: payload::u32(bytes, 12)?,
            origin_port: payload::u16(bytes, 16)?,
            key: Key(payload::bytes(bytes, 24)?),
            origin: payload::addr(bytes, 40)?,
            value: bytes.get(56..56 + length)?.to_vec(),
        })
    }
}

/// What an origin has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Served {
    /// GETs answered with a value.
    pub values: u64,
    /// GETs for keys it does not have.
    pub absent: u64,
    /// PUTs taken.
    pub stored: u64,
}

/// An origin: holds the values and answers what no node could.
#[derive(Debug)]
pub struct Origin {
    code: Digest,
    values: HashMap<Key, (u32, Vec<u8>)>,
    keep: Duration,
    limit: usize,
    served: Served,
}

impl Origin {
    /// An empty origin that lets copies live for `keep` and holds at most `limit` values.
    pub fn new(code: Digest, keep: Duration, limit: usize) -> Origin {
        Origin { code, values: HashMap::new(), keep, limit, served: Served::default() }
    }

    /// What it has done so far.
    pub fn served(&self) -> Served {
        self.served
    }

    /// Sets a value as a PUT would.
    pub fn set(&mut self, key: Key, value: Vec<u8>) -> bool {
        if value.len() > VALUE_MAX || (self.values.len() >= self.limit && !self.values.contains_key(&key)) {
            return false;
        }
        let entry = self.values.entry(key).or_default();
        *entry = (entry.0.wrapping_add(1), value);
        true
    }

    /// The answer to a capsule that was delivered to the origin's port, if it asks for one.
    pub fn answer(&mut self, asked: &Header, bytes: &[u8]) -> Option<(Header, Vec<u8>)> {
        if asked.code != self.code {
            return None;
        }
        // A key belongs to one origin: ours is the one that the asker named as destination.
        let mut message = Message::parse(bytes).filter(|message| message.origin == asked.destination)?;
        match message.kind {
            GET => match self.values.get(&message.key) {
                Some((version, value)) => {
                    self.served.values += 1;
                    message.kind = VALUE;
                    message.version = *version;
                    message.value.clone_from(value);
                    message.keep_ms = u32::try_from(self.keep.as_millis()).unwrap_or(u32::MAX);
                }
                None => {
                    self.served.absent += 1;
                    message.kind = ABSENT;
                }
            },
            PUT => {
                let value = core::mem::take(&mut message.value);
                if self.set(message.key, value) {
                    self.served.stored += 1;
                    message.kind = STORED;
                    message.version = self.values.get(&message.key).map_or(0, |(version, _)| *version);
                } else {
                    message.kind = ABSENT;
                }
            }
            _ => return None,
        }
        message.flags &= FRESH;
        // The bound it came with would do for a way back as long; 255 does for every one.
        let header = Header {
            bound: 255,
            previous: Addr::UNSPECIFIED,
            source: asked.destination,
            destination: asked.source,
            ..*asked
        };
        Some((header, message.encode()))
    }

    /// Answers capsules for `time`.
    pub fn serve(&mut self, node: &mut dyn Attached, time: Duration) -> Result<(), Error> {
        let end = node.now() + time;
        while let Some((header, bytes)) = node.receive(end.saturating_sub(node.now()))? {
            if let Some((header, bytes)) = self.answer(&header, &bytes) {
                node.send(&header, &bytes)?;
            }
        }
        Ok(())
    }
}

/// What an asker got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value.
    Value {
        /// Its bytes.
        bytes: Vec<u8>,
        /// Counted by the origin with each PUT.
        version: u32,
        /// The node that answered.
        from: Addr,
        /// Whether it answered from a copy; else the origin itself did.
        copy: bool,
        /// Links to the node that answered.
        hops: u8,
    },
    /// The origin took the PUT; the value's version there.
    Stored(u32),
    /// The origin has no such key, or no room for another.
    Absent,
    /// No answer in time.
    Lost,
}

/// Asks an origin.
#[derive(Clone, Debug)]
pub struct Client {
    /// The code's name.
    pub code: Digest,
    /// The address of the origin's node, spelt as the origin spells it.
    pub origin: Addr,
    /// The origin's application port.
    pub origin_port: u16,
    /// Pass copies by.
    pub fresh: bool,
    /// How long one capsule is waited for.
    pub timeout: Duration,
    /// Capsules sent until one is answered.
    pub tries: u32,
    /// Links one capsule may pass.
    pub bound: u32,
    /// The number of the next request.
    pub request: u32,
}

impl Client {
    /// A client that waits a second for an answer and asks three times.
    pub fn new(code: Digest, origin: Addr, request: u32) -> Client {
        let (origin_port, timeout) = (ORIGIN_PORT, Duration::from_secs(1));
        Client { code, origin, origin_port, fresh: false, timeout, tries: 3, bound: 255, request }
    }

    /// Asks for a value.
    pub fn get(&mut self, node: &mut dyn Attached, key: Key) -> Result<Answer, Error> {
        self.ask(node, GET, key, &[])
    }

    /// Stores a value of at most [`VALUE_MAX`] bytes at the origin; what is longer is cut.
    pub fn put(&mut self, node: &mut dyn Attached, key: Key, value: &[u8]) -> Result<Answer, Error> {
        self.ask(node, PUT, key, value)
    }

    fn ask(&mut self, node: &mut dyn Attached, kind: u8, key: Key, value: &[u8]) -> Result<Answer, Error> {
        let request = self.request;
        self.request = self.request.wrapping_add(1);
        let message = Message {
            kind,
            flags: if self.fresh { FRESH } else { 0 },
            hops: 0,
            request,
            version: 0,
            keep_ms: 0,
            origin_port: self.origin_port,
            key,
            origin: self.origin,
            value: value.to_vec(),
        };
        for _ in 0..self.tries.max(1) {
            let header = header(node, self.code, self.origin, self.bound);
            node.send(&header, &message.encode())?;
            let until = node.now() + self.timeout;
            let answer = receive_until(node, self.code, until, |header, bytes| {
                let answer = Message::parse(bytes).filter(|answer| answer.request == request && answer.key == key)?;
                answer.understood(header.source)
            })?;
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
        Ok(Answer::Lost)
    }
}

impl Message {
    fn understood(self, from: Addr) -> Option<Answer> {
        match self.kind {
            VALUE => Some(Answer::Value {
                bytes: self.value,
                version: self.version,
                from,
                copy: self.flags & COPY != 0,
                hops: self.hops,
            }),
            STORED => Some(Answer::Stored(self.version)),
            ABSENT => Some(Answer::Absent),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(code: Digest) -> Header {
        Header {
            app_port: 9,
            bound: 3,
            code,
            previous: Addr::v4([10, 0, 0, 2]),
            source: Addr::v4([10, 0, 0, 1]),
            destination: Addr::v4([10, 0, 0, 3]),
        }
    }

    fn get(key: Key) -> Message {
        Message {
            kind: GET,
            flags: 0,
            hops: 2,
            request: 77,
            version: 0,
            keep_ms: 0,
            origin_port: 5,
            key,
            origin: Addr::v4([10, 0, 0, 3]),
            value: Vec::new(),
        }
    }

    #[test]
    fn an_origin_answers_to_the_port_of_the_asker() {
        let code = Digest([1; 32]);
        let mut origin = Origin::new(code, Duration::from_secs(9), 1);
        assert!(origin.set(Key::of("a"), b"value".to_vec()));
        let (header, bytes) = origin.answer(&asked(code), &get(Key::of("a")).encode()).unwrap();
        assert_eq!((header.app_port, header.destination), (9, asked(code).source));
        let answer = Message::parse(&bytes).unwrap();
        assert_eq!((answer.kind, answer.request, answer.keep_ms), (VALUE, 77, 9000));
        assert_eq!(answer.value, b"value");
        assert!(origin.answer(&asked(Digest([2; 32])), &get(Key::of("a")).encode()).is_none());
    }

    #[test]
    fn versions_count_and_room_is_bounded() {
        let mut origin = Origin::new(Digest([1; 32]), Duration::from_secs(1), 1);
        assert!(origin.set(Key::of("a"), vec![1]) && origin.set(Key::of("a"), vec![2]));
        assert!(!origin.set(Key::of("b"), vec![1]), "one value is the limit");
        assert!(!origin.set(Key::of("a"), vec![0; VALUE_MAX + 1]));
        assert_eq!(origin.values[&Key::of("a")], (2, vec![2]));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let mut bytes = get(Key::of("a")).encode();
        bytes[2] = 65;
        assert!(Message::parse(&bytes).is_none());
        bytes[2] = 64;
        assert!(Message::parse(&bytes).is_some());
        assert!(Message::parse(&bytes[..PAYLOAD - 1]).is_none());
    }
}
