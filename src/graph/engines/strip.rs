//! Headers in front are taken off.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `Strip`.
pub const CLASS: EngineClass = EngineClass {
    name: "Strip",
    doc: "Takes bytes off in front. Strip(LENGTH)",
    make: Make::element("1/1", |args| Some(Box::new(Strip(args.must("LENGTH")?)))),
};

struct Strip(u16);

impl Engine for Strip {
    #[inline]
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        frame.strip(self.0.into());
        Pushed::To(0, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        body.to(0, at.strip(self.0)?)
    }
}
