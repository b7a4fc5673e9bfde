//! Frames for one station.

use crate::contract::plan::IP_AT;
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::wire::ethernet::{FrameView, Mac};

/// `HostEtherFilter`.
pub const CLASS: EngineClass = EngineClass {
    name: "HostEtherFilter",
    doc: "Passes Ethernet frames for an address, for groups and for all; others leave by output 1. \
          HostEtherFilter(ADDRESS, [DROP_OWN], [DROP_OTHER])",
    make: Make::with("1/1-2", "a/ah", "x/x", |args| {
        let (mac, own, other) = (args.must("ADDRESS"), args.may("DROP_OWN", false)?, args.may("DROP_OTHER", true)?);
        args.ignore(&["OFFSET"]);
        Some(Box::new(HostEtherFilter { mac: mac?, own, other }))
    }),
};

struct HostEtherFilter {
    mac: Mac,
    own: bool,
    other: bool,
}

impl Engine for HostEtherFilter {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        let Some((to, from)) = FrameView::new_checked(frame.bytes()).ok().map(|it| (it.destination(), it.source()))
        else {
            return Pushed::To(1, frame);
        };
        frame.notes.group = to.is_group();
        let foreign = self.other && !to.is_group() && to != self.mac;
        Pushed::To(u16::from(foreign || self.own && from == self.mac), frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if self.own {
            return Err(NoForm::Because("with DROP_OWN it has none".to_owned()));
        }
        if at.first + 12 > IP_AT {
            return Err(NoForm::Because(format!(
                "no link addresses are {} bytes behind the frame's beginning",
                at.first
            )));
        }
        let (group, one) = (body.to(0, FusedAt { group: true, ..at })?, body.to(0, FusedAt { group: false, ..at })?);
        let one = if self.other {
            let foreign = body.to(1, FusedAt { group: false, ..at })?;
            body.bytes_are(at.first, (&self.mac.0, &[0xff; 6]), one, foreign)?
        } else {
            one
        };
        body.bytes_are(at.first, (&[1], &[1]), group, one)
    }
}
