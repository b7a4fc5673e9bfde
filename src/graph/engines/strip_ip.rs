//! A packet begins behind its IP header.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;

/// `StripIPHeader`.
pub const CLASS: EngineClass = EngineClass {
    name: "StripIPHeader",
    doc: "Takes off the IP header and what is before it",
    make: Make::element("1/1", |_| Some(Box::new(StripIp))),
};

struct StripIp;

impl Engine for StripIp {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let length = packet::ip(&frame).map_or(0, |ip| ip.header_len());
        let at = packet::ip_at(&frame);
        frame.strip(at + length);
        Pushed::To(0, frame)
    }
}
