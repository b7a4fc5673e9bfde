//! A packet begins with its network header.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;

/// `StripToNetworkHeader`.
pub const CLASS: EngineClass = EngineClass {
    name: "StripToNetworkHeader",
    doc: "Takes off what is before the IP header that was noted",
    make: Make::element("1/1", |_| Some(Box::new(StripToNetwork))),
};

struct StripToNetwork;

impl Engine for StripToNetwork {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let at = packet::ip_at(&frame);
        frame.strip(at);
        Pushed::To(0, frame)
    }
}
