//! Packets are given on when they have waited for a time.

use crate::frame::Frame;
use crate::graph::arguments::Span64;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `DelayShaper`.
pub const CLASS: EngineClass = EngineClass {
    name: "DelayShaper",
    doc: "Gives packets on when so much time is over since they came in. DelayShaper(DELAY)",
    make: Make::with("1/1", "l/l", "x/x", |args| {
        Some(Box::new(Delay { delay: args.must::<Span64>("DELAY")?.0, next: None }))
    }),
};

struct Delay {
    delay: u64,
    next: Option<Frame>,
}

impl Engine for Delay {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        if self.next.is_none() {
            self.next = cx.pull(0);
        }
        let due = self.next.as_ref()?.notes.at + self.delay;
        if due > cx.now {
            cx.ask_again(due);
            return None;
        }
        self.next.take()
    }

    fn held(&self) -> u64 {
        self.next.is_some().into()
    }

    fn empty(&mut self, give: &mut dyn FnMut(Frame)) {
        self.next.take().into_iter().for_each(give);
    }
}
