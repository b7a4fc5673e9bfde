//! A number on packets.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::fused::{FusedAt, FusedBody, FusedLabel, NoForm};

/// `Paint`.
pub const CLASS: EngineClass = EngineClass {
    name: "Paint",
    doc: "Notes a number with each packet. Paint(COLOR). Handler: color (read, write)",
    make: Make::element("1/1", |args| {
        args.ignore(&["ANNO"]);
        Some(Box::new(Paint(args.must("COLOR")?)))
    }),
};

struct Paint(u8);

impl Engine for Paint {
    #[inline]
    fn push(&mut self, _: u16, mut frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        frame.notes.paint = self.0;
        Pushed::To(0, frame)
    }

    fn kernel(&self, _: u16, at: FusedAt, body: &mut FusedBody<'_>) -> Result<FusedLabel, NoForm> {
        body.to(0, FusedAt { paint: self.0, ..at })
    }

    fn read(&self, handler: &str) -> Option<String> {
        (handler == "color").then(|| self.0.to_string())
    }

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        (handler == "color").then(|| {
            self.0 = value.trim().parse().map_err(|_| "a number from 0 to 255".to_owned())?;
            Ok(())
        })
    }
}
