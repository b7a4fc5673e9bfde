//! One of several outputs, as an operator says.

use crate::frame::Frame;
use crate::graph::arguments::Choice;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `Switch`.
pub const CLASS: EngineClass = EngineClass {
    name: "Switch",
    doc: "Sends packets to one output: none if it is negative. Switch([OUTPUT]). Handler: switch (read, write)",
    make: Make::with("1/-", "h/h", "x/x", |args| {
        let output = args.may("OUTPUT", Choice(Some(0)))?;
        Some(Box::new(Switch(output)))
    }),
};

struct Switch(Choice);

impl Engine for Switch {
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        match self.0 {
            Choice(Some(output)) => Pushed::To(output, frame),
            Choice(None) => Pushed::thrown(frame),
        }
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        match self.0 {
            Choice(Some(output)) => body.to(output, at),
            Choice(None) => body.drop(),
        }
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "switch").then(|| self.0.to_string())
    }

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        (handler == "switch").then(|| self.0.set(value))
    }
}
