//! So many packets a second.

use crate::frame::Frame;
use crate::graph::arguments::{Data, Most};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};
use crate::graph::rate::Rate;
use crate::graph::source::{PacketSource, RANDOM};

/// `RatedSource`.
pub const CLASS: EngineClass = EngineClass {
    name: "RatedSource",
    doc: "Makes packets at a rate. RatedSource([DATA], [RATE], [LIMIT], [ACTIVE], [LENGTH n]). Handlers: \
          count, active (read, write), reset (write)",
    make: Make::task("0/1", "/a", |args| {
        let (data, rate) = (args.may("DATA", Data(RANDOM.into()))?, args.may("RATE", 10u32)?);
        let (limit, active) = (args.may("LIMIT", Most(u64::MAX))?, args.may("ACTIVE", true)?);
        let (length, _) = (args.key("LENGTH", 0u16)?, args.key("STOP", false)?);
        args.ignore(&["BANDWIDTH", "HEADROOM", "END_CALL"]);
        let data = PacketSource::new(data, length);
        Some(Box::new(RatedSource::new(data, rate.into(), limit.0, active)))
    }),
};

/// Packets at a rate.
pub(super) struct RatedSource {
    data: PacketSource,
    rate: Rate,
    limit: u64,
    active: bool,
    next: u64,
}

impl RatedSource {
    /// So many a second, up to a limit.
    pub(super) fn new(data: PacketSource, rate: u64, limit: u64, active: bool) -> RatedSource {
        RatedSource { data, rate: Rate::new(rate), limit, active, next: 0 }
    }
}

impl Engine for RatedSource {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        if !self.active || self.data.count >= self.limit {
            return None;
        }
        if let Some(at) = self.rate.closed_until(cx.now) {
            cx.ask_again(at);
            return None;
        }
        self.rate.spend(cx.now, 1);
        Some(self.data.make(cx))
    }

    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        if let Some(at) = self.rate.closed_until(cx.now) {
            self.next = at;
            return false;
        }
        self.next = 0;
        self.rate.spend(cx.now, 1);
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
