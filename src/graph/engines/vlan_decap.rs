//! The tag of a VLAN is taken off.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `VLANDecap`.
pub const CLASS: EngineClass = EngineClass {
    name: "VLANDecap",
    doc: "Takes the tag of a VLAN off Ethernet frames, if they have one",
    make: Make::element("1/1", |args| {
        args.ignore(&["ANNO", "ETHERTYPE"]);
        Some(Box::new(VlanDecap))
    }),
};

struct VlanDecap;

impl Engine for VlanDecap {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        if frame.bytes().get(12..14) == Some(&[0x81, 0]) && frame.len() >= 18 {
            frame.bytes_mut().copy_within(0..12, 4);
            frame.strip(4);
        }
        Pushed::To(0, frame)
    }
}
