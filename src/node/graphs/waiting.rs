//! Graphs that wait for their parts: those of a configuration whose neighbours are not there yet, or do not accept.
//!
//! ```text
//! start, way back ─▶ waits ─▶ offered ─▶ accepted by all ─▶ runs
//!                     ▲          │ refused, or no answer: why is shown
//!                     └──────────┘ again after 1, 2, 4 … 64 s
//! ```
//!
//! A graph that cannot run when the node starts stands here too, with why, and is not tried again: whoever mends what it is for applies
//! the configuration again.
//!
//! The node and its other graphs do not wait for it, and what ran under its name before runs on. Whoever applies another text of this name
//! means that instead: when it runs, this one waits no more.

use super::offering::{ACCEPTED_FOR, WAITING_OFFERS_MAX, pause};
use super::shown::{GraphStatus, GraphTraffic, ShownGraph};
use super::{RunningGraphs, Swapped};
use crate::core::domain::DomainId;
use crate::core::reason::Drops;
use crate::graph::spec::{GraphSpec, PreparedGraph};
use crate::node::Node;
use crate::node::output::Turn;
use core::mem::take;

/// A graph that waits.
pub(super) struct Waiting {
    spec: GraphSpec,
    /// Nothing: it cannot run, so it is not tried again.
    graph: Option<PreparedGraph>,
    /// What its nodes are asked now.
    offer: Option<u32>,
    /// How often it was offered, and when it is next.
    tries: u32,
    again: u64,
    /// Why it does not run yet.
    why: String,
}

impl Waiting {
    /// What is said of it.
    fn told(&self) -> String {
        let seconds = pause(self.tries.saturating_sub(1)) / 1_000_000_000;
        match (&self.graph, self.offer) {
            (None, _) => format!("does not run: {}", self.why),
            (_, Some(_)) if self.why.is_empty() => "waits for its parts, which are offered".to_owned(),
            (_, Some(_)) => format!("waits for its parts, which are offered again: {}", self.why),
            (_, None) if self.why.is_empty() => {
                "waits until parts of other graphs that are offered are answered".to_owned()
            }
            (_, None) => format!("waits for its parts, which are offered again after {seconds} s: {}", self.why),
        }
    }

    /// A graph of which there is nothing yet.
    fn status(&self) -> GraphStatus {
        GraphStatus {
            name: self.spec.name.clone(),
            role: self.spec.role.clone(),
            take: self.spec.take.clone(),
            domain: DomainId(0),
            generation: 0,
            older: 0,
            traffic: GraphTraffic::default(),
            engines: 0,
            asked: self.spec.place,
            in_kernel: false,
            why: String::new(),
            kernel_packets: 0,
            parts: Vec::new(),
            owner: None,
            edited: 0,
            edits: Vec::new(),
            waits: Some(self.told()),
            drops: Drops::default(),
        }
    }

    /// It is offered again after a while.
    fn fail(&mut self, now: u64, node: &str, why: String) {
        if self.tries == 0 {
            tracing::warn!(event = "node", node, graph = self.spec.name, why, "a graph waits for its parts");
        }
        (self.why, self.offer, self.again) = (why, None, now + pause(self.tries));
        self.tries = self.tries.saturating_add(1);
    }
}

impl RunningGraphs {
    /// What waits under this name.
    pub(super) fn waiting(&self, name: &str) -> Option<&Waiting> {
        self.waiting.iter().find(|waiting| waiting.spec.name == name)
    }

    /// What is said of what waits under this name.
    pub(super) fn waits(&self, name: &str) -> Option<String> {
        self.waiting(name).map(Waiting::told)
    }

    /// Those of which nothing runs.
    pub(super) fn all_waiting(&self) -> impl Iterator<Item = GraphStatus> {
        let has_none = |waiting: &&Waiting| self.find(&waiting.spec.name).is_none();
        self.waiting.iter().filter(has_none).map(Waiting::status)
    }

    /// One of those, with its text.
    pub(super) fn shown_waiting(&self, name: &str) -> Option<ShownGraph> {
        let waiting = self.waiting(name)?;
        let (status, text) = (waiting.status(), waiting.spec.text.clone());
        Some(ShownGraph { status, engines: Vec::new(), wires: Vec::new(), said: Vec::new(), text })
    }

    /// What was asked for under this name, and waits.
    pub(super) fn waiting_spec(&self, name: &str) -> Option<&GraphSpec> {
        self.waiting(name).map(|waiting| &waiting.spec)
    }
}

impl Node {
    /// Runs a graph as soon as all nodes that are to have parts of it have accepted these: they are asked again and again.
    pub fn await_graph(&mut self, turn: &mut Turn<'_>, graph: PreparedGraph) {
        let spec = graph.spec().clone();
        self.forget_waiting(turn, &spec.name);
        let waiting = Waiting { spec, graph: Some(graph), offer: None, tries: 0, again: 0, why: String::new() };
        self.ask(|graphs: &mut RunningGraphs, _| graphs.waiting.push(waiting));
        self.look_after_waiting(turn);
    }

    /// Says of a graph that it cannot run, as long as nothing else is meant by its name.
    pub fn refuse_graph(&mut self, turn: &mut Turn<'_>, spec: GraphSpec, why: String) {
        tracing::error!(event = "node", node = &*self.cx.core.name, graph = spec.name, why, "a graph does not run");
        self.forget_waiting(turn, &spec.name);
        let refused = Waiting { spec, graph: None, offer: None, tries: 0, again: 0, why };
        self.ask(|graphs: &mut RunningGraphs, _| graphs.waiting.push(refused));
    }

    /// Whether nothing runs of a graph, since it cannot.
    pub fn is_graph_refused(&self, name: &str) -> bool {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let is_refused = |it: &RunningGraphs| it.waiting(name).is_some_and(|it| it.graph.is_none());
        graphs.is_some_and(|graphs| is_refused(graphs) && graphs.find(name).is_none())
    }

    /// Graphs that wait, or cannot run, and what is said of them.
    pub fn waiting_graphs(&self) -> Vec<(String, String)> {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let waiting = graphs.into_iter().flat_map(|graphs| &graphs.waiting);
        waiting.map(|waiting| (waiting.spec.name.clone(), waiting.told())).collect()
    }

    /// A graph waits no more, since it is not wanted or something else is; whether it did.
    pub fn forget_waiting(&mut self, turn: &mut Turn<'_>, name: &str) -> bool {
        let forgotten = self.ask(|graphs: &mut RunningGraphs, cx| {
            let at = graphs.waiting.iter().position(|waiting| waiting.spec.name == name)?;
            let waiting = graphs.waiting.remove(at);
            waiting.offer.into_iter().for_each(|offer| graphs.withdraw(cx, turn, offer));
            Some(())
        });
        forgotten.flatten().is_some()
    }

    /// Whether just this waits to run, and may run.
    pub fn awaits_graph(&self, wanted: &GraphSpec) -> bool {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        let waiting = graphs.and_then(|graphs| graphs.waiting(&wanted.name)).filter(|waiting| waiting.spec == *wanted);
        let graph = waiting.and_then(|waiting| waiting.graph.as_ref());
        graph.is_some_and(|graph| !graph.brought().any(|class| class.is_gone()))
    }

    /// What was asked for last under this name: what waits, else what runs.
    pub fn wanted_graph(&self, name: &str) -> Option<GraphSpec> {
        let graphs: &RunningGraphs = self.environments.get()?;
        graphs.waiting_spec(name).cloned().or_else(|| self.graph_spec(name))
    }

    /// What waits under this name leaves its nodes alone for a while, since somebody else asks them.
    pub(super) fn hold_waiting(&mut self, turn: &mut Turn<'_>, name: &str) {
        self.ask(|graphs: &mut RunningGraphs, cx| {
            let waiting = graphs.waiting.iter_mut().find(|waiting| waiting.spec.name == name)?;
            waiting.again = turn.now + ACCEPTED_FOR;
            let offer = waiting.offer.take()?;
            graphs.withdraw(cx, turn, offer);
            Some(())
        });
    }

    /// Whether something waits under this name.
    pub fn has_waiting(&self, name: &str) -> bool {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        graphs.is_some_and(|graphs| graphs.waiting(name).is_some())
    }

    /// Offers what waits, as far as it is due, and runs what all have accepted.
    pub(in crate::node) fn look_after_waiting(&mut self, turn: &mut Turn<'_>) {
        let Some(graphs) = self.environments.get_mut::<RunningGraphs>().filter(|it| !it.waiting.is_empty()) else {
            return;
        };
        let mut all = take(&mut graphs.waiting);
        let mut free = WAITING_OFFERS_MAX.saturating_sub(all.iter().filter(|waiting| waiting.offer.is_some()).count());
        // Each has its turn: the one first that has waited longest.
        all.sort_by_key(|waiting| waiting.again);
        all.retain_mut(|waiting| {
            let had = waiting.offer.is_some();
            if !had && (free == 0 || self.offers_free() == 0) {
                return true;
            }
            let runs = self.try_waiting(turn, waiting);
            match (had, waiting.offer.is_some() && !runs) {
                (true, false) => free += 1,
                (false, true) => free -= 1,
                _ => {}
            }
            !runs
        });
        self.ask(|graphs: &mut RunningGraphs, _| graphs.waiting = all);
    }

    /// Whether it runs from now on.
    fn try_waiting(&mut self, turn: &mut Turn<'_>, waiting: &mut Waiting) -> bool {
        let Some(graph) = &mut waiting.graph else { return false };
        let (now, offer) = (turn.now, waiting.offer);
        let asked = match offer {
            None if waiting.again > now => return false,
            None => self.offer_parts(turn, graph, None).map(|offer| {
                (waiting.offer, graph.offer) = (Some(offer), Some(offer));
                false
            }),
            Some(offer) => self.is_accepted(turn, offer),
        };
        let node = self.cx.core.name.clone();
        match asked {
            Ok(false) => false,
            Ok(true) => match waiting.graph.take().map(|graph| self.run_graph(turn, graph, None)) {
                Some(Ok(Swapped { .. })) => true,
                Some(Err(why)) => {
                    tracing::error!(event = "node", node = &*node, why, "a graph does not run");
                    (waiting.why, waiting.offer) = (why, None);
                    false
                }
                None => false,
            },
            Err(why) => {
                waiting.fail(now, &node, why);
                false
            }
        }
    }
}
