//! What came for all stations goes no further (RFC 1812 §5.3.4).

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `DropBroadcasts`.
pub const CLASS: EngineClass = EngineClass {
    name: "DropBroadcasts",
    doc: "Drops packets that came in as broadcast or multicast of their link",
    make: Make::element("1/1", |_| Some(Box::new(DropBroadcasts))),
};

struct DropBroadcasts;

impl Engine for DropBroadcasts {
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        if frame.notes.group { Pushed::thrown(frame) } else { Pushed::To(0, frame) }
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if at.group { body.drop() } else { body.to(0, at) }
    }
}
