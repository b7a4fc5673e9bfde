//! Packets between the engines of a graph, and what has become of those that came out or did not.

use crate::core::reason::Reason;
use crate::frame::Frame;
use std::collections::VecDeque;

/// Where a packet goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// To this input of an engine.
    Engine(u8, u8),
    /// Out of the graph.
    Exit,
}

/// Packets on their way through a graph, and what has become of them: memory that graphs share.
#[derive(Default)]
pub struct Scratch {
    pub(super) between: VecDeque<(u8, u8, Frame)>,
    /// Those that have come out.
    pub out: Vec<Frame>,
    /// Those that have not, and why.
    pub dropped: Vec<(Frame, Reason)>,
    /// How many that engines had kept have gone, and why.
    pub lost: Vec<(Reason, u64)>,
}

impl Scratch {
    #[inline]
    pub(super) fn go(&mut self, hop: Hop, frame: Frame) {
        match hop {
            Hop::Engine(engine, input) => self.between.push_back((engine, input, frame)),
            Hop::Exit => self.out.push(frame),
        }
    }
}
