//! The next hop is one address.

use crate::frame::Frame;
use crate::graph::arguments::Ip4;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `SetIPAddress`.
pub const CLASS: EngineClass = EngineClass {
    name: "SetIPAddress",
    doc: "Notes an IPv4 address as where packets go next. SetIPAddress(ADDRESS)",
    make: Make::element("1/1", |args| Some(Box::new(SetIpAddress(args.must("ADDRESS")?)))),
};

struct SetIpAddress(Ip4);

impl Engine for SetIpAddress {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        frame.notes.next = self.0.0;
        Pushed::To(0, frame)
    }
}
