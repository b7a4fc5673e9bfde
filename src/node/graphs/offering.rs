//! Parts of graphs at other nodes, as the node sees them that has the graph.
//!
//! ```text
//! offer ─▶ pieces of each part's text ─▶ accepted by all ─▶ swapped here ─▶ keep, once a second ─▶ runs
//!            │ again, as long as pieces lack    │ refused, or no answer          │ end
//!            └──────────────────────────────────┴▶ what has accepted ends; the generation before runs on
//! ```
//!
//! Each offer has a number as the generation of its parts that no other one has. So nothing that comes late is taken for what is offered
//! now, and packets say for which generation they are.

use super::parts::{Answer, Kept, Offer, Offered};
use super::shown::no_graph;
use super::{GRAPHS_MAX, Running, RunningGraphs};
use crate::clean;
use crate::code::fetch::Source;
use crate::graph::remote::{PartPlace, node_of};
use crate::graph::spec::PreparedGraph;
use crate::node::output::Turn;
use crate::node::{Cx, Node};
use crate::wire::part::{Message, PIECE, PartHead, PartTitle, TEXT_MAX};
use crate::wire::{Addr, anep};
use core::mem::take;

/// Offers of a node that not all have answered, and those of them that graphs which wait may have: the others are operators'.
const OFFERS_MAX: usize = 16;
pub(super) const WAITING_OFFERS_MAX: usize = OFFERS_MAX / 2;

/// All offers of a node that have not been carried out.
const ALL_OFFERS_MAX: usize = GRAPHS_MAX;

/// How often what has no answer is said, and how long that is waited for each time, in nanoseconds.
const TRIES: u8 = 15;
const AGAIN: u64 = 200_000_000;

/// How long an offer that all have accepted can be carried out, in nanoseconds.
pub(super) const ACCEPTED_FOR: u64 = 10_000_000_000;

/// How often a part is told to run on, and after which silence it is said that it does not answer, in nanoseconds.
const KEEP: u64 = 1_000_000_000;
const SILENT: u64 = 4 * KEEP;

/// A part that its node has lost is offered again, and so is a graph that waits for its parts: after one [`KEEP`], then after twice as
/// long each time, up to so often doubled.
const DOUBLED_MAX: u32 = 6;

/// How long nothing is offered again after so many tries.
pub(super) fn pause(tries: u32) -> u64 {
    KEEP << tries.min(DOUBLED_MAX)
}

impl Cx {
    /// Says something about a part to the node where the other one is.
    pub(super) fn tell_part(&mut self, turn: &mut Turn<'_>, place: &PartPlace, message: &Message<'_>) {
        let PartPlace { port, peer, addr, graph, generation } = *place;
        let mut frame = turn.out.pool.take();
        match message.emit(PartHead { graph, generation }, frame.room()) {
            Ok(length) => {
                frame.received(length);
                self.send_to_neighbour(turn, frame, anep::type_id::PART, Source { port, peer, addr });
            }
            // Its pieces are shorter than a frame.
            Err(_) => turn.out.pool.give(frame),
        }
    }

    /// The neighbour of an address, which proves what it sends.
    fn prover(&self, node: &str) -> Result<Source, String> {
        let all = || self.core.topology.neighbours.iter();
        let addr: Option<Addr> = node.parse().ok();
        let Some(known) = all().find(|known| Some(known.addr) == addr) else {
            let names: Vec<_> = all().map(|known| known.addr.to_string()).collect();
            return Err(format!(
                "{node} is no neighbour of this node; there are: {}",
                if names.is_empty() { "none".to_owned() } else { names.join(", ") }
            ));
        };
        if !self.has_key(known.port, known.addr) {
            return Err(format!(
                "{node} has no key in common with this node, and parts of graphs go to who proves what he sends: give both one (keys of \
                 neighbours, docs/trust.md)"
            ));
        }
        Ok(Source { port: known.port, peer: known.peer, addr: known.addr })
    }
}

impl Node {
    /// Offers the parts of a graph that are to be at other nodes to these; the number of the offer. `base`: as of [`Node::run_graph`].
    pub fn offer_parts(
        &mut self,
        turn: &mut Turn<'_>,
        graph: &PreparedGraph,
        base: Option<u32>,
    ) -> Result<u32, String> {
        let name = &graph.spec().name;
        let named = |why: String| format!("graph {name}: {why}");
        self.check_bounds(graph.spec(), base).map_err(named)?;
        self.hold_waiting(turn, name);
        let offered = self.ask(|graphs: &mut RunningGraphs, cx| graphs.offer(cx, turn, graph));
        offered.unwrap_or_else(|| Err(no_graph(name))).map_err(named)
    }

    /// How many offers more there may be now: others have to be answered first.
    pub fn offers_free(&self) -> usize {
        let graphs: Option<&RunningGraphs> = self.environments.get();
        graphs.map_or(0, RunningGraphs::offers_free)
    }

    /// Whether all have accepted an offer. An error: one has not, and then it is withdrawn.
    pub fn is_accepted(&mut self, turn: &mut Turn<'_>, number: u32) -> Result<bool, String> {
        let accepted = self.ask(|graphs: &mut RunningGraphs, cx| {
            let Some(offer) = graphs.offers.iter().find(|offer| offer.number == number) else {
                return Err("its parts were offered too long ago: offer them again".to_owned());
            };
            let (name, accepted) = (offer.name.clone(), offer.accepted(turn.now));
            if accepted.is_err() {
                graphs.withdraw(cx, turn, number);
            }
            accepted.map_err(|why| format!("graph {}: {why}", clean::shown(&name)))
        });
        accepted.unwrap_or(Ok(false))
    }

    /// Whoever has been offered parts is not to run them.
    pub fn give_up_offer(&mut self, turn: &mut Turn<'_>, number: u32) {
        self.ask(|graphs: &mut RunningGraphs, cx| graphs.withdraw(cx, turn, number));
    }

    /// Where the parts of a graph are that is about to run: its offer is used up.
    pub(super) fn take_offer(&mut self, now: u64, graph: &PreparedGraph) -> Result<Vec<(PartPlace, Vec<u8>)>, String> {
        if graph.away().is_empty() {
            return Ok(Vec::new());
        }
        let taken = self.ask(|graphs: &mut RunningGraphs, _| {
            let is_it = |offer: &Offer| Some(offer.number) == graph.offer && offer.name == graph.spec().name;
            let at = graphs.offers.iter().position(is_it)?;
            let is_whole = graphs.offers[at].accepted(now) == Ok(true);
            is_whole
                .then(|| graphs.offers.swap_remove(at).parts.into_iter().map(|part| (part.place, part.text)).collect())
        });
        taken.flatten().ok_or_else(|| {
            "parts of it are to be at other nodes, which have to accept them first: give the text to anode graph apply".to_owned()
        })
    }
}

impl Offer {
    /// Whether all have accepted it; or who has not, and what to do.
    fn accepted(&self, now: u64) -> Result<bool, String> {
        for part in &self.parts {
            if let Answer::Refused(why) = &part.answer {
                return Err(format!("{} refuses its part: {}", part.node, clean::shown(why)));
            }
        }
        let silent = self.parts.iter().find(|part| matches!(part.answer, Answer::Awaited(_)));
        match silent {
            Some(part) if self.tries >= TRIES && now >= self.next => Err(format!(
                "{} does not answer: nothing has changed. Look whether it is up and knows this node's key (anode node status), then apply \
                 the text again",
                part.node
            )),
            silent => Ok(silent.is_none()),
        }
    }

    /// Says what has not come yet.
    fn say(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        (self.tries, self.next) = (self.tries + 1, turn.now + AGAIN);
        for part in &self.parts {
            let Answer::Awaited(has) = part.answer else { continue };
            offer_pieces(cx, turn, (&part.place, &part.text), has);
        }
    }
}

/// Sends the pieces of a part's text that its node does not have.
fn offer_pieces(cx: &mut Cx, turn: &mut Turn<'_>, (place, text): (&PartPlace, &[u8]), has: u64) {
    for (number, piece) in (0..).zip(text.chunks(PIECE)) {
        if has >> number & 1 == 0 {
            cx.tell_part(turn, place, &Message::Offer(number, text.len() as u32, piece));
        }
    }
}

impl RunningGraphs {
    /// How many offers more there may be now.
    pub(super) fn offers_free(&self) -> usize {
        let is_awaited = |part: &Offered| matches!(part.answer, Answer::Awaited(_));
        let awaited = self.offers.iter().filter(|offer| offer.parts.iter().any(is_awaited)).count();
        OFFERS_MAX.saturating_sub(awaited).min(ALL_OFFERS_MAX.saturating_sub(self.offers.len()))
    }

    fn offer(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, graph: &PreparedGraph) -> Result<u32, String> {
        let name = &graph.spec().name;
        if self.offers.iter().any(|offer| offer.name == *name) {
            return Err("somebody else is replacing it: look again (anode graph diff)".into());
        }
        if self.offers_free() == 0 {
            return Err(format!(
                "this node waits for answers to {OFFERS_MAX} offers of parts, which are all it may, or {ALL_OFFERS_MAX} have not been \
                 carried out: try again"
            ));
        }
        self.offered = self.offered.wrapping_add(1);
        let generation = self.offered;
        // The same as long as it runs: at its nodes one part takes over from the other.
        let known = self.find(name).and_then(|graph| graph.now.remotes.places.first()).map(|place| place.graph);
        let mut parts = Vec::new();
        for (at, (place, text)) in graph.away().iter().enumerate() {
            let (node, _) = node_of(place);
            let Source { port, peer, addr } = cx.prover(node)?;
            let marshal = graph.marshal(at).and_then(|by| Some((&*by.name, *by.marshals()?)));
            let text = format!("{}\n{text}", PartTitle { name, marshal }).into_bytes();
            if text.len() > TEXT_MAX {
                return Err(format!(
                    "its part at {node} has {} bytes as a text, and at most {TEXT_MAX} are sent: use fewer engines there, or shorter names",
                    text.len()
                ));
            }
            let graph = known.unwrap_or(generation);
            let place = PartPlace { port, peer, addr, graph, generation };
            if parts.iter().any(|other: &Offered| (other.place.port, other.place.addr) == (port, addr)) {
                return Err(format!("{node} is named twice, in two ways: use one"));
            }
            parts.push(Offered { node: node.to_owned(), place, text, answer: Answer::Awaited(0) });
        }
        let until = turn.now + ACCEPTED_FOR;
        let mut offer = Offer { number: generation, name: name.clone(), parts, tries: 0, next: 0, until };
        offer.say(cx, turn);
        self.offers.push(offer);
        Ok(generation)
    }

    /// Whoever has been offered parts is not to run them.
    pub(super) fn withdraw(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, number: u32) {
        let Some(at) = self.offers.iter().position(|offer| offer.number == number) else { return };
        let offer = self.offers.swap_remove(at);
        offer.parts.iter().for_each(|part| cx.tell_part(turn, &part.place, &Message::End));
    }

    /// A node has answered an offer, or says something of a part that it runs.
    pub(super) fn answered(&mut self, now: u64, from: &PartPlace, message: &Message<'_>) {
        let is_from = |place: &PartPlace| {
            (place.port, place.addr, place.graph, place.generation)
                == (from.port, from.addr, from.graph, from.generation)
        };
        let mut offered = self.offers.iter_mut().flat_map(|offer| &mut offer.parts);
        if let Some(part) = offered.find(|part| is_from(&part.place)) {
            match (message, &mut part.answer) {
                (Message::Has(pieces), Answer::Awaited(has)) => *has |= pieces,
                (Message::Accepted, answer @ Answer::Awaited(_)) => *answer = Answer::Accepted,
                (Message::Refused(why), answer) => *answer = Answer::Refused((*why).to_owned()),
                _ => {}
            }
            return;
        }
        let mut kept = self.list.iter_mut().flat_map(|graph| &mut graph.kept);
        let Some(kept) = kept.find(|kept| is_from(&kept.place)) else { return };
        (kept.heard, kept.is_silent) = (now, false);
        match message {
            Message::Runs(counts) => {
                kept.counts = *counts;
                if now >= kept.runs_since + (KEEP << DOUBLED_MAX) {
                    kept.tries = 0;
                }
            }
            Message::Accepted if kept.lost.is_some() => {
                tracing::info!(event = "node", node = %kept.place.addr, "a part of a graph runs again");
                (kept.lost, kept.runs_since) = (None, now);
            }
            Message::Refused(why) => {
                if kept.lost.is_none() {
                    let why = clean::shown(why);
                    tracing::warn!(node = %kept.place.addr, %why, "a part of a graph runs no more: it is offered again");
                    // Who takes it and loses it in turn is asked more and more seldom, too.
                    kept.again = if kept.tries == 0 { now } else { now + kept.pause() };
                }
                kept.lost = Some((*why).to_owned());
            }
            _ => {}
        }
    }

    /// Says again what has no answer, and to parts that they are to run on.
    pub(super) fn say_again(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        for offer in &mut self.offers {
            let is_awaited = offer.parts.iter().any(|part| matches!(part.answer, Answer::Awaited(_)));
            if is_awaited && offer.next <= turn.now && offer.tries < TRIES {
                offer.say(cx, turn);
            }
        }
        let late: Vec<_> =
            self.offers.iter().filter(|offer| offer.until <= turn.now).map(|offer| offer.number).collect();
        late.into_iter().for_each(|number| self.withdraw(cx, turn, number));
        let now = turn.now;
        for graph in self.list.iter_mut().filter(|graph| graph.next_keep <= now && !graph.kept.is_empty()) {
            graph.keep(cx, turn);
        }
    }
}

impl Kept {
    /// How long it is not offered again.
    fn pause(&self) -> u64 {
        pause(self.tries)
    }
}

impl Running {
    /// Its parts at other nodes are those of its generation from now on, and are told so.
    pub(super) fn begin_parts(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        let is_owner = self.hosted.is_none();
        let before = take(&mut self.kept);
        let texts = take(&mut self.now.remotes.texts);
        let marshals = self.now.remotes.marshals.iter().map(|by| by.as_ref().map(|by| by.class.name.clone()));
        let marshals = marshals.chain(core::iter::repeat(None));
        let kept = |((place, text), marshal): ((&PartPlace, Vec<u8>), Option<String>)| {
            let known = before.iter().find(|known| (known.place.port, known.place.addr) == (place.port, place.addr));
            Kept {
                place: *place,
                marshal,
                heard: turn.now,
                is_silent: false,
                lost: None,
                text,
                tries: 0,
                again: 0,
                runs_since: turn.now,
                sent: known.map_or(0, |known| known.sent),
                back: known.map_or(0, |known| known.back),
                counts: known.map_or_else(Default::default, |known| known.counts),
            }
        };
        self.kept = self.now.remotes.places.iter().zip(texts).zip(marshals).filter(|_| is_owner).map(kept).collect();
        self.keep(cx, turn);
    }

    fn keep(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        self.next_keep = turn.now + KEEP;
        for kept in &mut self.kept {
            if kept.lost.is_none() {
                cx.tell_part(turn, &kept.place, &Message::Keep);
            } else if kept.again <= turn.now {
                offer_pieces(cx, turn, (&kept.place, &kept.text), 0);
                kept.again = turn.now + kept.pause();
                kept.tries += 1;
            }
            if !kept.is_silent && turn.now >= kept.heard + SILENT {
                kept.is_silent = true;
                tracing::warn!(
                    node = %kept.place.addr, graph = self.spec.name,
                    "a part of a graph does not answer: look whether its node is up, or apply the graph without it"
                );
            }
        }
    }

    /// Parts of a generation that has ended and that the present one has none at the same nodes of are told to end; if the graph ends,
    /// all.
    pub(super) fn end_parts_at(&self, cx: &mut Cx, turn: &mut Turn<'_>, places: &[PartPlace], all: bool) {
        let goes_on = |place: &PartPlace| self.now.remotes.place((place.port, place.addr), place.graph).is_some();
        for place in places.iter().filter(|place| self.hosted.is_none() && (all || !goes_on(place))) {
            cx.tell_part(turn, place, &Message::End);
        }
    }
}
