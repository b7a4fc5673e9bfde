//! A record of what happens to packets: one frame at the edge of a node, or one event of a packet inside it.
//!
//! ```text
//! word 0: kind (8 bits) · detail (8) · port (16) · bytes behind the head (32)
//! word 1: the node's clock, in nanoseconds     word 2: the packet's identity in this node; 0: none
//! word 3: as the kind says                     then the bytes, padded with zeros to whole words; all little endian
//! ```
//!
//! The worker writes records into a ring ([`super::ring`], [`super::event`]), whoever captures reads them ([`super::join`]).
//! So a reader takes nothing on trust: [`Records`] ends where a record is not whole, and what is unknown is passed over.

use super::ring::{HEAD, RECORD_MAX};
use crate::wire::{Addr, Digest};

/// Bytes of a head.
const HEAD_BYTES: usize = HEAD * 8;

/// A frame came in by a port.
pub const CAME: u8 = 1;
/// A frame leaves by a port.
pub const LEAVES: u8 = 2;
/// An event of a packet; the detail says which.
pub const EVENT: u8 = 3;
/// A frame that the kernel half has had; its bytes as it came, and behind them as it left.
pub const KERNEL: u8 = 4;
/// Records that were missed so far: word 2 of the worker's, word 3 of the kernel half's.
pub const MISSED: u8 = 5;

/// What the kernel half has done with a frame: the detail of its record.
pub mod kernel {
    /// Dropped it.
    pub const DROPPED: u8 = 0;
    /// Sent it on.
    pub const SENT: u8 = 1;
    /// Sent copies of it on.
    pub const COPIED: u8 = 2;
    /// Handed it to the user half with the verdict of its code, which may have written into it.
    pub const RAISED: u8 = 3;
    /// It is itself a copy, which leaves. Copies and what they were made of are told with the same mark.
    pub const COPY: u8 = 4;
    /// Bytes of a mark.
    pub const MARK: usize = 12;
}

/// Bytes of the name of a reason: a reader keeps many, and whoever writes may be somebody else's process.
const REASON_MAX: usize = 64;

/// Bytes of the name of a graph, or of an engine, which may stand in many compound elements.
const NAME_MAX: usize = 256;

/// The port of a record that is of none.
pub const NO_PORT: u16 = u16::MAX;

/// Details of events; [`Happened`] says what they mean.
pub(super) const RECEIVED: u8 = 1;
pub(super) const INJECTED: u8 = 2;
pub(super) const WAITING: u8 = 3;
pub(super) const REQUESTED: u8 = 4;
pub(super) const SERVED: u8 = 5;
pub(super) const ARRIVED: u8 = 6;
pub(super) const READY: u8 = 7;
pub(super) const RAN: u8 = 8;
pub(super) const CHILD: u8 = 9;
pub(super) const FORWARDED: u8 = 10;
pub(super) const DELIVERED: u8 = 11;
pub(super) const CLAMPED: u8 = 12;
pub(super) const DROPPED: u8 = 13;
pub(super) const CHARGED: u8 = 14;
pub(super) const MET: u8 = 15;

/// The head of a record; [`super::ring::Teller::tell`] adds the length.
#[inline]
pub fn head(kind: u8, detail: u8, port: u16, at: u64, trace: u64, more: u64) -> [u64; HEAD] {
    [u64::from(kind) | u64::from(detail) << 8 | u64::from(port) << 16, at, trace, more]
}

/// Moves whole records of several lists behind each other, by their time; of one time, those of later lists first, since what they hand to
/// the first list's worker is theirs before.
pub fn merge(lists: &mut [Vec<u8>], into: &mut Vec<u8>) {
    if let [only] = lists {
        return into.append(only);
    }
    let mut places = vec![0; lists.len()];
    let next = |list: &[u8], place: usize| {
        let head = list.get(place..)?.first_chunk::<HEAD_BYTES>()?;
        let word = |at: usize| head[at * 8..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Some((word(1), HEAD_BYTES + (word(0) >> 32).next_multiple_of(8) as usize))
    };
    loop {
        let all = lists.iter().zip(&places).enumerate();
        let heads = all.filter_map(|(at, (list, place))| next(list, *place).map(|(time, length)| (time, at, length)));
        let Some((_, at, length)) = heads.min_by_key(|(time, at, _)| (*time, std::cmp::Reverse(*at))) else { break };
        let end = (places[at] + length).min(lists[at].len());
        into.extend_from_slice(&lists[at][places[at]..end]);
        places[at] = end;
    }
    lists.iter_mut().for_each(Vec::clear);
}

/// A record as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// When, in nanoseconds of the node's clock.
    pub at: u64,
    /// The packet's identity in its node; 0: none.
    pub trace: u64,
    /// What.
    pub what: Told<'a>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// A frame came in (true) by a port, or leaves.
    Frame(bool, u16, &'a [u8]),
    /// A packet has been dealt with inside the node.
    Happened(Happened),
    /// The kernel half has had a frame.
    Kernel(Kernel<'a>),
    /// Records missed so far: the worker's, the kernel half's.
    Missed(u64, u64),
    /// Of a kind that a newer node knows.
    Unknown,
}

/// As the events of a packet in its node, as far as they travel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the EventKind of its name")]
pub enum Happened {
    Received(u16),
    Injected,
    Waiting(Digest),
    Requested(Digest, u32),
    Served(Digest, u32),
    Arrived(Digest),
    Ready(Digest),
    Ran(u64),
    Child(u64),
    Forwarded(u16, Addr),
    Delivered(u16),
    Clamped(u16, u32),
    Dropped(String),
    Charged(u32),
    Met(String, String),
}

/// What the kernel half has done with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel<'a> {
    /// One of [`kernel`].
    pub done: u8,
    /// The port that it came in by; of a copy the one that it leaves by.
    pub port: u16,
    /// The port that it left by; [`NO_PORT`]: by none, or none that is known.
    pub out: u16,
    /// One of the reasons of `bpf/seen.h`; of copies, how many.
    pub reason: u16,
    /// The frame as it came; of a copy its mark.
    pub before: &'a [u8],
    /// And as it left, or was handed on; empty: it was not. Of one that was copied the mark of its copies.
    pub after: &'a [u8],
}

/// Word 3 of a record of the kernel half.
pub fn kernel_word(out: u16, reason: u16, before: usize) -> u64 {
    u64::from(out) | u64::from(reason) << 16 | (before as u64) << 32
}

/// The records in some bytes.
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Those that are whole, in order.
    pub fn of(bytes: &'a [u8]) -> Records<'a> {
        Records { rest: bytes }
    }

    /// What is behind the last whole one.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether what is behind is no record at all, however much follows.
    pub fn is_broken(&self) -> bool {
        self.rest.first_chunk().is_some_and(|word| length(u64::from_le_bytes(*word)) > RECORD_MAX)
    }
}

fn length(first: u64) -> usize {
    (first >> 32) as usize
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (head, behind) = self.rest.split_first_chunk::<HEAD_BYTES>()?;
        let (words, _) = head.as_chunks::<8>();
        let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        let length = length(word(0));
        if length > RECORD_MAX || behind.len() < length.next_multiple_of(8) {
            return None;
        }
        let bytes = &behind[..length];
        self.rest = &behind[length.next_multiple_of(8)..];
        Some(Record { at: word(1), trace: word(2), what: told([word(0), word(1), word(2), word(3)], bytes) })
    }
}

fn told<'a>(head: [u64; HEAD], bytes: &'a [u8]) -> Told<'a> {
    let (kind, detail, port, more) = (head[0] as u8, (head[0] >> 8) as u8, (head[0] >> 16) as u16, head[3]);
    match kind {
        CAME | LEAVES => Told::Frame(kind == CAME, port, bytes),
        EVENT => happened(detail, port, more, bytes).map_or(Told::Unknown, Told::Happened),
        KERNEL => {
            let Some((before, after)) = bytes.split_at_checked((more >> 32) as usize) else { return Told::Unknown };
            let (out, reason) = (more as u16, (more >> 16) as u16);
            Told::Kernel(Kernel { done: detail, port, out, reason, before, after })
        }
        MISSED => Told::Missed(head[2], more),
        _ => Told::Unknown,
    }
}

fn happened(detail: u8, port: u16, more: u64, bytes: &[u8]) -> Option<Happened> {
    let digest = || bytes.first_chunk().map(|digest| Digest(*digest));
    Some(match detail {
        RECEIVED => Happened::Received(port),
        INJECTED => Happened::Injected,
        WAITING => Happened::Waiting(digest()?),
        REQUESTED => Happened::Requested(digest()?, more as u32),
        SERVED => Happened::Served(digest()?, more as u32),
        ARRIVED => Happened::Arrived(digest()?),
        READY => Happened::Ready(digest()?),
        RAN => Happened::Ran(more),
        CHILD => Happened::Child(more),
        FORWARDED => Happened::Forwarded(port, Addr(*bytes.first_chunk()?)),
        DELIVERED => Happened::Delivered(more as u16),
        CLAMPED => Happened::Clamped(port, more as u32),
        DROPPED => Happened::Dropped(text(bytes, REASON_MAX)),
        CHARGED => Happened::Charged(more as u32),
        MET => {
            let (graph, engine) = bytes.split_at_checked(more as usize)?;
            Happened::Met(text(graph, NAME_MAX), text(engine, NAME_MAX))
        }
        _ => return None,
    })
}

/// The text in some bytes, cut after so many.
fn text(bytes: &[u8], most: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::reason::Reason;
    use crate::seen::ring::ring;

    #[test]
    fn a_reason_is_as_long_as_those_of_a_node_and_no_longer() {
        let longest = Reason::ALL.iter().map(|reason| reason.name().len()).max().unwrap();
        assert!(longest <= REASON_MAX, "{longest}");
        let (mut teller, mut listener) = ring(1 << 14);
        teller.tell(head(EVENT, DROPPED, NO_PORT, 1, 2, 0), &[b'x'; 100_000], &[]);
        let mut told = Vec::new();
        listener.hear(&mut told, usize::MAX);
        let Told::Happened(Happened::Dropped(reason)) = Records::of(&told).next().unwrap().what else {
            panic!("{told:?}")
        };
        assert_eq!(reason.len(), REASON_MAX);
    }

    #[test]
    fn records_of_several_workers_come_in_the_order_of_their_times() {
        let told = |times: &[u64]| {
            let (mut teller, mut listener) = ring(1 << 10);
            for at in times {
                assert!(teller.tell(head(EVENT, RAN, 0, *at, *at, 0), &[7; 5][..*at as usize % 6], &[]));
            }
            let mut bytes = Vec::new();
            listener.hear(&mut bytes, usize::MAX);
            bytes
        };
        let mut into = Vec::new();
        merge(&mut [told(&[2, 5, 9]), told(&[1, 5, 5, 30]), told(&[])], &mut into);
        assert_eq!(Records::of(&into).map(|record| record.at).collect::<Vec<_>>(), [1, 2, 5, 5, 5, 9, 30]);
        let mut only = [told(&[4, 3])];
        merge(&mut only, &mut into);
        assert_eq!(Records::of(&into).count(), 9);
        assert!(only[0].is_empty(), "they have moved");
    }
}
