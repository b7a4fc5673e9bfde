//! A packet now and then.

use crate::graph::arguments::{Data, Most, Span64};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};
use crate::graph::source::{PacketSource, RANDOM};

/// `TimedSource`.
pub const CLASS: EngineClass = EngineClass {
    name: "TimedSource",
    doc: "Makes a packet each INTERVAL. TimedSource([INTERVAL], [DATA], [LIMIT n])",
    make: Make::task("0/1", "/h", |args| {
        let (interval, data) = (args.may("INTERVAL", Span64(500_000_000))?, args.may("DATA", Data(RANDOM.into()))?);
        let (limit, active) = (args.may("LIMIT", Most(u64::MAX))?, args.key("ACTIVE", true)?);
        args.ignore(&["STOP", "HEADROOM"]);
        let interval = interval.0.max(1);
        Some(Box::new(TimedSource { data: PacketSource::new(data, 0), interval, limit: limit.0, active, next: 0 }))
    }),
};

struct TimedSource {
    data: PacketSource,
    interval: u64,
    limit: u64,
    active: bool,
    next: u64,
}

impl Engine for TimedSource {
    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        self.next = cx.now + self.interval;
        let frame = self.data.make(cx);
        cx.emit(0, frame);
        true
    }

    fn next_run(&self) -> u64 {
        if self.active && self.data.count < self.limit { self.next } else { u64::MAX }
    }

    fn read(&self, handler: &str) -> Option<String> {
        self.data.read(handler, self.active)
    }

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        self.data.write(handler, value, &mut self.active)
    }
}
