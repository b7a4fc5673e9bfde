//! An output for each number.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `PaintSwitch`.
pub const CLASS: EngineClass = EngineClass {
    name: "PaintSwitch",
    doc: "Sends a packet to the output of its number; 255 to all",
    make: Make::with("1/-", "h/h", "x/x", |args| {
        args.ignore(&["ANNO"]);
        Some(Box::new(PaintSwitch))
    }),
};

struct PaintSwitch;

impl Engine for PaintSwitch {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let paint = u16::from(frame.notes.paint);
        let Some(last) = cx.outputs().checked_sub(1).filter(|_| paint == 255) else { return Pushed::To(paint, frame) };
        for output in 0..last {
            let copy = cx.copy(&frame);
            cx.emit(output, copy);
        }
        Pushed::To(last, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        if at.paint == 255 && body.outputs() > 1 {
            return Err(NoForm::Because("packets of paint 255 are copied, and the kernel copies none".to_owned()));
        }
        body.to(if at.paint == 255 { 0 } else { at.paint.into() }, at)
    }
}
