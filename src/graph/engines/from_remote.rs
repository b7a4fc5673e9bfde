//! Where packets come from another node.

use crate::graph::class::{EngineClass, Make};
use crate::graph::edges::{EdgeKind, remote_name};
use crate::graph::place::Entrance;

/// `FromRemote`.
pub const CLASS: EngineClass = EngineClass {
    name: "FromRemote",
    doc: "Gives packets that come from another node, by the connection of that number. It stands in no text: where a \
          connection comes from an element with @remote(NODE) there is one. FromRemote(NUMBER, NODE node). Handler: count",
    make: Make::with("0/1", "/h", "x/x", |args| {
        let (number, node) = (args.must("NUMBER")?, args.key("NODE", String::new())?);
        Some(Box::new(Entrance::new(EdgeKind::Remote, remote_name(number, &node))))
    }),
};
