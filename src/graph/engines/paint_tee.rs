//! Copies of packets of one number.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `PaintTee`.
pub const CLASS: EngineClass = EngineClass {
    name: "PaintTee",
    doc: "Passes all packets; copies of those with a number leave by output 1. PaintTee(COLOR)",
    make: Make::with("1/2", "a/ah", "x/x", |args| {
        args.ignore(&["ANNO"]);
        Some(Box::new(PaintTee(args.must("COLOR")?)))
    }),
};

struct PaintTee(u8);

impl Engine for PaintTee {
    #[inline]
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        if frame.notes.paint == self.0 {
            let copy = cx.copy(&frame);
            cx.emit(1, copy);
        }
        Pushed::To(0, frame)
    }
}
