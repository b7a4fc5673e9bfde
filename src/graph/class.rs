//! The class of an engine: what all of one name have in common. Example: `xor(3)` is of the class `xor`, with the number 3.

use super::engine::{Engine, WAYS};
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
