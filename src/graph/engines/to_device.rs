//! Where packets leave by a device.

use crate::graph::class::{EngineClass, Make};
use crate::graph::edges::EdgeKind;
use crate::graph::place::{Gate, IGNORED};

/// `ToDevice`.
pub const CLASS: EngineClass = EngineClass {
    name: "ToDevice",
    doc: "Pulls packets and sends them by a device. ToDevice(DEVNAME). Handler: count",
    make: Make::task("1/0-2", "l/h", |args| {
        let name = args.must("DEVNAME")?;
        args.ignore(IGNORED);
        Some(Box::new(Gate::new(EdgeKind::Device, name)))
    }),
};
