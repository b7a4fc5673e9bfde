//! Inputs by their tickets (stride scheduling, Waldspurger and Weihl, 1995).

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `StrideSched`.
pub const CLASS: EngineClass = EngineClass {
    name: "StrideSched",
    doc: "Takes packets from its inputs in proportion to their tickets. StrideSched(TICKETS0, TICKETS1, ...)",
    make: Make::with("1-/1", "l/l", "x/x", |args| {
        let mut lanes = Vec::new();
        for _ in 0..args.ports.0 {
            let tickets: u16 = args.must("TICKETS")?;
            lanes.push((0, STRIDE / u64::from(tickets.max(1))));
        }
        Some(Box::new(StrideSched(lanes)))
    }),
};

/// The way of one ticket.
const STRIDE: u64 = 1 << 16;

/// Of each input, where it stands and how far it goes with a packet.
struct StrideSched(Vec<(u64, u64)>);

impl Engine for StrideSched {
    fn pull(&mut self, _: u16, cx: &mut GraphCx<'_>) -> Option<Frame> {
        let mut passed = 0u64;
        // Each is asked once, the one furthest behind first.
        for _ in 0..self.0.len() {
            let left = self.0.iter().enumerate().filter(|(at, _)| passed & 1 << (at & 63) == 0);
            let input = left.min_by_key(|(_, lane)| lane.0).map(|(at, _)| at)?;
            passed |= 1 << (input & 63);
            let frame = cx.pull(input as u16);
            // Who has nothing now does not save it up.
            self.0[input].0 += self.0[input].1;
            if frame.is_some() {
                return frame;
            }
        }
        None
    }
}
