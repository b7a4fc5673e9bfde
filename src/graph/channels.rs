//! Channels: where graphs begin and end.
//!
//! An incoming channel says which packets are a domain's, an outgoing one where it may send and how much; a cut-through
//! channel joins one of each, so that packets pass without anybody's code (Snow on Silk §2.1; PLAN on OSKit §3.3). What a packet is
//! for is decided before anything is done for it ([`crate::classify::shapes`]), and the domain of its channel pays from there on.
//! What is then done for it is the form of the channel's graph ([`Form`]).

use super::exit::Target;
use super::form::{Exit, Form};
use super::half::{CutCounts, SharedCut};
use super::head::Head;
use super::rules::{SharedRules, Taker};
use super::table::Graph;
use super::taught::TaughtRules;
use crate::classify::filter::Filter;
use crate::classify::rule::Layer;
use crate::classify::shapes::{Demux, NoPlace};
use crate::core::domain::DomainId;
use crate::core::owned::{Beside, Owned, OwnedTable};
use crate::core::share::Bandwidth;
use crate::frame::WorkerId;
use crate::nodeos::interface::{ChanSpec, CutChanId, Error, InChanId, OutChanId};
use std::collections::HashMap;

/// Channels of a kind that one node has at the same time.
pub const CHANNELS_MAX: usize = 131_072;

/// Packets that have gone through a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Traffic {
    /// How many.
    pub packets: u64,
    /// Bytes of theirs, as the domain sees them.
    pub bytes: u64,
    /// Packets that were dropped at the channel.
    pub dropped: u64,
}

impl Traffic {
    /// Counts one.
    #[inline]
    pub fn count(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

impl From<NoPlace> for Error {
    fn from(why: NoPlace) -> Error {
        match why {
            NoPlace::Exists => Error::Exists,
            NoPlace::Full => Error::Full,
        }
    }
}

/// An incoming channel: a cache line with what every packet looks at, and behind it what few do.
#[derive(Debug)]
pub struct InChan {
    /// Who pays.
    pub domain: DomainId,
    /// What is done with its packets.
    pub form: Form,
    /// What came.
    pub traffic: Traffic,
    /// Packets that wait for the domain's turn.
    pub waiting: u16,
    /// How many may.
    room: u16,
    /// Whether several of its packets may have one turn of the domain.
    pub joins: bool,
    rest: Box<InRest>,
}

/// The colder part of an [`InChan`], which stands for it.
#[derive(Debug)]
pub struct InRest {
    /// What is its packets.
    pub filter: Filter,
    /// The engines that its packets pass before the domain sees them.
    pub graph: Graph,
    /// As it was asked for.
    pub spec: ChanSpec,
    beside: Beside<InChanId>,
}

/// An outgoing channel: two cache lines with what every packet looks at, and behind them what few do.
#[derive(Debug)]
pub struct OutChan {
    /// Who pays.
    pub domain: DomainId,
    /// What went.
    pub traffic: Traffic,
    /// Its packets' headers, once one was sent.
    pub head: Head,
    rest: Box<OutRest>,
}

/// The colder part of an [`OutChan`], which stands for it.
#[derive(Debug)]
pub struct OutRest {
    /// Where to.
    pub target: Target,
    /// The engines that its packets pass before they are sent.
    pub graph: Graph,
    /// As it was asked for.
    pub spec: ChanSpec,
    /// Bytes that may be sent now.
    pub bandwidth: Option<Bandwidth>,
    beside: Beside<OutChanId>,
}

const _: () = assert!(size_of::<InChan>() <= crate::sys::cache::LINE - 8);
const _: () = assert!(size_of::<OutChan>() <= 2 * crate::sys::cache::LINE - 8);

macro_rules! stands_for {
    ($whole:ident, $rest:ident) => {
        impl core::ops::Deref for $whole {
            type Target = $rest;
            fn deref(&self) -> &$rest {
                &self.rest
            }
        }

        impl core::ops::DerefMut for $whole {
            fn deref_mut(&mut self) -> &mut $rest {
                &mut self.rest
            }
        }
    };
}

stands_for!(InChan, InRest);
stands_for!(OutChan, OutRest);

/// A cut-through channel.
#[derive(Debug)]
pub struct CutChan {
    /// Who pays.
    pub domain: DomainId,
    /// Where packets come from.
    pub from: InChanId,
    /// Where they go.
    pub to: OutChanId,
    /// What went through, in both halves.
    pub traffic: Traffic,
    /// How the other half carries it, if it does.
    pub half: Option<CarriedCut>,
    /// Packets that passed by the other half.
    pub in_kernel: u64,
    beside: Beside<CutChanId>,
}

macro_rules! of_a_domain {
    ($channel:ident, $id:ident) => {
        impl Owned<$id> for $channel {
            type Owner = DomainId;

            fn owner(&self) -> DomainId {
                self.domain
            }

            fn beside(&self) -> Beside<$id> {
                self.beside
            }

            fn beside_mut(&mut self) -> &mut Beside<$id> {
                &mut self.beside
            }
        }
    };
}

of_a_domain!(InChan, InChanId);
of_a_domain!(OutChan, OutChanId);
of_a_domain!(CutChan, CutChanId);

/// A cut-through channel in the other half.
#[derive(Debug)]
pub struct CarriedCut {
    /// Which of those that look at frames before the node.
    pub(super) half: usize,
    /// What is shared with it.
    pub(super) shared: SharedCut,
    /// What of its counts is in the node's accounts.
    pub(super) seen: CutCounts,
}

impl CutChan {
    /// Whether its packets keep more of their headers than payload: both ends speak one protocol, IP or UDP, and have no engines.
    pub fn joins(from: &InChan, to: &OutChan) -> Option<Layer> {
        let same = from.filter.layer() == to.target.layer && from.graph.is_empty() && to.graph.is_empty();
        Some(to.target.layer).filter(|layer| same && matches!(layer, Layer::Ip | Layer::Udp))
    }
}

/// The channels of one type.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    pub(super) kind: u16,
    pub(super) ids: (InChanId, OutChanId),
    /// What came.
    pub came: Traffic,
    /// What went.
    pub went: Traffic,
}

/// The channels of a node.
#[derive(Debug)]
pub struct Channels {
    /// Incoming.
    pub ins: OwnedTable<InChanId, InChan>,
    /// Outgoing.
    pub outs: OwnedTable<OutChanId, OutChan>,
    /// Cut-through.
    pub cuts: OwnedTable<CutChanId, CutChan>,
    /// Which packet is for which incoming channel, of all workers.
    pub demux: Demux<Taker>,
    /// The same of rules that fixed fields cannot say.
    pub taught: TaughtRules,
    /// Memory for what they find.
    pub found: Vec<(Taker, Layer)>,
    /// Which worker this is, and what all of them tell each other of rules, if there are several.
    pub(super) worker: WorkerId,
    pub(super) shared: Option<SharedRules>,
    /// Rules that have another worker now: whose they were, and whose they are.
    pub(super) moved: Vec<(Taker, Taker)>,
    /// Rules of channels of this worker that are no more, and are still to be withdrawn.
    pub(super) left: Vec<(Filter, Taker)>,
    /// Those of the node's own environments.
    pub own: Vec<Own>,
    /// Incoming channels with engines, which may keep pieces of packets, by domain.
    keepers: HashMap<DomainId, Vec<InChanId>>,
}

impl Default for Channels {
    fn default() -> Channels {
        Channels::with_secret(0)
    }
}

impl Channels {
    /// No channels; the secret is the demultiplexer's.
    pub fn with_secret(secret: u64) -> Channels {
        Channels {
            ins: OwnedTable::new(CHANNELS_MAX),
            outs: OwnedTable::new(CHANNELS_MAX),
            cuts: OwnedTable::new(CHANNELS_MAX),
            demux: Demux::with_secret(secret),
            taught: TaughtRules::with_secret(secret),
            found: Vec::new(),
            worker: 0,
            shared: None,
            moved: Vec::new(),
            left: Vec::new(),
            own: Vec::new(),
            keepers: HashMap::new(),
        }
    }

    /// Whether any packets are a channel's.
    #[inline(always)]
    pub fn have_filters(&self) -> bool {
        !(self.demux.is_empty() && self.taught.is_empty())
    }

    /// Adds an incoming channel.
    pub fn add_in(
        &mut self,
        domain: DomainId,
        (filter, graph): (Filter, Graph),
        spec: &ChanSpec,
    ) -> Result<InChanId, Error> {
        let channel = InChan::new(domain, (filter.clone(), graph), spec);
        let id = self.ins.add(channel).map_err(|_| Error::Full)?;
        if let Err(why) = self.claim(&filter, self.taker(id, domain)) {
            self.ins.remove(id);
            return Err(why.into());
        }
        if self.ins.get(id).is_some_and(|channel| !channel.graph.is_empty()) {
            self.keepers.entry(domain).or_default().push(id);
        }
        Ok(id)
    }

    /// An incoming channel has come with its engines.
    pub(super) fn note_keeper(&mut self, id: InChanId, channel: &InChan) {
        if !channel.graph.is_empty() {
            self.keepers.entry(channel.domain).or_default().push(id);
        }
    }

    /// The channels of a domain have gone with their engines.
    pub(super) fn forget_keepers(&mut self, domain: DomainId) {
        self.keepers.remove(&domain);
    }

    /// Takes an incoming channel out, and the cut-through channel that it is part of. Its rule stays its own until that is withdrawn
    /// ([`super::Graphs::withdraw`]).
    pub fn remove_in(&mut self, id: InChanId) -> Option<InChan> {
        let channel = self.ins.remove(id)?;
        if let Some(keepers) = self.keepers.get_mut(&channel.domain) {
            keepers.retain(|keeper| *keeper != id);
            if keepers.is_empty() {
                self.keepers.remove(&channel.domain);
            }
        }
        if let Some(cut) = channel.form.cut() {
            self.cuts.remove(cut);
        }
        Some(channel)
    }

    /// Pieces of packets that wait for others.
    pub fn pieces(&self) -> u64 {
        self.keepers.values().map(|ids| self.pieces_in(ids)).sum()
    }

    /// The same of a domain.
    pub fn pieces_of(&self, domain: DomainId) -> u64 {
        self.keepers.get(&domain).map_or(0, |ids| self.pieces_in(ids))
    }

    fn pieces_in(&self, ids: &[InChanId]) -> u64 {
        ids.iter().filter_map(|id| self.ins.get(*id)).map(InChan::pieces).sum()
    }

    /// Adds an outgoing channel.
    pub fn add_out(
        &mut self,
        domain: DomainId,
        (target, graph): (Target, Graph),
        spec: &ChanSpec,
    ) -> Result<OutChanId, Error> {
        let bandwidth = (spec.net.bandwidth > 0).then(|| Bandwidth::new(spec.net.bandwidth));
        let head = Head::unknown(graph.is_empty() && bandwidth.is_none());
        let rest = Box::new(OutRest { target, graph, spec: spec.clone(), bandwidth, beside: Beside::default() });
        let channel = OutChan { domain, traffic: Traffic::default(), head, rest };
        self.outs.add(channel).map_err(|_| Error::Full)
    }

    /// Takes an outgoing channel out, and the cut-through channels that lead to it.
    pub fn remove_out(&mut self, id: OutChanId) -> Option<OutChan> {
        let channel = self.outs.remove(id)?;
        self.cuts_to(channel.domain, id).into_iter().for_each(|cut| drop(self.remove_cut(cut)));
        Some(channel)
    }

    /// The cut-through channels that lead to an outgoing one of a domain: both ends are the domain's.
    pub(super) fn cuts_to(&self, domain: DomainId, channel: OutChanId) -> Vec<CutChanId> {
        self.cuts.of(domain).filter(|(_, cut)| cut.to == channel).map(|(cut, _)| cut).collect()
    }

    /// Joins two channels of one domain.
    pub fn add_cut(&mut self, from: InChanId, to: OutChanId) -> Result<CutChanId, Error> {
        let source = self.ins.get_mut(from).ok_or(Error::Stale)?;
        let sink = self.outs.get(to).ok_or(Error::Stale)?;
        if source.domain != sink.domain {
            return Err(Error::Denied);
        }
        if source.form.cut().is_some() {
            return Err(Error::Exists);
        }
        // A program passes packets on to a function of its own, so none would come here.
        if matches!(source.filter, Filter::Passed) {
            return Err(Error::Invalid);
        }
        // What is routed keeps its headers, so nothing can be done to it.
        let routed = (source.filter.layer(), sink.target.layer) == (Layer::Ip, Layer::Ip);
        if routed && !(source.graph.is_empty() && sink.graph.is_empty()) {
            return Err(Error::Unsupported);
        }
        let (traffic, beside) = (Traffic::default(), Beside::default());
        let cut = CutChan { domain: source.domain, from, to, traffic, half: None, in_kernel: 0, beside };
        let id = self.cuts.add(cut).map_err(|_| Error::Full)?;
        source.form = match CutChan::joins(source, sink) {
            Some(Layer::Ip) => Form::Routed(id),
            Some(_) => Form::Readdressed(id),
            None => Form::Engines(Exit::Cut(id)),
        };
        Ok(id)
    }

    /// Parts them.
    pub fn remove_cut(&mut self, id: CutChanId) -> Option<CutChan> {
        let cut = self.cuts.remove(id)?;
        if let Some(source) = self.ins.get_mut(cut.from) {
            source.form = Form::plain(&source.graph);
        }
        Some(cut)
    }

    /// Takes out all channels of these domains: the incoming ones, and how many outgoing ones.
    pub fn remove_all(&mut self, domains: &[DomainId]) -> (Vec<(InChanId, InChan)>, usize) {
        // Both ends of a cut-through channel are of its domain.
        self.cuts.of_all(domains).into_iter().for_each(|id| drop(self.remove_cut(id)));
        let (ins, outs) = (self.ins.of_all(domains), self.outs.of_all(domains));
        outs.iter().for_each(|id| drop(self.outs.remove(*id)));
        (ins.into_iter().filter_map(|id| Some((id, self.remove_in(id)?))).collect(), outs.len())
    }
}

impl InChan {
    /// Packets of which its engines keep pieces.
    pub fn pieces(&self) -> u64 {
        self.graph.held()
    }

    pub(super) fn new(domain: DomainId, (filter, graph): (Filter, Graph), spec: &ChanSpec) -> InChan {
        let (room, form) = (spec.net.buffers, Form::plain(&graph));
        let rest = Box::new(InRest { filter, graph, spec: spec.clone(), beside: Beside::default() });
        InChan { domain, form, traffic: Traffic::default(), waiting: 0, room, joins: false, rest }
    }

    /// Whether as many packets wait as may.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.waiting >= self.room
    }

    /// What was its packets.
    pub fn into_filter(self) -> Filter {
        self.rest.filter
    }
}

impl OutChan {
    /// Takes so many bytes of the channel's bandwidth.
    #[inline]
    pub fn admit(&mut self, now: u64, bytes: usize) -> Result<(), Error> {
        if self.bandwidth.as_mut().is_none_or(|bandwidth| bandwidth.take(now, bytes as u64)) {
            return Ok(());
        }
        self.traffic.dropped += 1;
        Err(Error::Again)
    }

    /// Whether there are so many bytes of it; counts what finds less.
    pub fn could_admit(&mut self, now: u64, bytes: usize) -> bool {
        let has = self.bandwidth.as_mut().is_none_or(|bandwidth| bandwidth.has(now, bytes as u64));
        self.traffic.dropped += u64::from(!has);
        has
    }
}
