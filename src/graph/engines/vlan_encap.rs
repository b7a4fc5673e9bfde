//! A tag of a VLAN (IEEE 802.1Q).

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::wire::ethernet::{self, Mac};

/// `EtherVLANEncap`.
pub const CLASS: EngineClass = EngineClass {
    name: "EtherVLANEncap",
    doc: "Puts an Ethernet header with a tag in front. EtherVLANEncap(ETHERTYPE, SRC, DST, VLAN, [VLAN_PCP])",
    make: Make::element("1/1", |args| {
        let (kind, from, to): (Option<u16>, Option<Mac>, Option<Mac>) =
            (args.must("ETHERTYPE"), args.must("SRC"), args.must("DST"));
        let (vlan, priority): (Option<u16>, u16) = (args.must("VLAN_TCI"), args.may("VLAN_PCP", 0u16)?);
        let tag = Some(vlan? & 0x0fff | priority << 13);
        Some(Box::new(VlanEncap(ethernet::Repr { ethertype: kind?, source: from?, destination: to?, tag })))
    }),
};

struct VlanEncap(ethernet::Repr);

impl Engine for VlanEncap {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        match frame.prepend(self.0.header_len()).map(|room| self.0.emit(room)) {
            Some(Ok(_)) => Pushed::To(0, frame),
            _ => Pushed::thrown(frame),
        }
    }
}
