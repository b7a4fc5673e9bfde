//! The source address of what a router sends itself.

use crate::frame::Frame;
use crate::graph::arguments::Ip4;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::graph::packet;

/// `FixIPSrc`.
pub const CLASS: EngineClass = EngineClass {
    name: "FixIPSrc",
    doc: "Gives packets that ask for it this IPv4 source address, as ICMPError does. FixIPSrc(IPADDR)",
    make: Make::element("1/1", |args| Some(Box::new(FixIpSrc(args.must("IPADDR")?)))),
};

struct FixIpSrc(Ip4);

impl Engine for FixIpSrc {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        if core::mem::take(&mut frame.notes.fix_source) {
            let bytes = packet::from_ip_mut(&mut frame);
            if let Some(source) = bytes.get_mut(12..16) {
                source.copy_from_slice(&self.0.0);
                packet::sum_ip(bytes);
            }
        }
        Pushed::To(0, frame)
    }

    /// What begins in the graph is never there, and nothing else is noted so.
    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        body.to(0, at)
    }
}
