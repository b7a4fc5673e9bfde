//! UDP headers that are right.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet;

/// `CheckUDPHeader`.
pub const CLASS: EngineClass = EngineClass {
    name: "CheckUDPHeader",
    doc: "Passes packets whose UDP header and checksum are right; others leave by output 1. Handler: drops",
    make: Make::with("1/1-2", "a/ah", "x/x", |args| {
        args.ignore(&["VERBOSE", "DETAILS"]);
        Some(Box::<Check>::default())
    }),
};

/// Bytes of a header.
const LEAST: usize = 8;

#[derive(Default)]
struct Check(u64);

impl Check {
    fn is_right(frame: &Frame) -> bool {
        let Some(ip) = packet::ip(frame).filter(|ip| ip.protocol() == packet::protocol::UDP) else { return false };
        let (segment, ends) = (ip.payload(), (ip.source(), ip.destination()));
        if ip.is_fragment() || segment.len() < LEAST {
            return ip.is_fragment();
        }
        let declared = usize::from(u16::from_be_bytes([segment[4], segment[5]]));
        let Some(datagram) = segment.get(..declared).filter(|it| it.len() >= LEAST) else { return false };
        [datagram[6], datagram[7]] == [0, 0]
            || packet::transport_sum(datagram, ends, packet::protocol::UDP).finish() == 0
    }
}

impl Engine for Check {
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let right = Check::is_right(&frame);
        self.0 += u64::from(!right);
        Pushed::To(u16::from(!right), frame)
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "drops").then(|| self.0.to_string())
    }
}
