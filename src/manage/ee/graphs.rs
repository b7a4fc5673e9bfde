//! The calls of programs about graphs of their role: by the way that operators have, within what the role grants.
//!
//! ```text
//! session's thread ─▶ the domain's worker: may it? ─▶ first worker: its graph, its rate ─▶ here: text, engines ─▶ first worker: swap
//! ```
//!
//! Texts are read by the thread that calls, at its domain's expense; so is what the first worker does for it.

use super::stores::Ways;
use crate::manage::control::Handle;
use crate::manage::graphs::{self, Way};
use crate::node::graphs::{GraphEditor, GraphRefusal};
use crate::node::{Node, Turn};
use crate::nodeos::interface::{DomainId, Error};
use libanode::message::{Answer, Call, GRAPH_TEXT_MAX, GraphFacts, GraphText};
use model::GraphWish;
use model::graphs::{Applied, Graph};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes that programs have asked for.
#[derive(Clone, Debug, Default)]
pub struct GraphCalls(Arc<[AtomicU64; 3]>);

/// What is counted of them: done; too many in a second; refused for another reason.
const DONE: usize = 0;
const LATER: usize = 1;
const REFUSED: usize = 2;

impl GraphCalls {
    pub(in crate::manage) fn count(&self, refused: Option<Error>) {
        let of = match refused {
            None => DONE,
            Some(Error::Again) => LATER,
            Some(_) => REFUSED,
        };
        self.0[of].fetch_add(1, Ordering::Relaxed);
    }

    /// What operators are told of them.
    pub fn status(&self) -> model::status::GraphCalls {
        let [done, later, refused] = [DONE, LATER, REFUSED].map(|of| self.0[of].load(Ordering::Relaxed));
        model::status::GraphCalls { done, later, refused }
    }
}

/// A program's way to the graphs.
struct Program<'a, W> {
    ways: &'a W,
    handle: &'a Handle,
    editor: GraphEditor,
}

impl<W: Ways> Way for Program<'_, W> {
    fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R + Send + 'static,
    ) -> Result<R, GraphRefusal> {
        self.ways.at_first(work).map_err(refused)
    }

    fn handle(&self) -> &Handle {
        self.handle
    }

    fn editor(&self) -> Option<&GraphEditor> {
        Some(&self.editor)
    }
}

fn refused(error: Error) -> GraphRefusal {
    GraphRefusal::new(error, error.help().to_owned())
}

/// The domain in whose name a call about graphs is made; nothing if it is about something else.
pub fn in_name_of(call: &Call) -> Option<DomainId> {
    match call {
        Call::GraphApply { domain, .. }
        | Call::GraphEdit { domain, .. }
        | Call::GraphRead { domain, .. }
        | Call::GraphWrite { domain, .. }
        | Call::GraphShow { domain, .. } => Some(DomainId(*domain)),
        _ => None,
    }
}

/// Carries a call out if it is one about graphs.
pub fn call(ways: &impl Ways, handle: &Handle, call: &Call) -> Option<Answer> {
    let domain = in_name_of(call)?;
    let editor = ways.at_home(move |os| os.graph_editor(domain)).and_then(|editor| editor);
    let done = match editor {
        Ok(editor) => carry_out(&Program { ways, handle, editor }, call),
        Err(Error::Denied) => {
            let why = "the domain's role changes no graphs ([role.graphs] edits_per_second), or a domain above it has another role";
            Err(GraphRefusal::new(Error::Denied, why.to_owned()))
        }
        Err(error) => Err(refused(error)),
    };
    let refused = done.as_ref().err().map(|refusal| refusal.error);
    // Of those that look only those are told that look too often.
    if !matches!(call, Call::GraphRead { .. } | Call::GraphShow { .. }) || refused == Some(Error::Again) {
        handle.graph_calls.count(refused);
    }
    Some(done.unwrap_or_else(|GraphRefusal { error, why }| {
        let fits = why.floor_char_boundary(GRAPH_TEXT_MAX);
        Answer::Unchanged { error, why: GraphText(why[..fits].to_owned()) }
    }))
}

fn carry_out(program: &impl Way, call: &Call) -> Result<Answer, GraphRefusal> {
    match call {
        Call::GraphApply { graph, text, base, .. } => {
            let (name, text, base) = (graph.clone(), text.0.clone(), graphs::based(*base));
            let wish = GraphWish { name, text, role: None, take: None, base, place: None };
            graphs::apply(program, wish).map(applied)
        }
        Call::GraphEdit { graph, disconnect, remove, connect, base, .. } => {
            let edit = graphs::edit_of(graph.clone(), [&disconnect.0, &remove.0, &connect.0], *base);
            graphs::edit(program, edit).map(applied)
        }
        Call::GraphRead { graph, handler, .. } => {
            let read = graphs::read(program, graph, handler)?;
            message(read.value).map(|text| Answer::Said { text })
        }
        Call::GraphWrite { graph, handler, value, .. } => {
            graphs::write(program, graph, handler, &value.0).map(|_| Answer::Done {})
        }
        Call::GraphShow { graph, .. } => {
            let shown = graphs::show(program, graph)?;
            let facts = facts(&shown.graph);
            message(shown.text).map(|text| Answer::Graph { facts, text })
        }
        _ => Err(refused(Error::Invalid)),
    }
}

fn applied(applied: Applied) -> Answer {
    Answer::Number { number: applied.generation.into() }
}

fn message(text: String) -> Result<GraphText, GraphRefusal> {
    if text.len() <= GRAPH_TEXT_MAX {
        return Ok(GraphText(text));
    }
    let why = format!("{} bytes are more than an answer has, {GRAPH_TEXT_MAX}", text.len());
    Err(GraphRefusal::new(Error::Limit, why))
}

fn facts(graph: &Graph) -> GraphFacts {
    let Graph { came, begun, left, used, dropped, held, generation, engines, ref place, .. } = *graph;
    let in_kernel = place == "kernel";
    GraphFacts { came, begun, left, used, dropped, held, generation, engines: engines as u32, in_kernel }
}
