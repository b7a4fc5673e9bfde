//! Where packets come from that a device receives.

use crate::graph::class::{EngineClass, Make};
use crate::graph::edges::EdgeKind;
use crate::graph::place::{Entrance, IGNORED};

/// `FromDevice`.
pub const CLASS: EngineClass = EngineClass {
    name: "FromDevice",
    doc: "Gives packets that come in by a device. FromDevice(DEVNAME). Handler: count",
    make: Make::with("0/1-2", "/h", "x/x", |args| {
        let name = args.must("DEVNAME")?;
        args.ignore(IGNORED);
        Some(Box::new(Entrance::new(EdgeKind::Device, name)))
    }),
};
