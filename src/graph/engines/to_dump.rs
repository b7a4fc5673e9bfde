//! Where packets are written into a capture.

use crate::graph::class::{EngineClass, Make};
use crate::graph::edges::EdgeKind;
use crate::graph::place::{Gate, IGNORED};

/// `ToDump`.
pub const CLASS: EngineClass = EngineClass {
    name: "ToDump",
    doc: "Writes packets into a capture, and passes them on if something is behind it. ToDump(FILENAME). \
          Handler: count",
    make: Make::task("1/0-1", "a/a", |args| {
        let name = args.must("FILENAME")?;
        args.ignore(IGNORED);
        Some(Box::new(Gate::new(EdgeKind::Dump, name)))
    }),
};
