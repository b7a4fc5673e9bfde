//! When a packet came: now.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `SetTimestamp`.
pub const CLASS: EngineClass = EngineClass {
    name: "SetTimestamp",
    doc: "Has packets count as come now, for whoever measures how long they wait (DelayUnqueue)",
    make: Make::element("1/1", |_| Some(Box::new(SetTimestamp))),
};

struct SetTimestamp;

impl Engine for SetTimestamp {
    fn push(&mut self, _: u16, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        frame.notes.at = cx.now;
        Pushed::To(0, frame)
    }
}
