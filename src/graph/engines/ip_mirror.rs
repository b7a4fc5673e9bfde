//! IP addresses and ports change places.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::packet::{self, FlowEnds};

/// `IPMirror`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPMirror",
    doc: "Exchanges source and destination of IPv4 packets, with their ports",
    make: Make::element("1/1", |_| Some(Box::new(IpMirror))),
};

struct IpMirror;

impl Engine for IpMirror {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let ends = FlowEnds::of(packet::from_ip(&frame));
        let bytes = packet::from_ip_mut(&mut frame);
        match ends {
            Some(ends) => ends.reversed().write(bytes),
            None => {
                if let Some((from, to)) = bytes.get_mut(12..20).map(|both| both.split_at_mut(4)) {
                    from.swap_with_slice(to);
                }
            }
        }
        if let Some((_, to)) = packet::ends(&frame) {
            frame.notes.next = to.0;
        }
        Pushed::To(0, frame)
    }
}
