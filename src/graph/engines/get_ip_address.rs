//! The next hop is an address in the packet.

use crate::contract::plan::{FusedNext, IP_AT};
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `GetIPAddress`.
pub const CLASS: EngineClass = EngineClass {
    name: "GetIPAddress",
    doc: "Notes the IPv4 address at a place of the packet as where it goes next. GetIPAddress(OFFSET)",
    make: Make::element("1/1", |args| {
        args.ignore(&["ANNO"]);
        Some(Box::new(GetIpAddress(args.must("OFFSET")?)))
    }),
};

struct GetIpAddress(u16);

impl Engine for GetIpAddress {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let there = frame.bytes().get(usize::from(self.0)..).and_then(|bytes| bytes.first_chunk::<4>().copied());
        frame.notes.next = there.unwrap_or_default();
        Pushed::To(0, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        let place = at.first.saturating_add(self.0);
        let next = match place.checked_sub(IP_AT) {
            Some(16) => at.receiver(),
            Some(12) if at.is_readdressed => FusedNext::Flow(0),
            Some(inner) if inner <= 12 && !at.is_readdressed => FusedNext::Frame(place),
            _ => return Err(NoForm::Because(format!("it looks at byte {place} of the frame, where no address is"))),
        };
        body.to(0, FusedAt { next: Some(next), ..at })
    }
}
