//! Packets are dropped by chance before queues are full (Floyd and Jacobson, 1993).

use crate::frame::Frame;
use crate::graph::chance::Chance;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `RED`.
pub const CLASS: EngineClass = EngineClass {
    name: "RED",
    doc: "Drops packets by chance, the more the longer the queues behind it are. RED(MIN_THRESH, MAX_THRESH, \
          MAX_P, [STABILITY]). Handlers: drops, avg_queue_size",
    make: Make::with("1/1-2", "a/ah", "x/x", |args| {
        args.ignore(&["QUEUES", "GENTLE"]);
        let (min, max): (Option<u32>, Option<u32>) = (args.must("MIN_THRESH"), args.must("MAX_THRESH"));
        let (most, stability): (Option<f64>, _) = (args.must("MAX_P"), args.may("STABILITY", 4u8)?);
        let (min, max, most) = (f64::from(min?), f64::from(max?), most?);
        if min >= max || !(0.0..=1.0).contains(&most) || stability > 16 {
            args.say_all("thresholds that cannot be", "MIN_THRESH < MAX_THRESH, MAX_P from 0 to 1, STABILITY to 16");
            return None;
        }
        let weight = 0.5f64.powi(stability.into());
        let chance = Chance::of(args.name);
        Some(Box::new(Red { min, max, most, weight, average: 0.0, since: 0, drops: 0, stores: None, chance }))
    }),
};

struct Red {
    min: f64,
    max: f64,
    most: f64,
    weight: f64,
    average: f64,
    /// Packets since one was dropped.
    since: u32,
    drops: u64,
    /// The queues behind it, once they are known.
    stores: Option<Vec<u16>>,
    chance: Chance,
}

impl Engine for Red {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let stores = self.stores.get_or_insert_with(|| cx.stores_behind(|class| class.ends_with("Queue")));
        let length: u64 = stores.iter().map(|at| cx.held_by(*at)).sum();
        self.average += (length as f64 - self.average) * self.weight;
        let chance = (self.average - self.min) / (self.max - self.min) * self.most;
        let dropped = if self.average <= self.min {
            self.since = 0;
            false
        } else if self.average > self.max {
            true
        } else {
            // Spread evenly: the longer none was dropped, the sooner one is.
            let left = 1.0 - f64::from(self.since) * chance;
            left <= 0.0 || self.chance.strikes(chance / left)
        };
        if dropped {
            (self.since, self.drops) = (0, self.drops + 1);
            return Pushed::To(1, frame);
        }
        self.since += 1;
        Pushed::To(0, frame)
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "drops" => Some(self.drops.to_string()),
            "avg_queue_size" => Some(format!("{:.3}", self.average)),
            _ => None,
        }
    }
}
