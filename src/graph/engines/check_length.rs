//! Packets that are not too long.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `CheckLength`.
pub const CLASS: EngineClass = EngineClass {
    name: "CheckLength",
    doc: "Passes packets of at most so many bytes; others leave by output 1. CheckLength(LENGTH)",
    make: Make::with("1/1-2", "a/ah", "x/x", |args| {
        args.ignore(&["EXTRA_LENGTH"]);
        Some(Box::new(CheckLength(args.must("LENGTH")?)))
    }),
};

struct CheckLength(u32);

impl Engine for CheckLength {
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        Pushed::To(u16::from(frame.len() > self.0 as usize), frame)
    }
}
