//! A packet is pulled now and then, and dropped.

use crate::graph::arguments::Span64;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `TimedSink`.
pub const CLASS: EngineClass = EngineClass {
    name: "TimedSink",
    doc: "Pulls a packet each INTERVAL, half a second by default, and drops it. TimedSink([INTERVAL])",
    make: Make::task("1/0", "l/", |args| {
        let interval = args.may("INTERVAL", Span64(500_000_000))?.0;
        if interval == 0 {
            args.say_all(format!("'{}' never rests", args.name), "INTERVAL is more than 0");
            return None;
        }
        Some(Box::new(TimedSink { interval, next: 0 }))
    }),
};

struct TimedSink {
    interval: u64,
    next: u64,
}

impl Engine for TimedSink {
    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        if self.next > cx.now {
            return false;
        }
        self.next = cx.now + self.interval;
        let Some(frame) = cx.pull(0) else { return false };
        cx.throw(frame);
        true
    }

    fn next_run(&self) -> u64 {
        self.next
    }
}
