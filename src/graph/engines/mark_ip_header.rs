//! Where the IP header is.

use crate::contract::plan::{IP_AT, PLAIN};
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::graph::packet;

/// `MarkIPHeader`.
pub const CLASS: EngineClass = EngineClass {
    name: "MarkIPHeader",
    doc: "Notes where the IP header of a packet begins. MarkIPHeader([OFFSET])",
    make: Make::element("1/1", |args| Some(Box::new(MarkIpHeader(args.may("OFFSET", 0u16)?)))),
};

struct MarkIpHeader(u16);

impl Engine for MarkIpHeader {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        packet::note_ip(&mut frame, self.0.into());
        if let Some((_, to)) = packet::ends(&frame) {
            frame.notes.next = to.0;
        }
        Pushed::To(0, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        let network = at.first.checked_add(self.0).filter(|network| *network < PLAIN);
        let network = network.ok_or_else(|| NoForm::Because(format!("an IP header {} bytes on", self.0)))?;
        // Of another header nobody looks there for where the packet goes.
        let next = if network == IP_AT { Some(at.receiver()) } else { at.next };
        body.to(0, FusedAt { network: Some(network), next, ..at })
    }
}
