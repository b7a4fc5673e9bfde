//! What is pulled here is pushed on.

use crate::graph::arguments::Most;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx};

/// `Unqueue`.
pub const CLASS: EngineClass = EngineClass {
    name: "Unqueue",
    doc: "Pulls packets and pushes them on. Unqueue([BURST], [ACTIVE], [LIMIT]). Handlers: count, active \
          (read, write)",
    make: Make::task("1/1", "l/h", |args| {
        let burst = args.may("BURST", 1u32)?;
        let (active, limit) = (args.key("ACTIVE", true)?, args.key("LIMIT", Most(u64::MAX))?);
        Some(Box::new(Unqueue { burst: burst.max(1), active, left: limit.0, count: 0 }))
    }),
};

struct Unqueue {
    burst: u32,
    active: bool,
    left: u64,
    count: u64,
}

impl Engine for Unqueue {
    fn run(&mut self, cx: &mut GraphCx<'_>) -> bool {
        let mut worked = false;
        for _ in 0..u64::from(self.burst).min(self.left) {
            let Some(frame) = cx.pull(0) else { break };
            cx.emit(0, frame);
            (self.left, self.count, worked) = (self.left - 1, self.count + 1, true);
        }
        worked
    }

    fn next_run(&self) -> u64 {
        if self.active && self.left > 0 { 0 } else { u64::MAX }
    }

    fn read(&self, handler: &str) -> Option<String> {
        match handler {
            "count" => Some(self.count.to_string()),
            "active" => Some(self.active.to_string()),
            _ => None,
        }
    }

    fn write(&mut self, handler: &str, value: &str) -> Option<Result<(), String>> {
        (handler == "active").then(|| {
            self.active = value.trim().parse().map_err(|_| "true or false".to_owned())?;
            Ok(())
        })
    }
}
