//! What never gives a packet, and drops those that come.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `Idle`.
pub const CLASS: EngineClass = EngineClass {
    name: "Idle",
    doc: "Never gives a packet, and drops those that come",
    make: Make::Element {
        codes: ["-/-", "a/a", "x/y"],
        is_task: false,
        is_loose: true,
        make: |_| Some(Box::new(Idle)),
    },
};

struct Idle;

impl Engine for Idle {
    fn pull(&mut self, _: u16, _: &mut GraphCx<'_>) -> Option<Frame> {
        None
    }
}
