//! From a graph to the plan of its program in the kernel, or why there is none.

use super::body::{Fused, FusedAt, FusedBody, FusedLabel, FusedLinks, NoForm};
use crate::contract::GRAPH_WORDS;
use crate::contract::plan::{KernelPlan, PLAN_BYTES};
use crate::graph::edges::EdgeKind;
use crate::graph::placement::GraphPlace;
use crate::graph::scratch::Hop;
use crate::graph::table::Graph;

/// A plan, with which engines are in it and where they count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fusion {
    /// What the program does.
    pub plan: KernelPlan,
    /// Numbers of the engines that packets can come to.
    pub engines: Vec<u16>,
    /// Why packets go up to the user half, for each engine at which they do.
    pub raised: Vec<String>,
    pub(super) links: FusedLinks,
}

/// Causes that are said together, at most.
const CAUSES: usize = 3;

impl Fusion {
    /// Whether all engines are in it that are to be in the kernel; or which is not, and why.
    pub fn has_all_of(&self, graph: &Graph) -> Result<(), String> {
        let Some(at) = must_fuse(graph).find(|at| !self.engines.contains(at)) else { return Ok(()) };
        let name = name(graph, at);
        let own =
            self.raised.iter().find(|why| why.strip_prefix(&name).is_some_and(|rest| rest.starts_with([' ', ':'])));
        Err(match (own, &self.raised[..]) {
            (Some(why), _) => why.clone(),
            (None, []) => format!("no packet of a device comes to {name}"),
            (None, whys) => {
                let whys = whys.get(..CAUSES).unwrap_or(whys);
                format!("no packet that comes to {name} stays there: {}", whys.join("; "))
            }
        })
    }
}

/// The engines that are to be in the kernel.
fn must_fuse(graph: &Graph) -> impl Iterator<Item = u16> {
    (0..).zip(graph.engines()).filter(|(_, placed)| placed.place == GraphPlace::Kernel).map(|(at, _)| at)
}

/// What the first engine is called that is to be in the kernel, if one is.
pub fn must_be_fused(graph: &Graph) -> Option<String> {
    must_fuse(graph).next().map(|at| name(graph, at))
}

/// How the engines of a graph are connected; nothing: there is no room for what they count.
fn links(graph: &Graph) -> Option<FusedLinks> {
    let mut links = FusedLinks::default();
    for placed in graph.engines() {
        let behind = placed.links.iter().map(|link| match link.to {
            Hop::Engine(engine, input) => Some((engine, input)),
            Hop::Exit | Hop::End => None,
        });
        links.behind.push(behind.collect());
        let own = links.count.checked_add(placed.links.len() as u16)?;
        links.starts.push((links.count, own));
        links.count = own.checked_add(placed.engine.as_ref().map_or(0, |engine| engine.kernel_words()))?;
    }
    for (at, placed) in (0..).zip(graph.engines()) {
        for (input, (before, output)) in (0..).zip(&placed.before) {
            let outputs = links.behind.get_mut(usize::from(*before));
            if let Some(behind) = outputs.and_then(|outputs| outputs.get_mut(usize::from(*output))) {
                *behind = Some((at, input));
            }
        }
    }
    (u32::from(links.count) <= GRAPH_WORDS).then_some(links)
}

/// What an engine is called, with its class.
fn name(graph: &Graph, engine: u16) -> String {
    let placed = graph.engines().get(usize::from(engine));
    placed.map_or_else(String::new, |placed| format!("{} :: {}", placed.name, placed.class.name()))
}

/// The body of an engine, or why it has none.
fn body(
    graph: &Graph,
    body: &mut FusedBody<'_>,
    (engine, input): (u16, u16),
    at: FusedAt,
    in_parts: bool,
) -> Result<FusedLabel, NoForm> {
    let placed = graph.engines().get(usize::from(engine));
    let Some(inner) = placed.and_then(|placed| placed.engine.as_ref()) else {
        return Err(NoForm::Behind("an engine is not there".to_owned()));
    };
    let is_user = placed.is_some_and(|placed| placed.place == GraphPlace::User);
    let made =
        if is_user { Err(NoForm::Because("it is to be @user".to_owned())) } else { inner.kernel(input, at, body) };
    let why = match made {
        Err(NoForm::Class) => format!("{} has no form there", name(graph, engine)),
        Err(NoForm::Because(why)) => format!("{}: {why}", name(graph, engine)),
        made => return made,
    };
    if in_parts { body.raise(why) } else { Err(NoForm::Behind(why)) }
}

/// Fuses a graph whose edges are ports of these numbers; or says why it cannot be done. `in_parts`: up to engines that have no form.
pub fn plan(graph: &Graph, in_parts: bool, port: impl Fn(u16) -> u32) -> Result<Fusion, String> {
    let links = links(graph).ok_or_else(|| format!("its engines would count in more than {GRAPH_WORDS} words"))?;
    let ask = |made: &mut FusedBody<'_>, engine: u16, input: u16, at: FusedAt| {
        body(graph, made, (engine, input), at, in_parts)
    };
    let named = |engine: u16| name(graph, engine);
    let mut body = FusedBody::new(&links, &ask, &named);
    let mut entries: Vec<(u32, FusedLabel)> = Vec::new();
    let is_device =
        |edge: &u16| graph.places.all.get(usize::from(*edge)).is_none_or(|(kind, _)| *kind != EdgeKind::Remote);
    // What other nodes send comes to the user half alone.
    for (edge, engine) in graph.entrances().filter(|(edge, _)| is_device(edge)) {
        let number = port(edge);
        if entries.iter().any(|(known, _)| *known == number) {
            return Err(
                "packets of one device come in at two places: they would be copied, and the kernel copies none".into(),
            );
        }
        let label = body.enter(engine, 0, FusedAt::default()).map_err(said)?;
        entries.push((number, label));
    }
    if entries.is_empty() {
        return Err("nothing comes in by a device".into());
    }
    let Fused { entries, exits, blocks, engines, raised } = body.finish(&entries).map_err(said)?;
    let exits = exits.iter().map(|edge| port(*edge as u16)).collect();
    let plan = KernelPlan { entries, exits, blocks };
    if serde_json::to_vec(&plan).is_ok_and(|bytes| bytes.len() <= PLAN_BYTES) && plan.is_sound() {
        Ok(Fusion { plan, engines, raised, links })
    } else {
        Err("it would be too long a program".into())
    }
}

fn said(why: NoForm) -> String {
    match why {
        NoForm::Behind(why) | NoForm::Because(why) => why,
        NoForm::Class => "an engine has no form there".to_owned(),
    }
}
