//! A survey: all that a node counts, copied a few rows at a time. Example: of 10,000 domains the worker copies 60 between
//! two batches of packets, goes on with the packets, and copies 60 more behind the next batch.
//!
//! Each row is right by itself: it is copied between two packets, with what waits of it. Rows of different slices are of
//! different moments. What has come since the survey began may be missing in it, and so is what has gone.
//!
//! The node reads no clock: whoever drives it says when a slice is over.

use super::capsules::Capsules;
use super::domains::{ChannelStatus, DomainStatus};
use super::hello::Hellos;
use super::status::Status;
use super::{Cx, Node};
use crate::core::domain::DomainId;
use crate::frame::{Frame, PortId};
use crate::graph::Traffic;
use crate::graph::channels::{CutChan, InChan, OutChan};
use crate::nodeos::interface::{CutChanId, InChanId, OutChanId};
use crate::trust::PrincipalId;
use std::collections::{HashMap, HashSet};
use std::mem::MaybeUninit;

/// Nanoseconds after which whoever drives a survey ends a slice: a slice is over some rows later, and packets wait for no more than 50 µs,
/// interrupts and memory that is met for the first time included.
pub const SLICE_NS: u64 = 15_000;

/// Rows after which it is asked whether a slice is over, since a clock may cost a quarter of a row.
const ROWS: usize = 4;

/// Domains that are foreseen before their turn.
const AHEAD: usize = 3;

/// Domains that are noted at once to be looked at later: a parent may have thousands, and a slice is short.
pub const NOTED_AT_ONCE: usize = 256;

/// Of what a survey is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surveyed {
    /// The counter tree, and all domains.
    Counters,
    /// All channels.
    Channels,
}

/// How far a survey is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// What has passed by the other half is added to the accounts of this one.
    Settle,
    /// Whom revocations concern.
    Disowned,
    Head,
    Codes,
    Neighbours,
    Domains,
    Ins,
    Outs,
    Cuts,
    Done,
}

/// What a survey has cost whoever made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SurveyCost {
    /// Slices.
    pub slices: u64,
    /// All of them together, in nanoseconds.
    pub worked_ns: u64,
    /// The longest of them.
    pub longest_ns: u64,
}

/// A survey under way, and what it has found so far.
#[derive(Debug)]
pub struct Survey {
    of: Surveyed,
    stage: Stage,
    /// The row of the stage that is next; of codes, how many are left.
    at: usize,
    /// Domains to be looked at, the next one last.
    open: Vec<DomainId>,
    /// A domain of which so many children, the first ones, are not among those yet.
    noting: Option<(DomainId, usize)>,
    noted: Noted,
    disowned: HashSet<PrincipalId>,
    status: Option<Box<Status>>,
    domains: Vec<DomainStatus>,
    channels: Vec<ChannelStatus>,
    waiting: usize,
    cost: SurveyCost,
}

/// Places of domains that were noted, a bit each.
#[derive(Debug, Default)]
struct Noted(Vec<u64>);

impl Noted {
    /// Whether this is the first time.
    fn is_new(&mut self, id: DomainId) -> bool {
        let (word, bit) = (id.index() / 64, 1 << (id.index() % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let Some(word) = self.0.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

impl Survey {
    /// One that has not begun.
    pub fn of(of: Surveyed) -> Survey {
        Survey {
            of,
            stage: Stage::Settle,
            at: 0,
            open: Vec::new(),
            noting: None,
            noted: Noted::default(),
            disowned: HashSet::new(),
            status: None,
            domains: Vec::new(),
            channels: Vec::new(),
            waiting: 0,
            cost: SurveyCost::default(),
        }
    }

    /// The same with room for so many domains, so that whoever surveys them need not make it. The memory is written to, else the
    /// system clears a page of it, perhaps a huge one, in the middle of a slice.
    pub fn with_room(mut self, domains: usize) -> Survey {
        self.domains.reserve(domains);
        self.domains.spare_capacity_mut().fill_with(MaybeUninit::zeroed);
        self
    }

    /// A slice has taken so long, in nanoseconds.
    pub fn spent(&mut self, nanoseconds: u64) {
        self.cost.slices += 1;
        self.cost.worked_ns += nanoseconds;
        self.cost.longest_ns = self.cost.longest_ns.max(nanoseconds);
    }

    /// What it has cost.
    pub fn cost(&self) -> SurveyCost {
        self.cost
    }

    /// The counter tree and the domains, each behind the one above it; and how many packets wait for their turn. Nothing: it was of
    /// something else.
    pub fn counters(self) -> Option<(Status, Vec<DomainStatus>, usize)> {
        let (mut status, mut domains) = (*self.status?, self.domains);
        // Not by the worker; and one that was met twice is there once, as it was seen last.
        status.codes.reverse();
        status.codes.sort_by(|one, other| one.name.cmp(&other.name));
        status.codes.dedup_by(|one, other| one.name == other.name);
        let codes: HashMap<u32, &String> =
            status.codes.iter().filter_map(|code| Some((code.domain?, &code.name))).collect();
        if !codes.is_empty() {
            domains.iter_mut().for_each(|domain| domain.code = codes.get(&domain.id).map(|name| (*name).clone()));
        }
        Some((status, domains, self.waiting))
    }

    /// The channels.
    pub fn channels(self) -> Vec<ChannelStatus> {
        self.channels
    }

    /// Nothing is left to be settled.
    fn begin(&mut self) {
        self.go_on(if self.of == Surveyed::Counters { Stage::Disowned } else { Stage::Ins });
    }

    fn go_on(&mut self, stage: Stage) {
        (self.stage, self.at) = (stage, 0);
    }
}

impl Node {
    /// Goes on with a survey until it is done, which is true, or a row has been copied and `is_over` says so. These frames are on their
    /// way to ports.
    pub fn survey(&mut self, survey: &mut Survey, frames: &[Frame], mut is_over: impl FnMut() -> bool) -> bool {
        while survey.stage == Stage::Settle {
            if self.cx.graphs.settle_at(&mut self.cx.core, survey.at) {
                survey.at += 1;
            } else {
                survey.begin();
                // What comes next is a slice by itself.
                return false;
            }
            if is_over() {
                return false;
            }
        }
        self.look(survey, frames, is_over)
    }

    /// All of a survey at once; what has passed by the other half since it was settled last is not in it.
    pub(super) fn surveyed(&self, of: Surveyed, frames: &[Frame]) -> Survey {
        let mut survey = Survey::of(of);
        survey.begin();
        while !self.look(&mut survey, frames, || false) {}
        survey
    }

    fn look(&self, survey: &mut Survey, frames: &[Frame], mut is_over: impl FnMut() -> bool) -> bool {
        loop {
            for _ in 0..ROWS {
                if let Some(done) = self.look_at_row(survey, frames) {
                    return done;
                }
            }
            if is_over() {
                return survey.stage == Stage::Done;
            }
        }
    }

    /// The next row; whether it was the last one, if no other one is to come in this slice.
    fn look_at_row(&self, survey: &mut Survey, frames: &[Frame]) -> Option<bool> {
        match survey.stage {
            // Only at the beginning, which is behind.
            Stage::Settle => survey.go_on(Stage::Done),
            // Each of these is as long as there is something, and so a slice by itself.
            Stage::Disowned => {
                survey.disowned = self.cx.control.roles.disowned();
                survey.go_on(Stage::Head);
                return Some(false);
            }
            Stage::Head => {
                self.look_at_head(survey, frames);
                return Some(false);
            }
            Stage::Codes => self.look_at_code(survey),
            Stage::Neighbours => self.look_at_neighbour(survey),
            Stage::Domains => self.look_at_domain(survey),
            Stage::Ins | Stage::Outs | Stage::Cuts => self.cx.look_at_channel(survey),
            Stage::Done => return Some(true),
        }
        None
    }

    fn look_at_head(&self, survey: &mut Survey, frames: &[Frame]) {
        survey.waiting = self.waiting();
        survey.open = vec![self.cx.core.domains.root()];
        survey.status = Some(Box::new(self.status_head(frames)));
        survey.go_on(Stage::Codes);
        survey.at = self.environments.get::<Capsules>().map_or(0, |capsules| capsules.codes.places());
    }

    fn look_at_code(&self, survey: &mut Survey) {
        let (Some(place), Some(status)) = (survey.at.checked_sub(1), &mut survey.status) else {
            return survey.go_on(Stage::Neighbours);
        };
        survey.at = place;
        // Some may have gone: then there are fewer places.
        let known = self.environments.get::<Capsules>().and_then(|capsules| capsules.codes.at(place));
        let Some((name, known)) = known else { return };
        let mut code = self.cx.code_status(name.to_string(), known, &survey.disowned);
        code.unaccounted = code.domain.map(|domain| self.unaccounted_of(DomainId(domain)));
        status.codes.push(code);
    }

    fn look_at_neighbour(&self, survey: &mut Survey) {
        let known = self.cx.core.topology.neighbours.at(survey.at);
        let (Some(known), Some(status)) = (known, &mut survey.status) else { return survey.go_on(Stage::Domains) };
        survey.at += 1;
        let mut neighbour = self.cx.neighbour_status(known);
        let hellos = self.environments.get::<Hellos>();
        neighbour.hello = hellos.and_then(|hellos| hellos.last_of(known.port, known.addr));
        status.neighbours.push(neighbour);
    }

    /// Notes some more children of a domain, the last ones first, since the first child is to be looked at next. Those that go meanwhile
    /// let others move towards the first, never away: so none is left out, and one that is met again is known.
    fn note_children(&self, survey: &mut Survey, parent: DomainId, left: usize) {
        let children = self.cx.core.domains.by_id(parent).map(|domain| domain.children()).unwrap_or_default();
        let end = left.min(children.len());
        let begin = end.saturating_sub(NOTED_AT_ONCE);
        for id in children.get(begin..end).unwrap_or_default().iter().rev() {
            if survey.noted.is_new(*id) {
                survey.open.push(*id);
            }
        }
        survey.noting = (begin > 0).then_some((parent, begin));
    }

    /// Asks for the memory of domains that are next soon: first where they are, then what is behind that.
    fn foresee_domains(&self, open: &[DomainId]) {
        let ahead = |count: usize| open.len().checked_sub(count).and_then(|at| open.get(at)).copied();
        if let Some(id) = ahead(2 * AHEAD) {
            self.cx.core.domains.foresee(id);
            self.cx.order.paths.foresee(id);
        }
        if let Some(id) = ahead(AHEAD) {
            self.cx.core.domains.foresee_rest(id);
        }
    }

    fn look_at_domain(&self, survey: &mut Survey) {
        if let Some((parent, left)) = survey.noting {
            return self.note_children(survey, parent, left);
        }
        let Some(id) = survey.open.pop() else { return survey.go_on(Stage::Done) };
        self.foresee_domains(&survey.open);
        let Some(domain) = self.cx.core.domains.by_id(id) else { return };
        let children = domain.children().len();
        survey.noting = (children > 0).then_some((id, children));
        let row = self.cx.domain_status(id, domain, self.unaccounted_of(id));
        if let Some(status) = &mut survey.status {
            let sum = &mut status.unaccounted_by.domains;
            *sum = sum.saturating_add(row.unaccounted.unsigned_abs());
        }
        survey.domains.push(row);
    }
}

impl Cx {
    /// The next channel, or the next kind of them.
    fn look_at_channel(&self, survey: &mut Survey) {
        let channels = &self.graphs.channels;
        let found = match survey.stage {
            Stage::Ins => {
                channels.ins.at(survey.at).map(|found| found.map(|(id, channel)| self.in_status(id, channel)))
            }
            Stage::Outs => {
                channels.outs.at(survey.at).map(|found| found.map(|(id, channel)| self.out_status(id, channel)))
            }
            _ => channels.cuts.at(survey.at).map(|found| found.map(|(id, channel)| self.cut_status(id, channel))),
        };
        match (found, survey.stage) {
            (Some(row), _) => {
                survey.at += 1;
                // Those of the node's own environments are the same at each worker: the first one tells of them.
                let is_own = |row: &ChannelStatus| self.control.kept.contains(&DomainId(row.domain));
                survey.channels.extend(row.filter(|row| !self.is_further() || !is_own(row)));
            }
            (None, Stage::Ins) => survey.go_on(Stage::Outs),
            (None, Stage::Outs) => survey.go_on(Stage::Cuts),
            (None, _) => survey.go_on(Stage::Done),
        }
    }

    fn in_status(&self, id: InChanId, channel: &InChan) -> ChannelStatus {
        ChannelStatus {
            protocol: channel.spec.protocol.clone(),
            address: channel.spec.address.clone(),
            port: self.port_name(channel.filter.port()),
            idle: channel.filter.fixed().is_none().then(|| self.graphs.channels.taught.idle(id)).flatten(),
            ..self.channel_status(id.0, "in", channel.domain, self.graphs.channels.traffic_in(id, channel))
        }
    }

    fn out_status(&self, id: OutChanId, channel: &OutChan) -> ChannelStatus {
        ChannelStatus {
            protocol: channel.spec.protocol.clone(),
            address: channel.spec.address.clone(),
            port: self.port_name(channel.target.port),
            ..self.channel_status(id.0, "out", channel.domain, self.graphs.channels.traffic_out(id, channel.traffic))
        }
    }

    fn cut_status(&self, id: CutChanId, channel: &CutChan) -> ChannelStatus {
        ChannelStatus {
            protocol: format!("in {} -> out {}", channel.from.0, channel.to.0),
            in_kernel: Some(channel.in_kernel),
            ..self.channel_status(id.0, "cut", channel.domain, channel.traffic)
        }
    }

    fn port_name(&self, id: Option<PortId>) -> Option<String> {
        Some(self.core.topology.port(id?)?.name.clone())
    }

    fn channel_status(&self, id: u32, kind: &'static str, domain: DomainId, traffic: Traffic) -> ChannelStatus {
        let title = self.core.domains.by_id(domain).map(|domain| domain.title.clone()).unwrap_or_default();
        let (protocol, address, port, in_kernel, idle) = Default::default();
        ChannelStatus { id, kind, domain: domain.0, title, protocol, address, port, traffic, in_kernel, idle }
    }
}
