//! Where packets come from that are in a capture.

use crate::graph::class::{EngineClass, Make};
use crate::graph::edges::EdgeKind;
use crate::graph::place::{Entrance, IGNORED};

/// `FromDump`.
pub const CLASS: EngineClass = EngineClass {
    name: "FromDump",
    doc: "Gives packets of a capture, at the times when they were captured. FromDump(FILENAME). Handler: count",
    make: Make::with("0/1-2", "/h", "x/x", |args| {
        let name = args.must("FILENAME")?;
        args.ignore(IGNORED);
        Some(Box::new(Entrance::new(EdgeKind::Dump, name)))
    }),
};
