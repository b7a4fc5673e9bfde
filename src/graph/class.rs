//! The class of an engine: what all of one name have in common. Example: `xor(3)` is of the class `xor`, with the number 3.
//!
//! Engines of channels ([`Make::Module`]) stand in specifications of channels. All others ([`Make::Element`]) stand in graphs, which are
//! written in Click's language: their names, arguments and ports are those of Click's elements, so that its users know them.

use super::arguments::Arguments;
use super::engine::{Engine, WAYS};
use core::ops::RangeInclusive;

/// What engines of one name have in common.
pub struct EngineClass {
    /// Its name.
    pub name: &'static str,
    /// What it does: a sentence, and then its arguments and handlers, each in a line.
    pub doc: &'static str,
    /// How one is made.
    pub make: Make,
}

/// How an engine is made.
pub enum Make {
    /// One of a channel.
    Module {
        /// The number in parentheses behind its name, if there is one: which are possible.
        argument: Option<RangeInclusive<usize>>,
        /// Bytes of memory that one takes at most where its packets go [`OUTWARD`](super::engine::OUTWARD), and
        /// [`INWARD`](super::engine::INWARD). Its channel's domain is charged them as long as there is the channel.
        bytes: [u64; WAYS],
        /// Makes one, with that number or 0.
        make: fn(usize) -> Box<dyn Engine>,
    },
    /// One of a graph.
    Element {
        /// Its ports, in Click's codes: `1/1`, how items go through them, `a/a`, and from which to which, `x/x`.
        codes: [&'static str; 3],
        /// Whether it has turns ([`Engine::run`]).
        is_task: bool,
        /// Whether its ports need not be connected.
        is_loose: bool,
        /// Makes one of its arguments; nothing if one of them is wrong, which has been said then.
        make: fn(&mut Arguments<'_>) -> Option<Box<dyn Engine>>,
    },
    /// A line of the text that is no engine: what it says has been read before any is made.
    Remark,
}

impl Make {
    /// One of a graph, whose ports can push and pull.
    pub const fn element(ports: &'static str, make: fn(&mut Arguments<'_>) -> Option<Box<dyn Engine>>) -> Make {
        Make::with(ports, "a/a", "x/x", make)
    }

    /// The same with codes of how packets go.
    pub const fn with(
        ports: &'static str,
        processing: &'static str,
        flow: &'static str,
        make: fn(&mut Arguments<'_>) -> Option<Box<dyn Engine>>,
    ) -> Make {
        Make::Element { codes: [ports, processing, flow], is_task: false, is_loose: false, make }
    }

    /// One that has turns.
    pub const fn task(
        ports: &'static str,
        processing: &'static str,
        make: fn(&mut Arguments<'_>) -> Option<Box<dyn Engine>>,
    ) -> Make {
        Make::Element { codes: [ports, processing, "x/x"], is_task: true, is_loose: false, make }
    }
}
