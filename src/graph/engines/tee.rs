//! Each packet leaves by all outputs.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `Tee`.
pub const CLASS: EngineClass = EngineClass {
    name: "Tee",
    doc: "Sends a copy of each packet to each output. Tee([N])",
    make: Make::with("1/-", "h/h", "x/x", |args| {
        let outputs = args.ports.1;
        let wanted = args.may("N", outputs)?;
        if wanted != outputs {
            args.say_all(format!("'{}' has {outputs} outputs, not {wanted}", args.name), "N is their number");
            return None;
        }
        Some(Box::new(Tee))
    }),
};

struct Tee;

impl Engine for Tee {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let Some(last) = cx.outputs().checked_sub(1) else { return Pushed::thrown(frame) };
        for output in 0..last {
            let copy = cx.copy(&frame);
            cx.emit(output, copy);
        }
        Pushed::To(last, frame)
    }
}
