//! Packets and bytes are counted on their way.

use crate::contract::plan::FusedStep;
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `Counter`.
pub const CLASS: EngineClass = EngineClass {
    name: "Counter",
    doc: "Counts packets and bytes. Handlers: count, byte_count, reset (write)",
    make: Make::element("1/1", |args| {
        args.ignore(&["COUNT_CALL", "BYTE_COUNT_CALL"]);
        Some(Box::<Counter>::default())
    }),
};

#[derive(Default)]
struct Counter {
    packets: u64,
    bytes: u64,
}

impl Engine for Counter {
    #[inline]
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        self.packets += 1;
        self.bytes += frame.len() as u64;
        Pushed::To(0, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        let next = body.to(0, at)?;
        body.steps(vec![FusedStep::Count(body.own(0)), FusedStep::Bytes(body.own(1), at.first)], next)
    }

    fn kernel_words(&self) -> u16 {
        2
    }

    fn add_kernel(&mut self, words: &[u64]) {
        if let [packets, bytes] = words {
            (self.packets, self.bytes) = (self.packets + packets, self.bytes + bytes);
        }
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "count" => Some(self.packets.to_string()),
            "byte_count" => Some(self.bytes.to_string()),
            _ => None,
        }
    }

    fn write(&mut self, handler: &str, _: &str) -> Option<Result<(), String>> {
        (handler == "reset" || handler == "reset_counts").then(|| {
            *self = Counter::default();
            Ok(())
        })
    }

    fn take_state(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<Counter>()) {
            *self = core::mem::take(before);
        }
    }

    fn count_late(&mut self, before: &mut dyn Engine) {
        if let Some(before) = before.as_any().and_then(|before| before.downcast_mut::<Counter>()) {
            let late = core::mem::take(before);
            (self.packets, self.bytes) = (self.packets + late.packets, self.bytes + late.bytes);
        }
    }

    fn as_any(&mut self) -> Option<&mut dyn core::any::Any> {
        Some(self)
    }
}
