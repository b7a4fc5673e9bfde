//! Packets wait for whoever pulls them, the first one first.

use crate::graph::class::{EngineClass, Make};
use crate::graph::store::FrameQueue;

/// `Queue`.
pub const CLASS: EngineClass = EngineClass {
    name: "Queue",
    doc: "Keeps packets until they are pulled; beyond CAPACITY (1000) new ones are dropped. Queue([CAPACITY]). \
          Handlers: length, highwater_length, capacity, drops, reset, reset_counts (write)",
    make: Make::with("1/1", "h/l", "x/x", |args| {
        let capacity = args.may("CAPACITY", 1000)?;
        FrameQueue::make(args, capacity, false)
    }),
};
