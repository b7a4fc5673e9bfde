//! What is said of graphs, as whoever asks for it has it.

use crate::node::graphs::{GraphPart, GraphPlace, GraphStatus, ShownGraph};
use crate::node::wishing::EditStatus;
use crate::wire::part::PartCounts;
use model::graphs::{Edit, Engine, Graph, Part, Shown, Wire};

/// Where engines run.
pub(super) const fn place(in_kernel: bool) -> &'static str {
    if in_kernel { "kernel" } else { "user" }
}

pub(super) fn told(status: GraphStatus) -> Graph {
    let GraphStatus {
        name,
        role,
        take,
        domain,
        generation,
        older,
        traffic,
        engines,
        in_kernel,
        why,
        kernel_packets,
        parts,
        owner,
        edited,
        waits,
        edits,
        drops,
        ..
    } = status;
    let part = |part: GraphPart| {
        let GraphPart { node, generation, marshal, answers, lost, sent, back, counts } = part;
        let PartCounts { came, left, dropped, held } = counts;
        Part { node: node.to_string(), generation, marshal, answers, lost, sent, back, came, left, dropped, held }
    };
    Graph {
        name,
        domain: domain.0,
        role,
        generation,
        older: older as u64,
        engines: engines as u64,
        place: place(in_kernel).to_owned(),
        why: (!why.is_empty()).then_some(why),
        take,
        came: traffic.came,
        begun: traffic.begun,
        left: traffic.left,
        used: traffic.used,
        dropped: traffic.dropped,
        held: traffic.held,
        blanked: traffic.blanked,
        kernel_packets,
        parts: parts.into_iter().map(part).collect(),
        owner: owner.map(|owner| owner.to_string()),
        edited,
        waits,
        edits: edits.into_iter().map(told_edit).collect(),
        drops: drops.happened().map(|(reason, packets)| (reason.name().to_owned(), packets)).collect(),
    }
}

fn told_edit(edit: EditStatus) -> Edit {
    let EditStatus { number, name, stands, done, refused, why } = edit;
    Edit { number, name, stands, done, refused, why: (!why.is_empty()).then_some(why) }
}

pub(super) fn told_whole(shown: ShownGraph, at_ns: u64) -> Shown {
    let ShownGraph { status, engines, wires, said, text } = shown;
    let name = |at: u16| engines.get(usize::from(at)).map_or(String::new(), |engine| engine.name.clone());
    let wires = wires.iter().map(|wire| Wire {
        from: name(wire.from.0),
        output: wire.from.1,
        to: name(wire.to.0),
        input: wire.to.1,
        pushes: wire.pushes,
        packets: wire.packets,
    });
    let wires = wires.collect();
    let engines = engines.into_iter().map(|engine| Engine {
        name: engine.name,
        class: engine.class,
        place: place(engine.in_kernel).to_owned(),
        asked: match engine.asked {
            GraphPlace::Auto => None,
            GraphPlace::Kernel => Some(place(true).to_owned()),
            GraphPlace::User => Some(place(false).to_owned()),
        },
        held: engine.held,
    });
    Shown { graph: told(status), at_ns, engines: engines.collect(), wires, said, text }
}
