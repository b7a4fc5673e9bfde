//! Where packets end that nobody wants.

use crate::contract::plan::FusedStep;
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `Discard`.
pub const CLASS: EngineClass = EngineClass {
    name: "Discard",
    doc: "Drops all packets; pulls them if it is asked to. Handlers: count, reset_counts (write)",
    make: Make::task("1/0", "a/", |args| {
        args.ignore(&["ACTIVE", "BURST"]);
        Some(Box::<Discard>::default())
    }),
};

#[derive(Default)]
struct Discard(u64);

impl Engine for Discard {
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        self.0 += 1;
        Pushed::thrown(frame)
    }

    fn kernel(&self, _: u16, _: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        let end = body.drop()?;
        body.steps(vec![FusedStep::Count(body.own(0))], end)
    }

    fn kernel_words(&self) -> u16 {
        1
    }

    fn add_kernel(&mut self, words: &[u64]) {
        self.0 += words.first().unwrap_or(&0);
    }

    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        match cx.pull(0) {
            Some(frame) => {
                self.0 += 1;
                cx.throw(frame);
                true
            }
            None => false,
        }
    }

    fn next_run(&self) -> u64 {
        0
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "count").then(|| self.0.to_string())
    }

    fn write(&mut self, handler: &str, _: &str) -> Option<Result<(), String>> {
        (handler == "reset_counts").then(|| {
            self.0 = 0;
            Ok(())
        })
    }
}
