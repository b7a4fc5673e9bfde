//! The host side of `apps/trace.c`: sends, reads the records, computes the time to each node.
//!
//! Clocks of different nodes cannot be compared, so no single record tells a node's distance. Two records of one node
//! can: their difference is the way from there to the destination and back. The whole round trip less that is the round
//! trip to the node.

use super::attached::{Attached, Error, header, receive_until};
use super::payload;
use crate::wire::{Addr, Digest};
use core::time::Duration;
use serde::Serialize;

/// Payload bytes before the records.
const HEADER: usize = 16;

/// Bytes of a record.
const RECORD: usize = 48;

/// Records that a payload can hold at most, whatever the links carry.
pub const RECORDS_MAX: usize = 255;

/// What is sent, and for how long is waited.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Records the capsule has room for, there and back together: 24 make 1168 bytes of payload.
    pub records: usize,
    /// Capsules sent, one after the other, until one comes back.
    pub tries: u32,
    /// For how long each is waited for.
    pub timeout: Duration,
    /// Resource bound, for the way there and back and for all reports.
    pub bound: u32,
    /// Bound of the report that each node on the way there sends back, 0 for none.
    pub report_bound: u32,
    /// Distinguishes this run from others: any number not used lately.
    pub token: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { records: 24, tries: 3, timeout: Duration::from_secs(2), bound: 1024, report_bound: 48, token: 0 }
    }
}

/// A node that the capsule passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// Its address on the side where the capsule left.
    pub node: Addr,
    /// Its name, the first 16 bytes.
    pub name: String,
    /// Round trip from the sender to it, in nanoseconds, if it was passed on both ways.
    pub rtt_ns: Option<u64>,
    /// Its clock when the capsule passed, in nanoseconds; readings of one node can be compared.
    pub clock_ns: u64,
    /// Bytes that waited to leave by the link the capsule took, if the link says.
    pub queue_bytes: Option<u32>,
    /// How busy that link was, in 1/1000, if its rate is known.
    pub load_permille: Option<u16>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The nodes on the way there, from the sender's own to the destination.
    pub there: Vec<Hop>,
    /// The nodes on the way back, from the destination's next to the sender's own.
    pub back: Vec<Hop>,
    /// Whether it came back; else `there` is as far as reports tell.
    pub complete: bool,
    /// Whether there were more nodes than records.
    pub full: bool,
    /// Whole round trip as the sender measured it, in nanoseconds, if it came back.
    pub rtt_ns: Option<u64>,
    /// Capsules sent.
    pub tries: u32,
}

/// Traces the way to `to` and back.
pub fn run(node: &mut dyn Attached, code: Digest, to: Addr, options: &Options) -> Result<Trace, Error> {
    let mut furthest = Trace::default();
    for sequence in 0..options.tries.max(1) {
        let begin = node.now();
        let head = header(node, code, to, options.bound);
        node.send(&head, &encode(options, sequence))?;
        let found = receive_until(node, code, begin + options.timeout, |_, bytes| {
            let trace = parse(bytes, options.token, sequence)?;
            if trace.complete {
                return Some(trace);
            }
            if trace.there.len() > furthest.there.len() {
                furthest = trace;
            }
            None
        })?;
        if let Some(mut trace) = found {
            trace.rtt_ns = Some(node.now().saturating_sub(begin).as_nanos() as u64);
            trace.tries = sequence + 1;
            return Ok(trace);
        }
        furthest.tries = sequence + 1;
    }
    Ok(furthest)
}

fn encode(options: &Options, sequence: u32) -> Vec<u8> {
    let mut bytes = vec![0; HEADER + RECORD * options.records.min(RECORDS_MAX)];
    payload::put(&mut bytes, 0, &options.token.to_be_bytes());
    payload::put(&mut bytes, 8, &options.report_bound.to_be_bytes());
    payload::put(&mut bytes, 12, &sequence.to_be_bytes());
    bytes
}

/// A record and the number of its twin on the way there.
struct Record {
    hop: Hop,
    twin: usize,
}

fn parse(bytes: &[u8], token: u32, sequence: u32) -> Option<Trace> {
    const BACK: u8 = 1;
    const FULL: u8 = 1;
    if payload::u32(bytes, 0)? != token || payload::u32(bytes, 12)? != sequence {
        return None;
    }
    let (phase, count, flags) = (payload::u8(bytes, 4)?, payload::u8(bytes, 5)?, payload::u8(bytes, 6)?);
    let mut records: Vec<Record> =
        (0..usize::from(count)).map_while(|index| record(bytes, HEADER + index * RECORD)).collect();
    let complete = phase == BACK;
    let turn = if complete { usize::from(payload::u8(bytes, 7)?).min(records.len()) } else { records.len() };
    if complete {
        round_trips(&mut records, turn);
    }
    let mut there: Vec<Hop> = records.into_iter().map(|record| record.hop).collect();
    let back = there.split_off(turn);
    Some(Trace { there, back, complete, full: flags & FULL != 0, rtt_ns: None, tries: 0 })
}

fn record(bytes: &[u8], at: usize) -> Option<Record> {
    let queue = payload::u32(bytes, at + 40)?;
    let load = payload::u16(bytes, at + 44)?;
    let hop = Hop {
        node: payload::addr(bytes, at)?,
        name: payload::name(bytes, at + 16)?,
        rtt_ns: None,
        clock_ns: payload::u64(bytes, at + 32)?,
        queue_bytes: (queue != u32::MAX).then_some(queue),
        load_permille: (load != u16::MAX).then_some(load),
    };
    Some(Record { hop, twin: usize::from(payload::u8(bytes, at + 46)?) })
}

/// Works out the round trips from the pairs of records of one node; `turn` records are of the way
/// there.
fn round_trips(records: &mut [Record], turn: usize) {
    let pairs: Vec<(usize, u64)> = records
        .iter()
        .filter_map(|record| {
            let there = record.twin.checked_sub(1)?;
            Some((there, record.hop.clock_ns.checked_sub(records.get(there)?.hop.clock_ns)?))
        })
        .collect();
    // The sender's own node is record 0: what lies between its two readings is the whole trip.
    let Some(&(_, whole)) = pairs.iter().find(|(there, _)| *there == 0) else { return };
    for (there, beyond) in pairs {
        records[there].hop.rtt_ns = whole.checked_sub(beyond);
    }
    // The destination is passed once: nothing lies beyond it.
    if let Some(destination) = turn.checked_sub(1).and_then(|last| records.get_mut(last)) {
        destination.hop.rtt_ns = Some(whole);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capsule's payload: (clock, twin) of each record, as the nodes write them.
    fn payload_of(records: &[(u64, u8)], there: u8, phase: u8) -> Vec<u8> {
        let mut bytes = encode(&Options { token: 5, records: records.len(), ..Options::default() }, 0);
        bytes[4..8].copy_from_slice(&[phase, records.len() as u8, 0, there]);
        for (index, (clock, twin)) in records.iter().enumerate() {
            let at = HEADER + index * RECORD;
            payload::put(&mut bytes, at + 16, b"node");
            payload::put(&mut bytes, at + 32, &clock.to_be_bytes());
            payload::put(&mut bytes, at + 46, &[*twin]);
        }
        bytes
    }

    #[test]
    fn times_come_from_two_readings_of_one_clock() {
        // Three nodes in a line, clocks far apart: 10 to the middle, 7 further.
        let bytes = payload_of(&[(1_000, 0), (5, 0), (90_000, 0), (19, 2), (1_034, 1)], 3, 1);
        let trace = parse(&bytes, 5, 0).unwrap();
        let rtts: Vec<_> = trace.there.iter().map(|hop| hop.rtt_ns).collect();
        assert_eq!(rtts, [Some(0), Some(20), Some(34)]);
        assert_eq!((trace.back.len(), trace.complete), (2, true));
    }

    #[test]
    fn a_node_that_is_not_passed_twice_has_no_time() {
        let bytes = payload_of(&[(0, 0), (500, 0), (90, 0), (7_777, 0), (40, 1)], 3, 1);
        let trace = parse(&bytes, 5, 0).unwrap();
        let rtts: Vec<_> = trace.there.iter().map(|hop| hop.rtt_ns).collect();
        assert_eq!(rtts, [Some(0), None, Some(40)]);
    }

    #[test]
    fn broken_payloads_are_refused_or_cut() {
        let bytes = payload_of(&[(0, 0), (1, 9)], 200, 1);
        assert!(parse(&bytes, 5, 0).is_some_and(|trace| trace.there.len() == 2));
        assert_eq!(parse(&bytes, 6, 0), None);
        assert_eq!(parse(&bytes, 5, 1), None);
        assert!(parse(&bytes[..70], 5, 0).is_some_and(|trace| trace.there.len() == 1));
        assert_eq!(parse(&bytes[..15], 5, 0), None);
    }
}
