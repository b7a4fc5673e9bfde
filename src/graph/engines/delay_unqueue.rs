//! Packets are given on when they have waited for a time.

use crate::frame::Frame;
use crate::graph::arguments::Span64;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `DelayUnqueue`.
pub const CLASS: EngineClass = EngineClass {
    name: "DelayUnqueue",
    doc: "Gives packets on when so much time is over since they came in. DelayUnqueue(DELAY)",
    make: Make::task("1/1", "l/h", |args| {
        Some(Box::new(Delay { delay: args.must::<Span64>("DELAY")?.0, next: None, wake: 0 }))
    }),
};

struct Delay {
    delay: u64,
    next: Option<Frame>,
    wake: u64,
}

impl Engine for Delay {
    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        if self.next.is_none() {
            self.next = cx.pull(0);
        }
        self.wake = self.next.as_ref().map_or(0, |frame| frame.notes.at + self.delay);
        if self.wake > cx.now {
            return false;
        }
        let Some(frame) = self.next.take() else { return false };
        cx.emit(0, frame);
        true
    }

    fn next_run(&self) -> u64 {
        self.wake
    }

    fn held(&self) -> u64 {
        self.next.is_some().into()
    }

    fn empty(&mut self, give: &mut dyn FnMut(Frame)) {
        self.next.take().into_iter().for_each(give);
    }
}
