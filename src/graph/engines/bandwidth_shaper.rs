//! So many bytes a second are given to whoever pulls.

use crate::frame::Frame;
use crate::graph::arguments::BytesPerSecond;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};
use crate::graph::rate::Rate;

/// `BandwidthShaper`.
pub const CLASS: EngineClass = EngineClass {
    name: "BandwidthShaper",
    doc: "Gives at most RATE bytes a second to who pulls. BandwidthShaper(RATE). Handler: rate",
    make: Make::with("1/1", "l/l", "x/x", |args| {
        let rate = args.must::<BytesPerSecond>("RATE")?.0;
        Some(Box::new(Shaper(Rate::new(rate))))
    }),
};

struct Shaper(Rate);

impl Engine for Shaper {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        if let Some(at) = self.0.closed_until(cx.now) {
            cx.ask_again(at);
            return None;
        }
        let frame = cx.pull(0)?;
        self.0.spend(cx.now, frame.len() as u64);
        Some(frame)
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "rate").then(|| self.0.per_second().to_string())
    }
}
