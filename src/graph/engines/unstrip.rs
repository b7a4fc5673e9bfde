//! Headers that were taken off are put back.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `Unstrip`.
pub const CLASS: EngineClass = EngineClass {
    name: "Unstrip",
    doc: "Puts back bytes in front that were taken off. Unstrip(LENGTH)",
    make: Make::element("1/1", |args| Some(Box::new(Unstrip(args.must("LENGTH")?)))),
};

struct Unstrip(u16);

impl Engine for Unstrip {
    #[inline]
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        match frame.prepend(self.0.into()) {
            Some(_) => Pushed::To(0, frame),
            None => Pushed::thrown(frame),
        }
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        body.to(0, at.prepend(self.0)?)
    }
}
