//! Outputs by how many packets a second come.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};
use crate::graph::rate::Measured;

/// `Meter`.
pub const CLASS: EngineClass = EngineClass {
    name: "Meter",
    doc: "Sends packets to output 0 up to the first rate, to output 1 up to the second, and so on. \
          Meter(RATE1, ...), in packets a second",
    make: Make::with("1/2-", "h/h", "x/x", |args| {
        let mut rates = Vec::new();
        for _ in 1..args.ports.1.max(2) {
            rates.push(u64::from(args.must::<u32>("RATE")?));
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
        let rate = self.measured.add(cx.now, 1);
        let output = self.rates.iter().position(|most| rate < *most).unwrap_or(self.rates.len());
        Pushed::To(output as u16, frame)
    }
}
