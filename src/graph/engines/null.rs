//! Packets pass unchanged.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `Null`.
pub const CLASS: EngineClass = EngineClass {
    name: "Null",
    doc: "Passes packets unchanged",
    make: Make::element("1/1", |args| {
        // Align(4, 0) is an engine like this one: buffers of the node are aligned.
        args.rest();
        Some(Box::new(Null))
    }),
};

struct Null;

impl Engine for Null {
    #[inline]
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        Pushed::To(0, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        body.to(0, at)
    }
}
