//! Outputs in turn.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `RoundRobinSwitch`.
pub const CLASS: EngineClass = EngineClass {
    name: "RoundRobinSwitch",
    doc: "Sends each packet to the next output",
    make: Make::with("1/-", "h/h", "x/x", |_| Some(Box::<RoundRobinSwitch>::default())),
};

#[derive(Default)]
struct RoundRobinSwitch(u16);

impl Engine for RoundRobinSwitch {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let output = self.0;
        self.0 = if output + 1 >= cx.outputs() { 0 } else { output + 1 };
        Pushed::To(output, frame)
    }
}
