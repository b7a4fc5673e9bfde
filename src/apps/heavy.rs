//! The host sides of `apps/heavy.c`: traffic that nodes count, and the query of a node's list.

use super::attached::{Attached, Error, header, receive_until};
use super::payload;
use crate::wire::{Addr, Digest};
use core::time::Duration;
use serde::Serialize;

/// Sources in an answer.
pub const TOP: usize = 8;

/// Bytes of a payload; data may follow.
pub const PAYLOAD: usize = 32 + TOP * ENTRY;

/// Bytes of one source in it.
const ENTRY: usize = 32;

const DATA: u8 = 1;
const QUERY: u8 = 2;
const ANSWER: u8 = 3;

/// A node's list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// The node's address.
    pub node: Addr,
    /// Its name.
    pub name: String,
    /// Capsules it has counted.
    pub total: u64,
    /// The heaviest sources first, at most [`TOP`].
    pub top: Vec<Source>,
}

/// A source and what it sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Its address.
    pub source: Addr,
    /// It sent at most so many capsules.
    pub count: u64,
    /// And at least so many: the count less the error of the sketch.
    pub at_least: u64,
}

/// Sends one capsule to be counted by every node on the way to `to`, and delivered there to
/// application `port` (0: to nobody).
pub fn send(node: &mut dyn Attached, code: Digest, to: Addr, port: u16, bound: u32) -> Result<(), Error> {
    let mut bytes = vec![0; PAYLOAD];
    bytes[0] = DATA;
    let mut header = header(node, code, to, bound);
    header.app_port = port;
    node.send(&header, &bytes)
}

/// Asks the node at `to` for its list, at most `tries` times; nothing if no answer comes within
/// `timeout` each time. `request` distinguishes this query from others.
pub fn query(
    node: &mut dyn Attached,
    code: Digest,
    to: Addr,
    request: u32,
    tries: u32,
    timeout: Duration,
) -> Result<Option<Answer>, Error> {
    let mut bytes = vec![0; PAYLOAD];
    bytes[0] = QUERY;
    payload::put(&mut bytes, 4, &request.to_be_bytes());
    for _ in 0..tries.max(1) {
        let header = header(node, code, to, 255);
        node.send(&header, &bytes)?;
        let until = node.now() + timeout;
        let answer = receive_until(node, code, until, |header, bytes| parse(header.source, bytes, request))?;
        if answer.is_some() {
            return Ok(answer);
        }
    }
    Ok(None)
}

fn parse(node: Addr, bytes: &[u8], request: u32) -> Option<Answer> {
    if bytes.len() < PAYLOAD || payload::u8(bytes, 0)? != ANSWER || payload::u32(bytes, 4)? != request {
        return None;
    }
    let entry = |index| {
        let at = 32 + index * ENTRY;
        let (count, error) = (payload::u64(bytes, at + 16)?, payload::u64(bytes, at + 24)?);
        let source = payload::addr(bytes, at)?;
        (count > 0).then_some(Source { source, count, at_least: count.saturating_sub(error) })
    };
    Some(Answer {
        node,
        name: payload::name(bytes, 16)?,
        total: payload::u64(bytes, 8)?,
        top: (0..TOP).filter_map(entry).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_lists_the_sources_that_have_a_count() {
        let mut bytes = vec![0; PAYLOAD];
        bytes[0] = ANSWER;
        payload::put(&mut bytes, 8, &100u64.to_be_bytes());
        payload::put(&mut bytes, 16, b"n3");
        payload::put(&mut bytes, 32, &Addr::v4([10, 0, 0, 9]).0);
        payload::put(&mut bytes, 48, &70u64.to_be_bytes());
        payload::put(&mut bytes, 56, &20u64.to_be_bytes());
        let answer = parse(Addr::UNSPECIFIED, &bytes, 0).unwrap();
        assert_eq!((answer.name.as_str(), answer.total), ("n3", 100));
        let source = Source { source: Addr::v4([10, 0, 0, 9]), count: 70, at_least: 50 };
        assert_eq!(answer.top, [source]);
        assert_eq!(parse(Addr::UNSPECIFIED, &bytes, 1), None);
        assert_eq!(parse(Addr::UNSPECIFIED, &bytes[..PAYLOAD - 1], 0), None);
    }
}
