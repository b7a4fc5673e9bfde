//! The host side of `apps/ping.c`: sends, matches answers by token and sequence number, sums up.

use super::attached::{Attached, Error, header, receive_until};
use super::payload;
use super::times::Times;
use crate::wire::{Addr, Digest};
use core::time::Duration;
use serde::Serialize;

/// The least payload, in bytes: what the capsule itself uses.
pub const SIZE_MIN: usize = 12;

/// What is sent, and for how long is waited.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Capsules to send.
    pub count: u32,
    /// Time from one to the next.
    pub interval: Duration,
    /// Payload bytes, at least [`SIZE_MIN`].
    pub size: usize,
    /// After how long without an answer a capsule counts as lost.
    pub timeout: Duration,
    /// Resource bound: links that one may pass, there and back together.
    pub bound: u32,
    /// Distinguishes this run from others: any number not used lately.
    pub token: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            count: 5,
            interval: Duration::from_secs(1),
            size: 64,
            timeout: Duration::from_secs(2),
            bound: 255,
            token: 0,
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reply {
    /// The number of the capsule, from 0.
    pub sequence: u32,
    /// The node that turned it round.
    pub from: Addr,
    /// Payload bytes.
    pub bytes: usize,
    /// Links passed on the way there.
    pub hops_there: u8,
    /// Links passed on the way back.
    pub hops_back: u8,
    /// From sending to receiving, in nanoseconds.
    pub rtt_ns: u64,
    /// An answer to this capsule was here before: the network duplicated it.
    pub duplicate: bool,
}

/// What comes while capsules are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// An answer.
    Reply(Reply),
    /// This node did not send a capsule on: why, with the remedy.
    Refused(String),
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Capsules sent.
    pub sent: u32,
    /// Capsules answered in time.
    pub received: u32,
    /// Answers beyond the first.
    pub duplicates: u32,
    /// Capsules that ended at this node, as far as it says so.
    pub refused: u32,
    /// Capsules not answered in time, in percent of those sent.
    pub loss_percent: f64,
    /// Round-trip times.
    pub rtt: Times,
}

/// Sends capsules to `to` and calls `each` for every answer, as it comes.
pub fn run(
    node: &mut dyn Attached,
    code: Digest,
    to: Addr,
    options: &Options,
    each: &mut dyn FnMut(&Told),
) -> Result<Summary, Error> {
    let begin = node.now();
    let mut sent: Vec<(Duration, bool)> = Vec::new();
    let mut times = Vec::new();
    let (mut duplicates, mut refused) = (0, 0);
    loop {
        let sending = (sent.len() as u32) < options.count;
        if !sending && sent.iter().filter(|(_, answered)| !answered).count() <= refused as usize {
            break;
        }
        let deadline = if sending {
            begin + options.interval * sent.len() as u32
        } else {
            sent.last().map_or(begin, |(at, _)| *at + options.timeout)
        };
        let token = options.token;
        let reply = receive_until(node, code, deadline, |header, bytes| {
            Reply::parse(bytes, token).map(|reply| Reply { from: header.source, ..reply })
        });
        let reply = match reply {
            Err(Error::Refused(why)) if !sent.is_empty() => {
                refused += 1;
                each(&Told::Refused(why));
                continue;
            }
            reply => reply?,
        };
        let now = node.now();
        match reply {
            Some(mut reply) => {
                let Some((at, answered)) = sent.get_mut(reply.sequence as usize) else { continue };
                let rtt = now.saturating_sub(*at);
                if rtt > options.timeout {
                    continue;
                }
                reply.rtt_ns = rtt.as_nanos() as u64;
                reply.duplicate = core::mem::replace(answered, true);
                if reply.duplicate {
                    duplicates += 1;
                } else {
                    times.push(rtt);
                }
                each(&Told::Reply(reply));
            }
            None if sending => {
                let bytes = encode(options, sent.len() as u32);
                sent.push((now, false));
                let header = header(node, code, to, options.bound);
                node.send(&header, &bytes)?;
            }
            None => break,
        }
    }
    let (count, received) = (sent.len() as u32, times.len() as u32);
    let loss_percent = f64::from(count - received) * 100.0 / f64::from(count.max(1));
    Ok(Summary { sent: count, received, duplicates, refused, loss_percent, rtt: Times::of(&times) })
}

fn encode(options: &Options, sequence: u32) -> Vec<u8> {
    // A pattern behind the window, as ping has had it since 1983.
    let mut bytes: Vec<u8> = (0..options.size.max(SIZE_MIN)).map(|at| at as u8).collect();
    bytes[..SIZE_MIN].fill(0);
    payload::put(&mut bytes, 0, &options.token.to_be_bytes());
    payload::put(&mut bytes, 4, &sequence.to_be_bytes());
    bytes
}

impl Reply {
    fn parse(bytes: &[u8], token: u32) -> Option<Reply> {
        let turned = payload::u8(bytes, 8)? == 1;
        (turned && payload::u32(bytes, 0)? == token).then_some(Reply {
            sequence: payload::u32(bytes, 4)?,
            from: Addr::UNSPECIFIED,
            bytes: bytes.len(),
            hops_there: payload::u8(bytes, 9)?,
            hops_back: payload::u8(bytes, 10)?,
            rtt_ns: 0,
            duplicate: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_turned_capsules_of_this_run_are_answers() {
        let options = Options { token: 7, size: 20, ..Options::default() };
        let mut bytes = encode(&options, 3);
        assert_eq!(bytes.len(), 20);
        assert_eq!(Reply::parse(&bytes, 7), None);
        bytes[8] = 1;
        assert_eq!(Reply::parse(&bytes, 7).map(|reply| reply.sequence), Some(3));
        assert_eq!(Reply::parse(&bytes, 8), None);
        assert_eq!(Reply::parse(&bytes[..10], 7), None);
    }
}
