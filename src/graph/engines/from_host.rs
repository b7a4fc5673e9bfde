//! Where packets come from that the host sends.

use crate::graph::class::{EngineClass, Make};
use crate::graph::edges::EdgeKind;
use crate::graph::place::{Entrance, IGNORED};

/// `FromHost`.
pub const CLASS: EngineClass = EngineClass {
    name: "FromHost",
    doc: "Gives packets that the host sends by a device. FromHost(DEVNAME, [ADDRESS]). In a node DEVNAME is a port \
          whose other end is the host's, which has its address already. Handler: count",
    make: Make::with("0/1-2", "/h", "x/x", |args| {
        let name = args.must("DEVNAME")?;
        args.may("ADDRESS", String::new())?;
        args.ignore(IGNORED);
        Some(Box::new(Entrance::new(EdgeKind::Host, name)))
    }),
};
