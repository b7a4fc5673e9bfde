//! Parts of neighbours' graphs that run at this node, as far as it grants them.
//!
//! ```text
//! pieces of a text ─▶ whole ─▶ checked, in the neighbour's role ─▶ accepted ─┬─ the first of its name: runs
//!                       │ no role, too many, wrong                         └─ beside the one before ─▶ keep, or a packet ─▶ runs
//!                       └─▶ refused: why
//! ```
//!
//! A part is a graph like those of this node's operator: it has a domain of its own, in the role that the operator has given the neighbour,
//! and its generations replace each other in the same way. It takes nothing here; packets come to it from the neighbour, and go back
//! there or leave by devices. It ends if its neighbour says so, or says nothing for a while.

use super::parts::{Coming, Hosted, MARSHAL_PIECES, PARTS_MAX, READ_PIECE, Reply};
use super::shown::GraphTraffic;
use super::swapping::{Before, device};
use super::{GraphEditor, Running, RunningGraphs, placing::Placed};
use crate::core::domain::DomainId;
use crate::frame::PortId;
use crate::graph::placement::GraphPlace;
use crate::graph::remote::{PartMarshal, PartPlace};
use crate::graph::running::GRAPHS_MAX;
use crate::graph::spec::{GraphSpec, PreparedGraph};
use crate::node::Cx;
use crate::node::output::{Ingress, Turn};
use crate::nodeos::interface::HostId;
use crate::wire::part::{Message, PIECE, PartCounts, PartTitle, WHY_MAX};
use crate::wire::{Addr, Digest};

/// Texts of one neighbour of which pieces have come, at most; its own that has waited longest gives way.
const TEXTS_MAX: usize = 4;

/// How long a text waits for its other pieces, in nanoseconds.
const TEXT_FOR: u64 = 5_000_000_000;

/// How long a part runs of which its neighbour says nothing, in nanoseconds.
pub const LEASE: u64 = 10_000_000_000;

impl Reply {
    /// Says it.
    pub(super) fn tell(&self, cx: &mut Cx, turn: &mut Turn<'_>, place: &PartPlace) {
        let message = match self {
            Reply::Has(pieces) => Message::Has(*pieces),
            Reply::Accepted => Message::Accepted,
            Reply::Refused(why) => Message::Refused(&why[..why.floor_char_boundary(WHY_MAX)]),
        };
        cx.tell_part(turn, place, &message);
    }
}

impl Running {
    /// Of a part of a neighbour's graph, that neighbour.
    pub(super) fn owner(&self) -> Option<Addr> {
        self.hosted.as_ref().and(self.now.remotes.places.first()).map(|place| place.addr)
    }
}

impl RunningGraphs {
    /// The part of a neighbour's graph.
    fn hosted(&self, (port, addr): (PortId, Addr), graph: u32) -> Option<usize> {
        let is_it = |place: &PartPlace| (place.port, place.addr, place.graph) == (port, addr, graph);
        self.list.iter().position(|it| it.hosted.is_some() && it.now.remotes.places.first().is_some_and(is_it))
    }

    /// A piece of a text has come.
    pub(super) fn take_piece(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        (place, from): (&PartPlace, Ingress),
        (number, length, piece): (u16, u32, &[u8]),
    ) -> Reply {
        let Some(role) = cx.part_role(place.port, place.addr).map(str::to_owned) else {
            return Reply::Refused(format!(
                "it runs no parts of graphs of {}: its operator gives a neighbour a role for them (graphs = \"ROLE\" of the neighbour)",
                place.addr
            ));
        };
        if let Some(graph) = self.hosted((place.port, place.addr), place.graph).and_then(|at| self.list.get(at)) {
            let next = graph.hosted.as_ref().and_then(|hosted| hosted.next.as_ref());
            if [Some(graph.now.number), next.map(|(next, _)| next.generation)].contains(&Some(place.generation)) {
                return Reply::Accepted;
            }
        }
        let Some(at) = self.coming(place, length, turn.now) else {
            return Reply::Refused("its pieces are of texts of several lengths".into());
        };
        let coming = &mut self.coming[at];
        let begin = usize::from(number) * PIECE;
        if let Some(to) = coming.text.get_mut(begin..begin + piece.len()) {
            to.copy_from_slice(piece);
            coming.has |= 1 << number;
        }
        if (coming.has.count_ones() as usize) < coming.text.len().div_ceil(PIECE) {
            return Reply::Has(coming.has);
        }
        let title = coming.text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let marshals = if title.contains(&b' ') { MARSHAL_PIECES } else { 0 };
        let read = coming.text.len().div_ceil(READ_PIECE) as u64 + marshals;
        if !self.pieces.charge(turn.now, from, read) {
            // It is asked for again.
            coming.has &= !(1 << number);
            return Reply::Has(coming.has);
        }
        let text = self.coming.remove(at).text;
        match self.accept(cx, turn, place, &text, role) {
            Ok(()) => Reply::Accepted,
            Err(why) => Reply::Refused(why),
        }
    }

    /// Where pieces of a text are put together: a neighbour has one text at a time of each graph.
    fn coming(&mut self, place: &PartPlace, length: u32, now: u64) -> Option<usize> {
        if let Some(at) = self.coming.iter().position(|known| known.place == *place) {
            return (self.coming[at].text.len() == length as usize).then_some(at);
        }
        let is_before = |known: &Coming| {
            (known.place.port, known.place.addr, known.place.graph) == (place.port, place.addr, place.graph)
        };
        self.coming.retain(|known| !is_before(known));
        let is_its = |known: &Coming| (known.place.port, known.place.addr) == (place.port, place.addr);
        if self.coming.iter().filter(|known| is_its(known)).count() >= TEXTS_MAX {
            self.coming.iter().position(is_its).map(|oldest| self.coming.remove(oldest));
        }
        self.coming.push(Coming { place: *place, has: 0, text: vec![0; length as usize], until: now + TEXT_FOR });
        Some(self.coming.len() - 1)
    }

    /// A text is whole: what it says is made, and runs beside what there is of it, or if there is nothing, at once.
    fn accept(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        place: &PartPlace,
        text: &[u8],
        role: String,
    ) -> Result<(), String> {
        let text = core::str::from_utf8(text).map_err(|_| "its text is not UTF-8")?;
        let (PartTitle { name, marshal }, text) = PartTitle::parse(text).map_err(|_| "its text begins with no name")?;
        let granted = cx.control.roles.of_name(&role).map_err(|why| why.to_string())?;
        let within = GraphEditor { role: granted };
        within.check_text(text)?;
        let spec =
            GraphSpec { name: name.into(), role, text: text.into(), place: GraphPlace::User, ..GraphSpec::default() };
        let marshal = marshal.map(|(by, digest)| self.marshal(by, &digest)).transpose()?;
        let prepared = spec.prepare_part(&place.addr.to_string(), within.engines(), marshal)?;
        within.check(&prepared)?;
        let ports = &cx.core.topology.ports;
        if let Some(name) = prepared.devices().find(|name| device(ports, name).is_none()) {
            return Err(format!("no port with a link of its own is called {name} there"));
        }
        let Some(at) = self.hosted((place.port, place.addr), place.graph) else {
            return self.begin_hosted(cx, turn, place, prepared);
        };
        let graph = &mut self.list[at];
        if graph.spec.name != prepared.spec().name || graph.spec.role != prepared.spec().role {
            return Err(format!("it runs a part of that graph as {} in another role: end that first", graph.spec.name));
        }
        if let Some(hosted) = &mut graph.hosted {
            hosted.next = Some((*place, prepared));
        }
        Ok(())
    }

    /// What marshals packets under this name, if it is the neighbour's too: of the same module.
    fn marshal(&self, name: &str, digest: &Digest) -> Result<PartMarshal, String> {
        let class = self.brought.marshal(name).map_err(|why| format!("{why} there"))?;
        match class.marshals().filter(|own| *own != digest) {
            Some(own) => Err(format!(
                "its extension {} is another one: of the module {}, and not {}",
                class.extension,
                own.short(),
                digest.short()
            )),
            None => PartMarshal::new(name, &self.brought),
        }
    }

    /// The first part of a graph runs from now on.
    fn begin_hosted(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        place: &PartPlace,
        prepared: PreparedGraph,
    ) -> Result<(), String> {
        let GraphSpec { name, role, .. } = prepared.spec().clone();
        let environment = self.place.ok_or("there are no graphs")?;
        let role = cx.control.roles.environment(&cx.core.name, &name, &role).map_err(|why| why.to_string())?;
        let is_of = |known: &PartPlace| (known.port, known.addr) == (place.port, place.addr);
        let hosted = self.list.iter().filter(|it| it.hosted.is_some());
        let own: Vec<_> = hosted.filter(|it| it.now.remotes.places.first().is_some_and(is_of)).collect();
        // Its neighbour has begun anew, and knows nothing of the one of before.
        let before = own.iter().find(|it| it.spec.name == name).map(|it| it.domain);
        let others = own.len() - usize::from(before.is_some());
        let most = role.grants.graph_parts;
        if self.list.len() - usize::from(before.is_some()) >= GRAPHS_MAX {
            return Err(format!("it runs {GRAPHS_MAX} graphs, which are all that it may: end one there"));
        }
        let all = self.list.iter().filter(|it| it.hosted.is_some()).count() - usize::from(before.is_some());
        if all >= PARTS_MAX {
            return Err(format!("it runs {PARTS_MAX} parts of graphs, which are all that it may: end one there"));
        }
        if others >= usize::from(most) {
            return Err(format!(
                "it runs {others} parts of graphs of {}, and the role {} grants {most} (grants.graph_parts): end one",
                place.addr, role.name
            ));
        }
        if let Some(before) = before {
            cx.end_domain(turn, before, |_| false);
        }
        let created = cx.add_domain(cx.control.management, name.clone(), HostId::NODE, (&role, role.grants), None);
        let domain = created.map_err(|error| error.help().to_owned())?;
        if let Some(known) = cx.core.domains.of(domain) {
            known.environment = environment;
        }
        let before = Before::nothing(domain);
        self.put_hosted(cx, turn, place, prepared, &before).inspect_err(|_| {
            cx.end_domain(turn, domain, |_| false);
        })
    }

    fn put_hosted(
        &mut self,
        cx: &mut Cx,
        turn: &mut Turn<'_>,
        place: &PartPlace,
        prepared: PreparedGraph,
        before: &Before,
    ) -> Result<(), String> {
        let ports = &cx.core.topology.ports;
        let bound = prepared.bind(place.generation, |name| device(ports, name), vec![*place]);
        let (spec, generation) =
            bound.map_err(|name| format!("no port with a link of its own is called {name} there"))?;
        let name = spec.name.clone();
        let placed = Placed { slot: None, why: "it is a part of another node's graph".into() };
        let kept = self.put(cx, turn, (spec, Vec::new(), generation), placed, before);
        let until = turn.now + LEASE;
        if let Some(graph) = self.at(before.domain).and_then(|at| self.list.get_mut(at)) {
            graph.hosted = Some(Hosted { until, next: None });
        }
        tracing::info!(
            event = "node",
            node = cx.core.name,
            name,
            generation = place.generation,
            kept,
            "a part of a graph runs"
        );
        Ok(())
    }

    /// A part becomes the next one, if that has this generation: its neighbour's graph has become another one.
    pub(super) fn begin_next(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, at: usize, generation: u32) {
        let Some(graph) = self.list.get_mut(at) else { return };
        let Some(hosted) = &mut graph.hosted else { return };
        let Some((place, prepared)) = hosted.next.take_if(|(next, _)| next.generation == generation) else { return };
        graph.receive(cx, turn);
        let mut before = Before::nothing(graph.domain);
        before.number = graph.now.number;
        if let Err(why) = self.put_hosted(cx, turn, &place, prepared, &before) {
            tracing::warn!(node = cx.core.name, why, "a part of a graph stays as it is");
        }
    }

    /// A neighbour says that its part is to run on, or from now on.
    pub(super) fn keep_hosted(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, place: &PartPlace) {
        let at = self.hosted((place.port, place.addr), place.graph);
        if let Some(at) = at {
            self.begin_next(cx, turn, at, place.generation);
        }
        let graph = at.and_then(|at| self.list.get_mut(at)).filter(|graph| graph.now.number == place.generation);
        match graph.and_then(|graph| graph.hosted.as_mut().map(|hosted| (hosted, graph.traffic))) {
            Some((hosted, traffic)) => {
                hosted.until = turn.now + LEASE;
                let GraphTraffic { came, left, dropped, held, .. } = traffic;
                cx.tell_part(turn, place, &Message::Runs(PartCounts { came, left, dropped, held }));
            }
            None => Reply::Refused("it runs no such part".into()).tell(cx, turn, place),
        }
    }

    /// A neighbour says that a part is to end.
    pub(super) fn end_hosted(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, place: &PartPlace) {
        self.coming.retain(|coming| coming.place != *place);
        let at = self.hosted((place.port, place.addr), place.graph);
        let Some(graph) = at.and_then(|at| self.list.get_mut(at)) else { return };
        let is_next = |next: &mut (PartPlace, PreparedGraph)| next.0.generation == place.generation;
        let is_given_up = graph.hosted.as_mut().is_some_and(|hosted| hosted.next.take_if(is_next).is_some());
        if !is_given_up && graph.now.number == place.generation {
            end(cx, turn, graph.domain, &graph.spec.name, "its neighbour says so");
        }
    }

    /// Parts end of which nobody has said anything for a while; so do texts of which pieces lack.
    pub(super) fn end_silent(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        self.coming.retain(|coming| coming.until > turn.now);
        for graph in &self.list {
            let Some(hosted) = &graph.hosted else { continue };
            let place = graph.now.remotes.places.first();
            let role = place.and_then(|place| cx.part_role(place.port, place.addr));
            let why = match () {
                () if hosted.until <= turn.now => "its neighbour is silent",
                () if role != Some(&*graph.spec.role) => "its neighbour has this role for parts no more",
                () => continue,
            };
            end(cx, turn, graph.domain, &graph.spec.name, why);
        }
    }
}

fn end(cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, name: &str, why: &str) {
    tracing::info!(event = "node", node = cx.core.name, name, why, "a part of a graph ends");
    cx.end_domain(turn, domain, |_| false);
}
