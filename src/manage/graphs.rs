//! Graphs of a running node, for operators: what there is, handlers of engines, and other graphs in the place of those that run.
//!
//! Texts are read and engines made here, beside the packets; the worker swaps what is ready between two of them.

use super::control::Handle;
use crate::clean;
use crate::graph::class::BroughtClasses;
use crate::node::graphs::{
    GraphEditor, GraphPart, GraphPlace, GraphRefusal, GraphSpec, GraphStatus, PreparedGraph, ShownGraph, Swapped,
    is_base,
};
use crate::node::{Node, Turn};
use crate::nodeos::interface::Error;
use crate::wire::part::PartCounts;
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

/// The way to the worker that has the graphs, for whoever asks and pays.
pub(super) trait Way {
    /// Lets it do something.
    fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, GraphRefusal>;

    /// The node's handle.
    fn handle(&self) -> &Handle;

    /// What a program may; nothing: an operator asks, who may all.
    fn editor(&self) -> Option<&GraphEditor>;

    /// Refuses a program that has nothing to do with a graph.
    fn admit(&self, name: &str, changes: bool) -> Result<(), GraphRefusal> {
        let Some(editor) = self.editor().cloned() else { return Ok(()) };
        let name = name.to_owned();
        self.ask(move |node, turn| node.admit_editor(turn.now, &editor, &name, changes))?
    }
}

impl Way for Handle {
    fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, GraphRefusal> {
        self.with_node(work).map_err(|why| GraphRefusal::new(Error::Ended, why))
    }

    fn handle(&self) -> &Handle {
        self
    }

    fn editor(&self) -> Option<&GraphEditor> {
        None
    }
}

/// All graphs.
pub(super) fn list(handle: &Handle) -> Result<Vec<Graph>, String> {
    Ok(handle.with_node(|node, _| node.graphs())?.into_iter().map(told).collect())
}

/// One of them with its engines.
pub(super) fn show(way: &impl Way, name: &str) -> Result<Shown, GraphRefusal> {
    way.admit(name, false)?;
    let (shown, at_ns) = way.ask({
        let name = name.to_owned();
        move |node, turn| (node.graph(&name), turn.now)
    })?;
    Ok(told_whole(shown?, at_ns))
}

/// What an engine says of itself.
pub(super) fn read(way: &impl Way, name: &str, handler: &str) -> Result<Handler, GraphRefusal> {
    way.admit(name, false)?;
    let (engine, of) = parts(handler)?;
    let graph = name.to_owned();
    let value = way.ask(move |node, _| node.read_graph(&graph, &engine, &of))??;
    Ok(Handler { graph: name.to_owned(), handler: handler.to_owned(), value })
}

/// Somebody writes to an engine.
pub(super) fn write(way: &impl Way, name: &str, handler: &str, value: &str) -> Result<Handler, GraphRefusal> {
    way.admit(name, true)?;
    let (engine, of) = parts(handler)?;
    let (graph, written) = (name.to_owned(), value.to_owned());
    way.ask(move |node, turn| node.write_graph(turn.now, &graph, (&engine, &of), &written))??;
    Ok(Handler { graph: name.to_owned(), handler: handler.to_owned(), value: value.to_owned() })
}

/// Runs a graph in the place of that of its name, or a new one.
pub(super) fn apply(way: &impl Way, wanted: GraphWish) -> Result<Applied, GraphRefusal> {
    way.admit(&wanted.name, true)?;
    apply_admitted(way, wanted)
}

fn apply_admitted(way: &impl Way, wanted: GraphWish) -> Result<Applied, GraphRefusal> {
    let GraphWish { name, text, role, take, base, place: asked } = wanted;
    way.editor().map_or(Ok(()), |editor| editor.check_text(&text))?;
    let asked = asked.map(|asked| asked.parse()).transpose()?;
    let before = way.ask({
        let name = name.clone();
        move |node, _| node.graph_spec(&name)
    })?;
    let asked: GraphPlace = asked.or(before.as_ref().map(|before| before.place)).unwrap_or_default();
    let (role, take) = match (role, take, before) {
        (Some(role), take, None) => (role, take.unwrap_or_default()),
        (role, take, Some(before)) => (role.unwrap_or(before.role), take.unwrap_or(before.take)),
        (None, ..) => {
            return Err(format!(
                "this node runs no graph {name}; a new one needs the role that its domain has, and what it takes: --role, --take"
            )
            .into());
        }
    };
    let handle = way.handle();
    let spec = GraphSpec { name: name.clone(), role, take, text, place: asked };
    let mut graph = spec.prepare_with(&handle.engine_classes())?;
    way.editor().map_or(Ok(()), |editor| editor.check(&graph))?;
    if !graph.away().is_empty() {
        graph = offer(way, graph, base)?;
    }
    let by_program = way.editor().is_some();
    let swapped = way.ask(move |node, turn| swap(node, turn, graph, (base, by_program)))??;
    if !by_program {
        // The ports know what it takes, which programs leave as it is.
        handle.settle().map_err(String::from)?;
    }
    let Swapped { generation, domain, kept, in_kernel, why } = swapped;
    let place = place(in_kernel).to_owned();
    Ok(Applied { name, domain: domain.0, generation, kept: kept as u64, place, why })
}

/// Offers the parts of a graph to the nodes where they are to be, and waits until all have accepted. Meanwhile the node goes on.
fn offer(way: &impl Way, mut graph: PreparedGraph, base: Option<u32>) -> Result<PreparedGraph, GraphRefusal> {
    let (mut graph, offered) = way.ask(move |node, turn| {
        let offered = node.offer_parts(turn, &graph, base);
        graph.offer = offered.as_ref().ok().copied();
        (graph, offered)
    })?;
    let offer = offered?;
    // It is refused or too old some time.
    while !way.ask(move |node, turn| node.is_accepted(turn, offer))?? {
        std::thread::sleep(LOOKED_AT);
    }
    graph.offer = Some(offer);
    Ok(graph)
}

/// Two editors: who has looked at another generation than the one that runs is told so.
fn swap(
    node: &mut Node,
    turn: &mut Turn<'_>,
    graph: PreparedGraph,
    (base, by_program): (Option<u32>, bool),
) -> Result<Swapped, GraphRefusal> {
    let name = graph.spec().name.clone();
    let number = node.generation_of(&name);
    if by_program && number == 0 {
        return Err(GraphRefusal::new(Error::Unknown, format!("graph {name} has ended meanwhile")));
    }
    changed_meanwhile(&name, base, number)?;
    let swapped = node.run_graph(turn, graph, base)?;
    if by_program {
        node.count_edited(&name);
    }
    Ok(swapped)
}

fn changed_meanwhile(name: &str, base: Option<u32>, number: u32) -> Result<(), GraphRefusal> {
    is_base(base, number)
        .map_err(|why| GraphRefusal::new(Error::Changed, format!("graph {}: {why}", clean::shown(name))))
}

/// Connects engines of a graph otherwise: its text is read, changed and applied, unless somebody else has applied one meanwhile.
pub(super) fn edit(way: &impl Way, wanted: GraphEdit) -> Result<Applied, GraphRefusal> {
    let GraphEdit { name, disconnect, remove, connect, base } = wanted;
    way.admit(&name, true)?;
    let of = name.clone();
    let before = way.ask(move |node, _| node.graph(&of))??;
    let number = before.status.generation;
    changed_meanwhile(&name, base, number)?;
    let changes = Edit { disconnect: &disconnect, remove: &remove, connect: &connect };
    let before = spec_of(before);
    way.editor().map_or(Ok(()), |editor| editor.check_text(&before.text))?;
    let text = before.edited(changes, &way.handle().engine_classes())?;
    apply_admitted(way, GraphWish { name, text, role: None, take: None, base: Some(number), place: None })
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
        edited,
        ..
    } = status;
    let part = |part: GraphPart| {
        let GraphPart { node, generation, answers, lost, sent, back, counts } = part;
        let PartCounts { came, left, dropped, held } = counts;
        Part { node: node.to_string(), generation, answers, lost, sent, back, came, left, dropped, held }
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
        edited,
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
