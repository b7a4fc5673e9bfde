//! Packets and bytes are counted, and how many come in a second from the first to the last.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// `AverageCounter`.
pub const CLASS: EngineClass = EngineClass {
    name: "AverageCounter",
    doc: "Counts packets and bytes, and their rates from the first packet to the last; those of the first IGNORE seconds \
          count for nothing. AverageCounter([IGNORE]). Handlers: count, byte_count, rate, byte_rate, reset (write)",
    make: Make::element("1/1", |args| {
        let ignore = u64::from(args.may("IGNORE", 0u32)?) * SECOND;
        Some(Box::new(AverageCounter { ignore, ..AverageCounter::default() }))
    }),
};

#[derive(Default)]
struct AverageCounter {
    ignore: u64,
    packets: u64,
    bytes: u64,
    /// When the first packet came, and the last.
    came: Option<(u64, u64)>,
}

impl AverageCounter {
    /// Of so many, how many came in a second.
    fn rate(&self, count: u64) -> u64 {
        let time = self.came.map_or(0, |(first, last)| last.saturating_sub(first.saturating_add(self.ignore)));
        // Those that came at one instant have no rate.
        let rate = (u128::from(count) * u128::from(SECOND)).checked_div(u128::from(time));
        rate.and_then(|rate| u64::try_from(rate).ok()).unwrap_or(0)
    }
}

impl Engine for AverageCounter {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let (first, _) = *self.came.insert((self.came.map_or(cx.now, |(first, _)| first), cx.now));
        if cx.now >= first.saturating_add(self.ignore) {
            (self.packets, self.bytes) = (self.packets + 1, self.bytes + frame.len() as u64);
        }
        Pushed::To(0, frame)
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "count" => Some(self.packets.to_string()),
            "byte_count" => Some(self.bytes.to_string()),
            "rate" => Some(self.rate(self.packets).to_string()),
            "byte_rate" => Some(self.rate(self.bytes).to_string()),
            _ => None,
        }
    }

    fn write(&mut self, handler: &str, _: &str) -> Option<Result<(), String>> {
        (handler == "reset" || handler == "reset_counts").then(|| {
            *self = AverageCounter { ignore: self.ignore, ..AverageCounter::default() };
            Ok(())
        })
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<AverageCounter>()) {
            *self = AverageCounter { ignore: self.ignore, ..core::mem::take(before) };
        }
    }

    fn count_late(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<AverageCounter>()) {
            let late = core::mem::take(before);
            (self.packets, self.bytes) = (self.packets + late.packets, self.bytes + late.bytes);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }
}
