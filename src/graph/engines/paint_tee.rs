//! Copies of packets of one number.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

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

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if at.paint == self.0 {
            return Err(NoForm::Because(format!("packets of paint {} are copied", self.0)));
        }
        body.to(0, at)
    }
}
