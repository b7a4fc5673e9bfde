//! The next hop is an address in the packet.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `GetIPAddress`.
pub const CLASS: EngineClass = EngineClass {
    name: "GetIPAddress",
    doc: "Notes the IPv4 address at a place of the packet as where it goes next. GetIPAddress(OFFSET)",
    make: Make::element("1/1", |args| {
        args.ignore(&["ANNO"]);
        Some(Box::new(GetIpAddress(args.must("OFFSET")?)))
    }),
};

struct GetIpAddress(u16);

impl Engine for GetIpAddress {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let there = frame.bytes().get(usize::from(self.0)..).and_then(|bytes| bytes.first_chunk::<4>().copied());
        frame.notes.next = there.unwrap_or_default();
        Pushed::To(0, frame)
    }
}
