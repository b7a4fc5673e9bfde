//! The classes of engines, and how they are named in specifications of channels.
//!
//! A new engine is one file in `engines` and one line in [`CLASSES`]: nothing else in the node knows an engine's name.
//! `engines/tests.rs` has one more.

use super::engine::{Engine, WAYS};
use super::engines::*;
use crate::nodeos::interface::Error;
use core::ops::RangeInclusive;

/// What engines of one name have in common.
pub struct EngineClass {
    /// As specifications of channels say it.
    pub name: &'static str,
    /// The number in parentheses behind it, if there is one: which are possible.
    pub argument: Option<RangeInclusive<usize>>,
    /// Bytes of memory that one takes at most where its packets go [`OUTWARD`](super::engine::OUTWARD), and
    /// [`INWARD`](super::engine::INWARD). Its channel's domain is charged them as long as there is the channel.
    pub bytes: [u64; WAYS],
    /// Makes one, with that number or 0.
    pub make: fn(usize) -> Box<dyn Engine>,
}

/// All there are.
pub const CLASSES: &[&EngineClass] = &[
    &checksum::CLASS,
    &compress::CLASS,
    &fragment::CLASS,
    &xor::CLASS,
    #[cfg(test)]
    &tests::MIRROR,
];

/// Makes the engine that a word names, as `xor(3)`.
pub fn make(word: &str) -> Result<(&'static EngineClass, Box<dyn Engine>), Error> {
    let (name, argument) = match word.split_once('(') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').and_then(|digits| digits.parse().ok()))),
        None => (word, None),
    };
    let class = CLASSES.iter().find(|class| class.name == name).ok_or(Error::Unsupported)?;
    let argument = match (&class.argument, argument) {
        (None, None) => 0,
        (Some(possible), Some(Some(number))) if possible.contains(&number) => number,
        _ => return Err(Error::Invalid),
    };
    Ok((class, (class.make)(argument)))
}
