//! A queue of which the oldest packet gives way.

use crate::graph::class::{EngineClass, Make};
use crate::graph::store::FrameQueue;

/// `FrontDropQueue`.
pub const CLASS: EngineClass = EngineClass {
    name: "FrontDropQueue",
    doc: "As Queue, but of a full one the oldest packet is dropped. FrontDropQueue([CAPACITY])",
    make: Make::with("1/1", "h/l", "x/x", |args| {
        let capacity = args.may("CAPACITY", 1000)?;
        FrameQueue::make(args, capacity, true)
    }),
};
