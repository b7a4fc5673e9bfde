//! The first input that has something.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `PrioSched`.
pub const CLASS: EngineClass = EngineClass {
    name: "PrioSched",
    doc: "Takes a packet from the first input that has one",
    make: Make::with("1-/1", "l/l", "x/x", |_| Some(Box::new(PrioSched))),
};

struct PrioSched;

impl Engine for PrioSched {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        (0..cx.inputs()).find_map(|input| cx.pull(input))
    }
}
