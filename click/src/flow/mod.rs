//! What goes through the ports of a flat graph, and how: push or pull, packets or something else.
//!
//! `FromDevice -> Counter -> Queue -> ToDevice`: the device pushes, the counter can do either and so is pushed through, the queue
//! is pulled from. Ports that can do either take over what they are connected with, also through elements, along the class's flow.
//! What nobody settles is pushed, and carries packets.

mod loops;
mod ports;
mod settle;

use crate::classes::{Classes, Item, Processing};
use crate::elaborate::Loose;
use crate::graph::Graph;
use crate::mistakes::Mistakes;

/// What is known of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Who calls whom.
    pub processing: Processing,
    /// What goes through it.
    pub item: Item,
}

/// The ports of an element.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementPorts {
    /// Its inputs.
    pub inputs: Vec<Port>,
    /// Its outputs.
    pub outputs: Vec<Port>,
}

/// The ports of each element; what is wrong with them is added to what is known.
pub(crate) fn infer(graph: &Graph, classes: &dyn Classes, loose: &Loose, mistakes: &mut Mistakes) -> Vec<ElementPorts> {
    let ports = ports::Ports::new(graph, classes);
    ports.check(loose, mistakes);
    let processing = settle::settle(&ports, mistakes);
    let items = settle::settle(&ports, mistakes);
    ports.check_shared(&processing, mistakes);
    loops::check(&ports, &processing, mistakes);
    let port = |at: usize| Port {
        processing: processing.get(at).copied().unwrap_or(Processing::Push),
        item: items.get(at).copied().unwrap_or(Item::Packet),
    };
    let of = |element: usize| ElementPorts {
        inputs: ports.of(element, false).map(port).collect(),
        outputs: ports.of(element, true).map(port).collect(),
    };
    (0..graph.elements.len()).map(of).collect()
}
