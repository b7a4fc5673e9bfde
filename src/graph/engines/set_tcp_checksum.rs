//! The checksum of a TCP header.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;

/// `SetTCPChecksum`.
pub const CLASS: EngineClass = EngineClass {
    name: "SetTCPChecksum",
    doc: "Puts the right checksum into TCP headers; what has none leaves by output 1",
    make: Make::with("1/1-2", "a/ah", "x/x", |args| {
        args.ignore(&["FIXOFF"]);
        Some(Box::new(SetSum))
    }),
};

struct SetSum;

impl Engine for SetSum {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let done = packet::sum_transport(packet::from_ip_mut(&mut frame), packet::protocol::TCP);
        Pushed::To(u16::from(!done), frame)
    }
}
