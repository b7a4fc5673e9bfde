//! Ethernet addresses change places.

use crate::contract::plan::{FusedStep, IP_AT};
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `EtherMirror`.
pub const CLASS: EngineClass = EngineClass {
    name: "EtherMirror",
    doc: "Exchanges source and destination of Ethernet frames",
    make: Make::element("1/1", |_| Some(Box::new(EtherMirror))),
};

struct EtherMirror;

impl Engine for EtherMirror {
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        if let Some((to, from)) = frame.bytes_mut().get_mut(..12).map(|both| both.split_at_mut(6)) {
            to.swap_with_slice(from);
        }
        Pushed::To(0, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if at.first + 12 > IP_AT {
            return Err(NoForm::Because("it writes over the IP header".to_owned()));
        }
        let next = body.to(0, at)?;
        body.steps(vec![FusedStep::Mirror(at.first)], next)
    }
}
