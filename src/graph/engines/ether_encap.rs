//! An Ethernet header in front.

use crate::contract::plan::{FusedStep, IP_AT};
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};
use crate::wire::ethernet::{self, Mac};

/// `EtherEncap`.
pub const CLASS: EngineClass = EngineClass {
    name: "EtherEncap",
    doc: "Puts an Ethernet header in front. EtherEncap(ETHERTYPE, SRC, DST)",
    make: Make::element("1/1", |args| {
        let (kind, from, to): (Option<u16>, Option<Mac>, Option<Mac>) =
            (args.must("ETHERTYPE"), args.must("SRC"), args.must("DST"));
        Some(Box::new(EtherEncap { ethertype: kind?, source: from?, destination: to?, tag: None }))
    }),
};

/// The header.
type EtherEncap = ethernet::Repr;

impl Engine for EtherEncap {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        match frame.prepend(ethernet::HEADER).map(|room| self.emit(room)) {
            Some(Ok(_)) => Pushed::To(0, frame),
            _ => Pushed::thrown(frame),
        }
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        let mut header = vec![0; ethernet::HEADER];
        let at = at.prepend(ethernet::HEADER as u16)?;
        if at.first + ethernet::HEADER as u16 > IP_AT {
            return Err(NoForm::Because("it writes over the IP header".to_owned()));
        }
        self.emit(&mut header).map_err(|_| NoForm::Class)?;
        let next = body.to(0, at)?;
        body.steps(vec![FusedStep::Put(at.first, header)], next)
    }
}
