//! A part of all packets, by chance.

use crate::frame::Frame;
use crate::graph::chance::Chance;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `RandomSample`.
pub const CLASS: EngineClass = EngineClass {
    name: "RandomSample",
    doc: "Passes each packet with a probability; others leave by output 1. RandomSample([SAMPLE], [DROP p]). \
          Handlers: sampling_prob, drop_prob, drops",
    make: Make::with("1/1-2", "a/ah", "x/x", |args| {
        let drop = args.key("DROP", -1.0)?;
        let otherwise = if drop >= 0.0 { 1.0 - drop } else { 1.0 };
        let sample = args.may("SAMPLE", otherwise)?;
        if !(0.0..=1.0).contains(&sample) {
            args.say_all("a probability is from 0 to 1", "here");
            return None;
        }
        Some(Box::new(RandomSample { sample, drops: 0, chance: Chance::of(args.name) }))
    }),
};

struct RandomSample {
    sample: f64,
    drops: u64,
    chance: Chance,
}

impl Engine for RandomSample {
    fn push(&mut self, _: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        if self.chance.strikes(self.sample) {
            return Pushed::To(0, frame);
        }
        self.drops += 1;
        Pushed::To(1, frame)
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "sampling_prob" => Some(self.sample.to_string()),
            "drop_prob" => Some((1.0 - self.sample).to_string()),
            "drops" => Some(self.drops.to_string()),
            _ => None,
        }
    }
}
