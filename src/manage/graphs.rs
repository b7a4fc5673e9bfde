//! Graphs of a running node, for operators: what there is, handlers of engines, and other graphs in the place of those that run.
//!
//! Texts are read and engines made here, beside the packets; the worker swaps what is ready between two of them.

use super::control::Handle;
use crate::clean;
use crate::graph::class::BroughtClasses;
use crate::node::Node;
use crate::node::graphs::{GraphPart, GraphPlace, GraphSpec, GraphStatus, PreparedGraph, ShownGraph, Swapped, is_base};
use click::edit::Edit;
use model::graphs::{Applied, Engine, Graph, Handler, Part, Shown, Wire};
use model::{GraphEdit, GraphWish};
use std::time::Duration;

/// How often it is looked whether other nodes have answered.
const LOOKED_AT: Duration = Duration::from_millis(1);

/// Where engines run.
const fn place(in_kernel: bool) -> &'static str {
    if in_kernel { "kernel" } else { "user" }
}

/// All graphs.
pub(super) fn list(handle: &Handle) -> Result<Vec<Graph>, String> {
    Ok(handle.with_node(|node, _| node.graphs())?.into_iter().map(told).collect())
}

/// One of them with its engines.
pub(super) fn show(handle: &Handle, name: String) -> Result<Shown, String> {
    let (shown, at_ns) = handle.with_node(move |node, turn| (node.graph(&name), turn.now))?;
    Ok(told_whole(shown?, at_ns))
}

/// What an engine says of itself.
pub(super) fn read(handle: &Handle, name: String, handler: String) -> Result<Handler, String> {
    let (engine, of) = parts(&handler)?;
    let graph = name.clone();
    let value = handle.with_node(move |node, _| node.read_graph(&name, &engine, &of))??;
    Ok(Handler { graph, handler, value })
}

/// An operator writes to an engine.
pub(super) fn write(handle: &Handle, name: String, handler: String, value: String) -> Result<Handler, String> {
    let (engine, of) = parts(&handler)?;
    let (graph, written) = (name.clone(), value.clone());
    handle.with_node(move |node, turn| node.write_graph(turn.now, &name, (&engine, &of), &written))??;
    Ok(Handler { graph, handler, value })
}

/// Runs a graph in the place of that of its name, or a new one.
pub(super) fn apply(handle: &Handle, wanted: GraphWish) -> Result<Applied, String> {
    let GraphWish { name, text, role, take, base, place: asked } = wanted;
    let asked = asked.map(|asked| asked.parse()).transpose()?;
    let all = handle.with_node(|node, _| node.graphs())?;
    let before = all.into_iter().find(|graph| graph.name == name);
    let asked: GraphPlace = asked.or(before.as_ref().map(|before| before.asked)).unwrap_or_default();
    let (role, take) = match (role, take, before) {
        (Some(role), take, None) => (role, take.unwrap_or_default()),
        (role, take, Some(before)) => (role.unwrap_or(before.role), take.unwrap_or(before.take)),
        (None, ..) => {
            return Err(format!(
                "this node runs no graph {name}; a new one needs the role that its domain has, and what it takes: --role, --take"
            ));
        }
    };
    let mut graph =
        GraphSpec { name: name.clone(), role, take, text, place: asked }.prepare_with(&handle.engine_classes())?;
    if !graph.away().is_empty() {
        graph = offer(handle, graph, base)?;
    }
    let swapped = handle.with_node(move |node, turn| node.run_graph(turn, graph, base))??;
    // The ports know what it takes.
    handle.settle()?;
    let Swapped { generation, domain, kept, in_kernel, why } = swapped;
    let place = place(in_kernel).to_owned();
    Ok(Applied { name, domain: domain.0, generation, kept: kept as u64, place, why })
}

/// Offers the parts of a graph to the nodes where they are to be, and waits until all have accepted. Meanwhile the node goes on.
fn offer(handle: &Handle, mut graph: PreparedGraph, base: Option<u32>) -> Result<PreparedGraph, String> {
    let (mut graph, offered) = handle.with_node(move |node, turn| {
        let offered = node.offer_parts(turn, &graph, base);
        graph.offer = offered.as_ref().ok().copied();
        (graph, offered)
    })?;
    let offer = offered?;
    // It is refused or too old some time.
    while !handle.with_node(move |node, turn| node.is_accepted(turn, offer))?? {
        std::thread::sleep(LOOKED_AT);
    }
    graph.offer = Some(offer);
    Ok(graph)
}

/// Connects engines of a graph otherwise: its text is read, changed and applied, unless somebody else has applied one meanwhile.
pub(super) fn edit(handle: &Handle, wanted: GraphEdit) -> Result<Applied, String> {
    let GraphEdit { name, disconnect, remove, connect, base } = wanted;
    let of = name.clone();
    let before = handle.with_node(move |node, _| node.graph(&of))??;
    let number = before.status.generation;
    is_base(base, number).map_err(|why| format!("graph {}: {why}", clean::shown(&name)))?;
    let changes = Edit { disconnect: &disconnect, remove: &remove, connect: &connect };
    let text = spec_of(before).edited(changes, &handle.engine_classes())?;
    apply(handle, GraphWish { name, text, role: None, take: None, base: Some(number), place: None })
}

/// A graph that cannot run, and what there was before: graphs that ran, and names of those that did not.
pub(super) struct RefusedGraph {
    pub(super) why: String,
    before: Vec<GraphSpec>,
    began: Vec<String>,
}

impl RefusedGraph {
    /// What [`renew`] is told for the way back.
    pub(super) fn before(self, classes: &BroughtClasses) -> Result<(Vec<PreparedGraph>, Vec<String>), String> {
        let before = self.before.into_iter().map(|spec| spec.prepare_with(classes));
        Ok((before.collect::<Result<_, _>>()?, self.began))
    }
}

/// The graphs of another configuration run from now on, and these do not any more. With the first that cannot run this ends: whoever asks
/// goes back to what there was.
pub(super) fn renew(
    handle: &Handle,
    wanted: Vec<PreparedGraph>,
    gone: Vec<String>,
) -> Result<Option<RefusedGraph>, String> {
    let refused = handle.with_node(move |node, turn| {
        let names = || gone.iter().chain(wanted.iter().map(|graph| &graph.spec().name));
        let before: Vec<_> = names().filter_map(|name| node.graph(name).ok()).map(spec_of).collect();
        let is_new = |name: &&String| !before.iter().any(|known| known.name == **name);
        let began = names().filter(is_new).cloned().collect();
        for name in &gone {
            // An operator may have ended it before.
            let _ = node.end_graph(turn, name);
        }
        for graph in wanted {
            if runs(node, graph.spec()) {
                continue;
            }
            let (name, role) = (graph.spec().name.clone(), &graph.spec().role);
            if before.iter().any(|before| before.name == name && before.role != *role) {
                let _ = node.end_graph(turn, &name);
            }
            if let Err(why) = node.run_graph(turn, graph, None) {
                return Some(RefusedGraph { why, before, began });
            }
        }
        None
    })?;
    if let Err(error) = handle.settle() {
        tracing::warn!(%error, "what graphs take from now on is not theirs yet");
    }
    Ok(refused)
}

/// What a graph was asked for as.
fn spec_of(shown: ShownGraph) -> GraphSpec {
    let ShownGraph { status: GraphStatus { name, role, take, asked, .. }, text, .. } = shown;
    GraphSpec { name, role, take, text, place: asked }
}

/// Whether a graph runs just so.
fn runs(node: &mut Node, wanted: &GraphSpec) -> bool {
    node.graph(&wanted.name).is_ok_and(|shown| spec_of(shown) == *wanted) && !node.is_graph_outdated(&wanted.name)
}

/// An engine's name, and the name of one of its handlers.
fn parts(handler: &str) -> Result<(String, String), String> {
    let parts = handler.rsplit_once('.').map(|(engine, of)| (engine.to_owned(), of.to_owned()));
    parts.ok_or_else(|| format!("{handler}: a handler is named ENGINE.HANDLER, as c.count"))
}

fn told(status: GraphStatus) -> Graph {
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
        ..
    } = status;
    let part = |part: GraphPart| {
        let GraphPart { node, generation, answers, lost } = part;
        Part { node: node.to_string(), generation, answers, lost }
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
        kernel_packets,
        parts: parts.into_iter().map(part).collect(),
        owner: owner.map(|owner| owner.to_string()),
    }
}

fn told_whole(shown: ShownGraph, at_ns: u64) -> Shown {
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
        held: engine.held,
    });
    Shown { graph: told(status), at_ns, engines: engines.collect(), wires, said, text }
}
