//! One of several inputs, as an operator says.

use crate::frame::Frame;
use crate::graph::arguments::Choice;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `PullSwitch`.
pub const CLASS: EngineClass = EngineClass {
    name: "PullSwitch",
    doc: "Takes packets from one input: from none if it is negative. PullSwitch([INPUT]). Handler: switch \
          (read, write)",
    make: Make::with("-/1", "l/l", "x/x", |args| {
        let input = args.may("INPUT", Choice(Some(0)))?;
        Some(Box::new(PullSwitch(input)))
    }),
};

struct PullSwitch(Choice);

impl Engine for PullSwitch {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        cx.pull(self.0.0?)
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "switch").then(|| self.0.to_string())
    }

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        (handler == "switch").then(|| self.0.set(value))
    }
}
