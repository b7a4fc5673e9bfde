//! Where packets leave for another node.

use crate::graph::class::{EngineClass, Make};
use crate::graph::edges::{EdgeKind, remote_name};
use crate::graph::place::Gate;

/// `ToRemote`.
pub const CLASS: EngineClass = EngineClass {
    name: "ToRemote",
    doc: "Sends packets to another node, by the connection of that number. It stands in no text: where a \
          connection leads to an element with @remote(NODE) there is one. ToRemote(NUMBER, NODE node). Handler: count",
    make: Make::with("1/0", "h/", "x/x", |args| {
        let (number, node) = (args.must("NUMBER")?, args.key("NODE", String::new())?);
        Some(Box::new(Gate::new(EdgeKind::Remote, remote_name(number, &node))))
    }),
};
