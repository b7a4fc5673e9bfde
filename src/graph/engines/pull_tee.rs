//! Copies of packets that are pulled.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `PullTee`.
pub const CLASS: EngineClass = EngineClass {
    name: "PullTee",
    doc: "Gives each packet that is pulled, and pushes copies of it to all further outputs. PullTee([N])",
    make: Make::with("1/1-", "l/lh", "x/x", |args| {
        args.may("N", 0u16)?;
        Some(Box::new(PullTee))
    }),
};

struct PullTee;

impl Engine for PullTee {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        let frame = cx.pull(0)?;
        for output in 1..cx.outputs() {
            let copy = cx.copy(&frame);
            cx.emit(output, copy);
        }
        Some(frame)
    }
}
