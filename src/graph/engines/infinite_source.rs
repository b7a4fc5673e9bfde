//! Packets without end.

use crate::frame::Frame;
use crate::graph::arguments::{Data, Most};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};
use crate::graph::source::{PacketSource, RANDOM};

/// `InfiniteSource`.
pub const CLASS: EngineClass = EngineClass {
    name: "InfiniteSource",
    doc: "Makes packets as fast as they are taken. InfiniteSource([DATA], [LIMIT], [BURST], [ACTIVE], [LENGTH \
          n]). Handlers: count, active (read, write), reset (write)",
    make: Make::task("0/1", "/a", |args| {
        let data = args.may("DATA", Data(RANDOM.into()))?;
        let (limit, burst) = (args.may("LIMIT", Most(u64::MAX))?, args.may("BURST", 1u32)?);
        let (active, _) = (args.may("ACTIVE", true)?, args.key("STOP", false)?);
        let length = args.key("LENGTH", 0u16)?;
        args.ignore(&["TIMESTAMP", "HEADROOM", "END_CALL"]);
        Some(Box::new(InfiniteSource {
            data: PacketSource::new(data, length),
            burst: burst.clamp(1, BURST_MAX),
            limit: limit.0,
            active,
        }))
    }),
};

/// Packets of one turn, however many are asked for.
const BURST_MAX: u32 = 1024;

struct InfiniteSource {
    data: PacketSource,
    burst: u32,
    limit: u64,
    active: bool,
}

impl Engine for InfiniteSource {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        (self.active && self.data.count < self.limit).then(|| self.data.make(cx))
    }

    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        let left = self.limit.saturating_sub(self.data.count).min(self.burst.into());
        for _ in 0..left {
            let frame = self.data.make(cx);
            cx.emit(0, frame);
        }
        left > 0
    }

    fn next_run(&self) -> u64 {
        if self.active && self.data.count < self.limit { 0 } else { u64::MAX }
    }

    fn read(&self, handler: &str) -> Option<String> {
        self.data.read(handler, self.active)
    }

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        self.data.write(handler, value, &mut self.active)
    }
}
