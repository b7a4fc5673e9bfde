//! Where packets go to the host.

use crate::graph::class::{EngineClass, Make};
use crate::graph::edges::EdgeKind;
use crate::graph::place::{Gate, IGNORED};

/// `ToHost`.
pub const CLASS: EngineClass = EngineClass {
    name: "ToHost",
    doc: "Gives packets to the host, as if a device had received them. ToHost([DEVNAME]). In a node DEVNAME is a port \
          whose other end is the host's. Handler: count",
    make: Make::task("1/0-2", "a/h", |args| {
        let name = args.may("DEVNAME", String::new())?;
        args.ignore(IGNORED);
        Some(Box::new(Gate::new(EdgeKind::Host, name)))
    }),
};
