//! What a node knows of parts of graphs: those that it has asked others to run ([`super::offering`]), and those of neighbours that it runs
//! itself ([`super::hosting`]).

use crate::graph::remote::PartPlace;
use crate::graph::running::GRAPHS_MAX;
use crate::graph::spec::PreparedGraph;
use crate::wire::Addr;
use crate::wire::part::PartCounts;

/// What a packet from another node has come by, in the place of a channel.
pub(super) const PASSED: u32 = u32::MAX - 1;

/// Pieces of offers that one neighbour may send in a second, and at once: what it costs to read a text is the node's.
pub(super) const PIECES_PER_SECOND: u64 = 512;
pub(super) const PIECES_AT_ONCE: u64 = 1024;

/// A text that is whole counts as a piece more for each so many bytes: it is checked, and engines are made of it. That takes some
/// microseconds, so a neighbour has about a hundredth of the worker by it.
pub(super) const READ_PIECE: usize = 256;

/// So does one whose packets an extension marshals: memory for its module is made.
pub(super) const MARSHAL_PIECES: u64 = 64;

/// Other messages about parts that one neighbour may send in a second, and at once.
pub(super) const MESSAGES_PER_SECOND: u64 = 512;
pub(super) const MESSAGES_AT_ONCE: u64 = 1024;

/// Parts of all neighbours together: the other graphs that a node may run are its operator's.
pub(super) const PARTS_MAX: usize = GRAPHS_MAX / 2;

/// A part of a graph at another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphPart {
    /// The node.
    pub node: Addr,
    /// The part's own generation.
    pub generation: u32,
    /// What marshals packets on the way there, if not the node itself.
    pub marshal: Option<String>,
    /// Whether it has said lately that it runs.
    pub answers: bool,
    /// Why it does not run, if its node has said so.
    pub lost: Option<String>,
    /// Packets that went there, and that came from there.
    pub sent: u64,
    /// See [`GraphPart::sent`].
    pub back: u64,
    /// What has become of packets there, as it said last.
    pub counts: PartCounts,
}

/// Whose part of a graph it is.
pub(super) struct Hosted {
    /// Until when, if it is not said again.
    pub(super) until: u64,
    /// The part that it becomes when the neighbour's graph has become another one.
    pub(super) next: Option<(PartPlace, PreparedGraph)>,
}

/// A text that is coming.
pub(super) struct Coming {
    pub(super) place: PartPlace,
    pub(super) has: u64,
    pub(super) text: Vec<u8>,
    pub(super) until: u64,
}

/// What an offer is answered.
pub(super) enum Reply {
    /// It is not whole yet.
    Has(u64),
    Accepted,
    Refused(String),
}

/// What a node has said to an offer.
pub(super) enum Answer {
    /// Nothing yet, but which pieces have come.
    Awaited(u64),
    Accepted,
    Refused(String),
}

/// A part that is offered.
pub(super) struct Offered {
    pub(super) node: String,
    pub(super) place: PartPlace,
    pub(super) text: Vec<u8>,
    pub(super) answer: Answer,
}

/// All parts of one graph, for its next generation.
pub(super) struct Offer {
    pub(super) number: u32,
    pub(super) name: String,
    pub(super) parts: Vec<Offered>,
    pub(super) tries: u8,
    pub(super) next: u64,
    pub(super) until: u64,
}

/// A part that runs at another node.
pub(super) struct Kept {
    pub(super) place: PartPlace,
    /// What marshals packets on the way there.
    pub(super) marshal: Option<String>,
    /// When it last said that it runs.
    pub(super) heard: u64,
    /// Whether its silence was said.
    pub(super) is_silent: bool,
    /// Why it does not run, if its node has said so: then it is offered again.
    pub(super) lost: Option<String>,
    /// What is offered.
    pub(super) text: Vec<u8>,
    /// How often it was since it last ran for long, when it is next, and since when it runs.
    pub(super) tries: u32,
    pub(super) again: u64,
    pub(super) runs_since: u64,
    /// Packets that went there, and that came from there.
    pub(super) sent: u64,
    pub(super) back: u64,
    /// What has become of packets there, as it said last.
    pub(super) counts: PartCounts,
}

impl Kept {
    /// What is said of it.
    pub(super) fn told(&self) -> GraphPart {
        let PartPlace { addr, generation, .. } = self.place;
        let (answers, lost) = (!self.is_silent, self.lost.clone());
        let marshal = self.marshal.clone();
        GraphPart {
            node: addr,
            generation,
            marshal,
            answers,
            lost,
            sent: self.sent,
            back: self.back,
            counts: self.counts,
        }
    }
}
