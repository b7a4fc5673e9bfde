//! Frames for one station.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
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
}
