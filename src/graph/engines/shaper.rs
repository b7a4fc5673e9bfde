//! So many packets a second are given to whoever pulls.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};
use crate::graph::rate::Rate;

/// `Shaper`.
pub const CLASS: EngineClass = EngineClass {
    name: "Shaper",
    doc: "Gives at most RATE packets a second to who pulls. Shaper(RATE). Handler: rate",
    make: Make::with("1/1", "l/l", "x/x", |args| {
        let rate = args.must::<u32>("RATE")?.into();
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
        self.0.spend(cx.now, 1);
        Some(frame)
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "rate").then(|| self.0.per_second().to_string())
    }
}
