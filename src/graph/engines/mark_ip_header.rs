//! Where the IP header is.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;

/// `MarkIPHeader`.
pub const CLASS: EngineClass = EngineClass {
    name: "MarkIPHeader",
    doc: "Notes where the IP header of a packet begins. MarkIPHeader([OFFSET])",
    make: Make::element("1/1", |args| Some(Box::new(MarkIpHeader(args.may("OFFSET", 0u16)?)))),
};

struct MarkIpHeader(u16);

impl Engine for MarkIpHeader {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        packet::note_ip(&mut frame, self.0.into());
        if let Some((_, to)) = packet::ends(&frame) {
            frame.notes.next = to.0;
        }
        Pushed::To(0, frame)
    }
}
