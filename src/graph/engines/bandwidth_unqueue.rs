//! What is pulled here is pushed on, so many bytes a second.

use crate::graph::arguments::BytesPerSecond;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};
use crate::graph::rate::Rate;

/// `BandwidthRatedUnqueue`.
pub const CLASS: EngineClass = EngineClass {
    name: "BandwidthRatedUnqueue",
    doc: "Pulls packets and pushes them on, at most RATE bytes a second. BandwidthRatedUnqueue(RATE, \
          [BURST_DURATION]). Handlers: rate, count",
    make: Make::task("1/1", "l/h", |args| {
        args.ignore(&["BURST_DURATION", "BURST_SIZE"]);
        let rate = args.must::<BytesPerSecond>("RATE")?.0;
        Some(Box::new(Rated { rate: Rate::new(rate), next: 0, count: 0 }))
    }),
};

struct Rated {
    rate: Rate,
    next: u64,
    count: u64,
}

impl Engine for Rated {
    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        if let Some(at) = self.rate.closed_until(cx.now) {
            self.next = at;
            return false;
        }
        self.next = 0;
        let Some(frame) = cx.pull(0) else { return false };
        self.rate.spend(cx.now, frame.len() as u64);
        self.count += 1;
        cx.emit(0, frame);
        true
    }

    fn next_run(&self) -> u64 {
        self.next
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "rate" => Some(self.rate.per_second().to_string()),
            "count" => Some(self.count.to_string()),
            _ => None,
        }
    }
}
