//! Graphs of the principal's role, for principals whose role lists these services and has `[role.graphs]`.
//!
//! The packet waits while the node does what is asked for, and goes on with what came of it. What is refused raises an exception, and
//! `graphWhy()` has the words.

use super::super::evaluate::At;
use super::super::graphs::{GraphDeed, GraphSaid};
use super::{Given, tuple, wrong};
use plan::eval::{self, State};
use plan::value::Value;

/// Their names, which the table of services knows: not everybody sees them.
pub const NAMES: [&str; 5] = ["graphEdit", "graphApply", "graphRead", "graphWrite", "graphShow"];

pub fn edit(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [graph, disconnect, remove, connect, Value::Int(base)] = given else { return wrong("graphEdit") };
    let [graph, disconnect, remove, connect] = texts(at, [graph, disconnect, remove, connect])?;
    let base = based(at, *base)?;
    generation(at.ask_graph(graph, GraphDeed::Edit { disconnect, remove, connect, base }, state)?)
}

pub fn apply(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [graph, text, Value::Int(base)] = given else { return wrong("graphApply") };
    let [graph, text] = texts(at, [graph, text])?;
    let base = based(at, *base)?;
    generation(at.ask_graph(graph, GraphDeed::Apply { text, base }, state)?)
}

pub fn read(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [graph, handler] = given else { return wrong("graphRead") };
    let [graph, handler] = texts(at, [graph, handler])?;
    match at.ask_graph(graph, GraphDeed::Read { handler }, state)? {
        GraphSaid::Text(text) => Ok(Value::text(text.into_bytes())),
        _ => wrong("graphRead"),
    }
}

pub fn write(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [graph, handler, value] = given else { return wrong("graphWrite") };
    let [graph, handler, value] = texts(at, [graph, handler, value])?;
    at.ask_graph(graph, GraphDeed::Write { handler, value }, state).map(|_| Value::Unit)
}

pub fn show(at: &mut At<'_>, given: &[Value], state: &mut State<'_>) -> Given {
    let [graph] = given else { return wrong("graphShow") };
    let [graph] = texts(at, [graph])?;
    match at.ask_graph(graph, GraphDeed::Show, state)? {
        GraphSaid::Shown(text, number) => tuple([Value::text(text.into_bytes()), Value::Int(number.into())]),
        _ => wrong("graphShow"),
    }
}

pub fn why(at: &mut At<'_>, _: &[Value], _: &mut State<'_>) -> Given {
    Ok(Value::text(at.state.graphs.why().as_bytes()))
}

fn generation(said: GraphSaid) -> Given {
    match said {
        GraphSaid::Generation(number) => Ok(Value::Int(number.into())),
        _ => wrong("graphEdit"),
    }
}

fn texts<const N: usize>(at: &mut At<'_>, given: [&Value; N]) -> eval::Result<[String; N]> {
    let bytes = given.iter().map(|value| if let Value::Text(bytes) = value { bytes.len() } else { 0 }).sum();
    at.fit_graph(bytes)?;
    let mut texts = [const { String::new() }; N];
    for (text, value) in texts.iter_mut().zip(given) {
        let Value::Text(bytes) = value else { return wrong("graph").map(|_| texts) };
        *text = std::str::from_utf8(bytes).map_err(|_| at.no_graph("a text that is not UTF-8"))?.to_owned();
    }
    Ok(texts)
}

fn based(at: &mut At<'_>, base: i64) -> eval::Result<u32> {
    u32::try_from(base).map_err(|_| at.no_graph("a base is the number of a generation, or 0"))
}
