//! Graphs of a running node, for operators: what there is, handlers of engines, and other graphs in the place of those that run.
//!
//! Texts are read and engines made here, beside the packets; the worker swaps what is ready between two of them.

mod told;

use super::control::Handle;
use crate::clean;
use crate::graph::class::BroughtClasses;
use crate::graph::load::GRAPH_MAX;
use crate::node::graphs::{
    EditorAsk, GraphEditor, GraphPlace, GraphRefusal, GraphSpec, GraphStatus, PreparedGraph, ShownGraph, Swapped,
    is_base,
};
use crate::node::{Node, Turn};
use crate::nodeos::interface::Error;
use click::edit::Edit;
use model::graphs::{Applied, Graph, Handler, Shown};
use model::{GraphEdit, GraphWish};
use std::time::Duration;
use told::{place, told, told_whole};

/// How often it is looked whether other nodes have answered.
const LOOKED_AT: Duration = Duration::from_millis(1);

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

    /// Whether a program may; an operator may all.
    fn permit(&self, may: impl FnOnce(&GraphEditor) -> Result<(), GraphRefusal>) -> Result<(), GraphRefusal> {
        self.editor().map_or(Ok(()), may)
    }

    /// Lets the worker do something with a graph, unless a program asks that has nothing to do with it, or asks too often.
    fn ask_about<R: Send + 'static>(
        &self,
        name: &str,
        asks: EditorAsk,
        work: impl FnOnce(&mut Node, &mut Turn<'_>, &str) -> Result<R, GraphRefusal> + Send + 'static,
    ) -> Result<R, GraphRefusal> {
        let (editor, name) = (self.editor().cloned(), name.to_owned());
        self.ask(move |node, turn| {
            // In one step with the work: between two the graph may become somebody else's.
            editor.map_or(Ok(()), |editor| node.admit_editor(turn.now, &editor, &name, asks))?;
            work(node, turn, &name)
        })?
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
    let (shown, at_ns) = way.ask_about(name, EditorAsk::Look, |node, turn, name| Ok((node.graph(name)?, turn.now)))?;
    Ok(told_whole(shown, at_ns))
}

/// What an engine says of itself.
pub(super) fn read(way: &impl Way, name: &str, handler: &str) -> Result<Handler, GraphRefusal> {
    let (engine, of) = parts(handler)?;
    let read = move |node: &mut Node, _: &mut Turn<'_>, name: &str| Ok(node.read_graph(name, &engine, &of)?);
    let value = way.ask_about(name, EditorAsk::Look, read)?;
    Ok(Handler { graph: name.to_owned(), handler: handler.to_owned(), value })
}

/// Somebody writes to an engine.
pub(super) fn write(way: &impl Way, name: &str, handler: &str, value: &str) -> Result<Handler, GraphRefusal> {
    let (engine, of) = parts(handler)?;
    let written = value.to_owned();
    way.ask_about(name, EditorAsk::Change, move |node, turn, name| {
        Ok(node.write_graph(turn.now, name, (&engine, &of), &written)?)
    })?;
    Ok(Handler { graph: name.to_owned(), handler: handler.to_owned(), value: value.to_owned() })
}

/// Runs a graph in the place of that of its name, or a new one.
pub(super) fn apply(way: &impl Way, wanted: GraphWish) -> Result<Applied, GraphRefusal> {
    apply_as(way, wanted, EditorAsk::Change)
}

fn apply_as(way: &impl Way, wanted: GraphWish, asks: EditorAsk) -> Result<Applied, GraphRefusal> {
    let GraphWish { name, text, role, take, base, place: asked } = wanted;
    way.permit(|editor| editor.check_text(&text))?;
    let asked = asked.map(|asked| asked.parse()).transpose()?;
    let before = way.ask_about(&name, asks, |node, _, name| Ok(node.graph_spec(name)))?;
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
    let mut graph = spec.prepare_within(&handle.engine_classes(), most_engines(way))?;
    way.permit(|editor| editor.check(&graph))?;
    if !graph.away().is_empty() {
        let offered = offer(way, vec![graph], base, |_, _| true)?;
        graph = offered.into_iter().next().ok_or_else(|| format!("graph {name} is gone"))?;
    }
    let by_program = way.editor().is_some();
    let swapped =
        way.ask_about(&name, EditorAsk::Again, move |node, turn, _| swap(node, turn, graph, (base, by_program)))?;
    if !by_program {
        // The ports know what it takes, which programs leave as it is.
        handle.settle().map_err(String::from)?;
    }
    let Swapped { generation, domain, kept, in_kernel, why } = swapped;
    let place = place(in_kernel).to_owned();
    Ok(Applied { name, domain: domain.0, generation, kept: kept as u64, place, why })
}

/// Engines that a graph may have after a change.
fn most_engines(way: &impl Way) -> usize {
    way.editor().map_or(GRAPH_MAX, GraphEditor::engines)
}

/// Whether a graph is still meant, as the node is by then.
type IsMeant = fn(&mut Node, &PreparedGraph) -> bool;

/// Offers the parts of graphs, as far as they are `meant`, to the nodes where they are to be, so many at a time as there may be, and waits
/// until all have accepted. Meanwhile the node goes on. If one refuses, what others have accepted ends.
fn offer(
    way: &impl Way,
    graphs: Vec<PreparedGraph>,
    base: Option<u32>,
    meant: IsMeant,
) -> Result<Vec<PreparedGraph>, GraphRefusal> {
    let (mut graphs, mut done, mut offered) = (graphs, 0, Vec::new());
    loop {
        let mut offers = offered;
        (graphs, done, offered) = way.ask(move |node, turn| {
            let next = offer_some(node, turn, &mut graphs[done..], &mut offers, (base, meant));
            next.map(|next| (graphs, done + next, offers))
        })??;
        // They are refused or too old some time.
        let accepted = accepted(way, &offered)?;
        if accepted && done == graphs.len() {
            return Ok(graphs);
        }
        std::thread::sleep(LOOKED_AT);
    }
}

/// Offers the first of these, as far as there is room; how many of them are done with. If one cannot be offered, all are withdrawn.
fn offer_some(
    node: &mut Node,
    turn: &mut Turn<'_>,
    graphs: &mut [PreparedGraph],
    offers: &mut Vec<u32>,
    (base, meant): (Option<u32>, IsMeant),
) -> Result<usize, String> {
    for (at, graph) in graphs.iter_mut().enumerate() {
        if graph.away().is_empty() || !meant(node, graph) {
            continue;
        }
        // Its own are answered before long; those of others need not be.
        if node.offers_free() == 0 && !offers.is_empty() {
            return Ok(at);
        }
        match node.offer_parts(turn, graph, base) {
            Ok(offer) => {
                graph.offer = Some(offer);
                offers.push(offer);
            }
            Err(why) => {
                give_up(node, turn, offers);
                return Err(why);
            }
        }
    }
    Ok(graphs.len())
}

/// Nobody is to run what was offered so and does not run yet.
fn give_up(node: &mut Node, turn: &mut Turn<'_>, offers: &[u32]) {
    offers.iter().for_each(|offer| node.give_up_offer(turn, *offer));
}

/// Whether all have accepted these offers; if one was refused, all are withdrawn.
fn accepted(way: &impl Way, offers: &[u32]) -> Result<bool, GraphRefusal> {
    let offers = offers.to_vec();
    let accepted = way.ask(move |node, turn| {
        let mut all = true;
        for offer in &offers {
            match node.is_accepted(turn, *offer) {
                Ok(accepted) => all &= accepted,
                Err(why) => {
                    give_up(node, turn, &offers);
                    return Err(why);
                }
            }
        }
        Ok(all)
    })?;
    Ok(accepted?)
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
    let before = way.ask_about(&name, EditorAsk::Change, |node, _, name| Ok(node.graph(name)?))?;
    let number = before.status.generation;
    changed_meanwhile(&name, base, number)?;
    let changes = Edit { disconnect: &disconnect, remove: &remove, connect: &connect };
    let words = [&disconnect, &remove, &connect].into_iter().flatten().map(String::len).sum();
    way.permit(|editor| editor.check_bytes(words))?;
    let before = spec_of(before);
    way.permit(|editor| editor.check_text(&before.text))?;
    let text = before.edited(changes, &way.handle().engine_classes(), most_engines(way))?;
    apply_as(way, GraphWish { name, text, role: None, take: None, base: Some(number), place: None }, EditorAsk::Again)
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
        let before = self.before.into_iter().map(|spec| spec.prepare_with(classes).map(PreparedGraph::that_waits));
        Ok((before.collect::<Result<_, _>>()?, self.began))
    }
}

/// The graphs of another configuration run from now on, and these do not any more. With the first that cannot run this ends: whoever asks
/// goes back to what there was. Parts at other nodes are accepted before anything changes; graphs that wait for theirs come later.
pub(super) fn renew(
    handle: &Handle,
    wanted: Vec<PreparedGraph>,
    gone: Vec<String>,
) -> Result<Option<RefusedGraph>, String> {
    let is_meant = |node: &mut Node, graph: &PreparedGraph| {
        let same_role = node.graph_spec(&graph.spec().name).is_none_or(|before| before.role == graph.spec().role);
        !graph.waits && same_role && !stands(node, graph.spec())
    };
    let wanted = match offer(handle, wanted, None, is_meant) {
        Ok(wanted) => wanted,
        Err(GraphRefusal { why, .. }) => {
            return Ok(Some(RefusedGraph { why, before: Vec::new(), began: Vec::new() }));
        }
    };
    let offers: Vec<u32> = wanted.iter().filter_map(|graph| graph.offer).collect();
    let refused = handle.with_node(move |node, turn| {
        // What could not run before is neither the way back's to run nor its to end.
        let wanted_names = wanted.iter().map(|graph| &graph.spec().name);
        let refused: Vec<String> = wanted_names.filter(|name| node.is_graph_refused(name)).cloned().collect();
        let names = || gone.iter().chain(wanted.iter().map(|graph| &graph.spec().name));
        let names = || names().filter(|name| !refused.contains(name));
        let before: Vec<_> = names().filter_map(|name| node.wanted_graph(name)).collect();
        let is_new = |name: &&String| !before.iter().any(|known| known.name == **name);
        let began = names().filter(is_new).cloned().collect();
        for name in &gone {
            // An operator may have ended it before.
            let _ = node.end_graph(turn, name);
            node.forget_waiting(turn, name);
        }
        let ran = run_all(node, turn, wanted, (&before, &refused));
        // Of what does not run nobody's part is kept.
        give_up(node, turn, &offers);
        ran.err().map(|why| RefusedGraph { why, before, began })
    })?;
    if let Err(error) = handle.settle() {
        tracing::warn!(%error, "what graphs take from now on is not theirs yet");
    }
    Ok(refused)
}

/// Runs those that do not run just so: what ran `before` in another role ends first. The first that cannot run is the last; if it was
/// `refused` before, it is again.
fn run_all(
    node: &mut Node,
    turn: &mut Turn<'_>,
    wanted: Vec<PreparedGraph>,
    (before, refused): (&[GraphSpec], &[String]),
) -> Result<(), String> {
    for graph in wanted {
        let spec = graph.spec().clone();
        if stands(node, &spec) {
            continue;
        }
        node.forget_waiting(turn, &spec.name);
        if runs(node, &spec) {
            continue;
        }
        if before.iter().any(|before| before.name == spec.name && before.role != spec.role) {
            let _ = node.end_graph(turn, &spec.name);
        }
        if !graph.away().is_empty() && graph.offer.is_none() {
            node.await_graph(turn, graph);
        } else if let Err(why) = node.run_graph(turn, graph, None) {
            if refused.contains(&spec.name) {
                node.refuse_graph(turn, spec, why.clone());
            }
            return Err(why);
        }
    }
    Ok(())
}

/// A program's edit: chains that go, engines that go, statements that come. A base of 0: whoever has changed the graph before.
pub(super) fn edit_of(name: String, said: [&str; 3], base: u32) -> GraphEdit {
    let [disconnect, remove, connect] = click::edit::parts(said);
    GraphEdit { name, disconnect, remove, connect, base: based(base) }
}

/// A program says 0 if it does not care.
pub(super) fn based(base: u32) -> Option<u32> {
    Some(base).filter(|base| *base > 0)
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

/// Whether just this is what there is of a graph: it runs, and nothing else waits, or it waits.
fn stands(node: &mut Node, wanted: &GraphSpec) -> bool {
    match node.has_waiting(&wanted.name) {
        true => node.awaits_graph(wanted),
        false => runs(node, wanted),
    }
}

/// An engine's name, and the name of one of its handlers.
fn parts(handler: &str) -> Result<(String, String), String> {
    let parts = handler.rsplit_once('.').map(|(engine, of)| (engine.to_owned(), of.to_owned()));
    parts.ok_or_else(|| format!("{handler}: a handler is named ENGINE.HANDLER, as c.count"))
}
