//! Packets of one number.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `CheckPaint`.
pub const CLASS: EngineClass = EngineClass {
    name: "CheckPaint",
    doc: "Passes packets with a number; others leave by output 1. CheckPaint(COLOR)",
    make: Make::with("1/1-2", "a/ah", "x/x", |args| {
        args.ignore(&["ANNO"]);
        Some(Box::new(CheckPaint(args.must("COLOR")?)))
    }),
};

struct CheckPaint(u8);

impl Engine for CheckPaint {
    #[inline]
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        Pushed::To(u16::from(frame.notes.paint != self.0), frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        body.to(u16::from(at.paint != self.0), at)
    }
}
