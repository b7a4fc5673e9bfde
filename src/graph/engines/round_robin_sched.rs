//! Inputs in turn.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `RoundRobinSched`.
pub const CLASS: EngineClass = EngineClass {
    name: "RoundRobinSched",
    doc: "Takes packets from its inputs in turn",
    make: Make::with("1-/1", "l/l", "x/x", |_| Some(Box::<RoundRobinSched>::default())),
};

#[derive(Default)]
struct RoundRobinSched(u16);

impl Engine for RoundRobinSched {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        let inputs = cx.inputs();
        for _ in 0..inputs {
            let input = self.0 % inputs;
            self.0 = (input + 1) % inputs;
            if let Some(frame) = cx.pull(input) {
                return Some(frame);
            }
        }
        None
    }
}
