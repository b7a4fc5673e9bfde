//! So many packets a second go one way, and the others another one.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::rate::Rate;

/// `RatedSplitter`.
pub const CLASS: EngineClass = EngineClass {
    name: "RatedSplitter",
    doc: "Sends RATE packets a second to output 0, and what comes beyond to output 1. RatedSplitter(RATE). Handler: rate",
    make: Make::with("1/2", "h/h", "x/x", |args| {
        args.ignore(&["BURST_DURATION", "BURST_SIZE"]);
        Some(Box::new(RatedSplitter(Rate::new(args.must::<u32>("RATE")?.into()))))
    }),
};

struct RatedSplitter(Rate);

impl Engine for RatedSplitter {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        if self.0.closed_until(cx.now).is_some() {
            return Pushed::To(1, frame);
        }
        self.0.spend(cx.now, 1);
        Pushed::To(0, frame)
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "rate").then(|| self.0.per_second().to_string())
    }
}
