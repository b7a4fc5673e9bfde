//! Outputs by how many bytes a second come.

use crate::frame::Frame;
use crate::graph::arguments::BytesPerSecond;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::rate::Measured;

/// `BandwidthMeter`.
pub const CLASS: EngineClass = EngineClass {
    name: "BandwidthMeter",
    doc: "Sends packets to output 0 up to the first rate, to output 1 up to the second, and so on. \
          BandwidthMeter(RATE1, ...), in bytes a second",
    make: Make::with("1/2-", "h/h", "x/x", |args| {
        let mut rates = Vec::new();
        for _ in 1..args.ports.1.max(2) {
            rates.push(args.must::<BytesPerSecond>("RATE")?.0);
        }
        Some(Box::new(Meter { rates, measured: Measured::default() }))
    }),
};

struct Meter {
    rates: Vec<u64>,
    measured: Measured,
}

impl Engine for Meter {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let rate = self.measured.add(cx.now, frame.len() as u64);
        let output = self.rates.iter().position(|most| rate < *most).unwrap_or(self.rates.len());
        Pushed::To(output as u16, frame)
    }
}
