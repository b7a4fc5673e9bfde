//! The checksum of an IP header.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;

/// `SetIPChecksum`.
pub const CLASS: EngineClass = EngineClass {
    name: "SetIPChecksum",
    doc: "Puts the right checksum into IPv4 headers",
    make: Make::element("1/1", |_| Some(Box::new(SetIpChecksum))),
};

struct SetIpChecksum;

impl Engine for SetIpChecksum {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        packet::sum_ip(packet::from_ip_mut(&mut frame));
        Pushed::To(0, frame)
    }
}
