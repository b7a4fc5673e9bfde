//! The end of domains and hosts, with all they own; and an inventory of a node, which must be the same before and
//! after.

use super::environment::{Environment, Environments};
use super::hosts::Hosts;
use super::output::Turn;
use super::{Capsules, Cx, Node};
use crate::core::domain::EnvironmentId;
use crate::core::reason::Reason;
use crate::nodeos::interface::{DomainId, HostId, Upcall};
use std::collections::VecDeque;

/// What ended with a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Ended {
    /// Domains, with those below.
    pub domains: usize,
    /// Channels.
    pub channels: usize,
    /// Codes.
    pub codes: usize,
    /// Bytes of memory pools.
    pub bytes: u64,
    /// Events that were waiting.
    pub events: usize,
}

/// Domains of which it is remembered that the node has ended them.
const FELLED_MAX: usize = 256;

/// Domains that were ended against their will, the last ones, and by whom: what ran them has not ended well, however it says that it has.
#[derive(Debug, Default)]
pub(super) struct Felled(VecDeque<(DomainId, EndedBy)>);

/// Who has ended a domain against its will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedBy {
    /// The node, for what it does.
    Node,
    /// The operator.
    Operator,
}

/// What exists in a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Resources {
    /// Domains, the node's own among them.
    pub domains: usize,
    /// Who runs them.
    pub hosts: usize,
    /// Incoming and outgoing channels.
    pub channels: usize,
    /// Cut-through channels.
    pub cuts: usize,
    /// Whether any packet is looked up for channels.
    pub filters: bool,
    /// Memory pools.
    pub pools: usize,
    /// Events that have been scheduled.
    pub events: usize,
    /// Packets that wait for the CPU.
    pub waiting: usize,
    /// Entries of soft state.
    pub state_entries: usize,
    /// Named stores, snapshots of them and watches on them.
    pub stores: usize,
    /// Codes.
    pub codes: usize,
}

/// Packets that have gone through the channels that exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ChannelCounts {
    /// Through incoming ones.
    pub received: u64,
    /// Through outgoing ones.
    pub sent: u64,
    /// Through cut-through ones, which are among the others too.
    pub cut: u64,
}

/// A domain that has ended; environments are to be told of it.
pub(super) struct Gone {
    pub domain: DomainId,
    pub host: HostId,
    /// Whether its host is told: who has ended it knows.
    pub tell: bool,
}

impl Cx {
    /// A domain is ended against its will, or its host is given up.
    pub(super) fn fell(&mut self, domain: DomainId, by: EndedBy) {
        if self.control.felled.0.len() == FELLED_MAX {
            self.control.felled.0.pop_front();
        }
        self.control.felled.0.push_back((domain, by));
    }

    /// Ends a domain and all below it, with all that they own: nothing reaches them from now on. Environments are told
    /// when the call that is under way has returned ([`Environments::settle`]); `tell` says of which hosts.
    pub(super) fn end_domain(&mut self, turn: &mut Turn<'_>, top: DomainId, tell: impl Fn(HostId) -> bool) -> Ended {
        self.end_domains(turn, &[top], tell)
    }

    /// The same of several. What they have is found by whose it is: others' is not looked at.
    pub(super) fn end_domains(
        &mut self,
        turn: &mut Turn<'_>,
        tops: &[DomainId],
        tell: impl Fn(HostId) -> bool,
    ) -> Ended {
        self.settle_hand();
        let core = &mut self.core;
        let mut all: Vec<_> = tops.iter().flat_map(|top| core.domains.with_those_below(*top)).collect();
        all.sort_unstable();
        let have_channels = all.iter().any(|id| core.domains.by_id(*id).is_some_and(|domain| domain.channels > 0));
        self.graphs.end_cuts_of(core, &all);
        let gone: Vec<_> = tops.iter().flat_map(|top| core.domains.end(*top)).collect();
        let mut ended = Ended { domains: gone.len(), ..Ended::default() };
        if have_channels {
            ended.channels = self.end_channels(turn, &all);
        }
        ended.bytes = self.core.pools.end_all(&all);
        if gone.iter().any(|(_, domain)| domain.has_stores) {
            self.end_stores(turn, &all);
        }
        for (id, domain) in gone {
            self.count_last_wishes(turn.now, id, &domain);
            self.core.state.forget(&mut self.core.domains, id);
            domain.common.iter().for_each(|common| common.state.forget());
            ended.events += self.control.events.cancel_all(id);
            self.control.ended.push_back(Gone { domain: id, host: domain.host, tell: tell(domain.host) });
        }
        for at in self.control.ended.len() - ended.domains..self.control.ended.len() {
            self.leave_path(turn, self.control.ended[at].domain);
        }
        ended
    }

    /// Ends the channels of domains that are no more; how many there were. The domains are sorted.
    fn end_channels(&mut self, turn: &mut Turn<'_>, domains: &[DomainId]) -> usize {
        let (ins, outs) = self.graphs.channels.remove_all(domains);
        self.core.drops.count_many(Reason::ChannelGone, ins.iter().map(|(_, channel)| channel.pieces()).sum());
        ins.iter().for_each(|(id, channel)| self.graphs.withdraw(*id, channel));
        let ended = ins.len() + outs;
        ins.into_iter().for_each(|(_, channel)| turn.out.watch(channel.into_filter(), false));
        ended
    }
}

impl Environments {
    /// Does what calls have left to be done with environments: those whose domains have ended are told, then others of what has happened to
    /// them. Says how much code went out of service.
    #[inline]
    pub(super) fn settle(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) -> usize {
        if cx.control.ended.is_empty() && cx.control.untold.is_empty() {
            return 0;
        }
        self.settle_all(cx, turn)
    }

    #[cold]
    fn settle_all(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) -> usize {
        let mut codes = self.settle_ended(cx, turn);
        // What these cause is told the next time, so that nobody keeps the node here; what they end has ended.
        for (domain, upcall) in core::mem::take(&mut cx.control.untold) {
            self.upcall(cx, turn, domain, upcall);
            codes += self.settle_ended(cx, turn);
        }
        codes
    }

    fn settle_ended(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) -> usize {
        let mut codes = 0;
        while !cx.control.ended.is_empty() {
            let gone: Vec<_> = cx.control.ended.drain(..).collect();
            codes += self.iter_mut().map(|environment| environment.ended(cx, turn, &gone)).sum::<usize>();
        }
        codes
    }

    /// Tells the environment of a domain of an event.
    pub(super) fn upcall(&mut self, cx: &mut Cx, turn: &mut Turn<'_>, domain: DomainId, upcall: Upcall) {
        let environment = cx.core.domains.by_id(domain).map(|domain| domain.environment);
        if let Some(environment) = environment.and_then(|environment| self.at(environment)) {
            environment.upcall(cx, turn, domain, upcall);
        }
    }

    /// Does what is due of environments, and after each what it has left to be done.
    pub(super) fn timers(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        for at in 0..self.len() {
            let due = |environment: &&mut dyn Environment| environment.next_timer() <= turn.now;
            if let Some(environment) = self.at(EnvironmentId(at)).filter(due) {
                environment.timer(cx, turn);
                self.settle(cx, turn);
            }
        }
    }

    /// A tenth of a second is over.
    pub(super) fn sweep(&mut self, cx: &mut Cx, turn: &mut Turn<'_>) {
        for at in 0..self.len() {
            if let Some(environment) = self.at(EnvironmentId(at)) {
                environment.sweep(cx, turn);
                self.settle(cx, turn);
            }
        }
    }
}

impl Node {
    /// A domain is ended against its will, or its host is given up.
    pub fn fell(&mut self, domain: DomainId, by: EndedBy) {
        self.cx.fell(domain, by);
    }

    /// Ends a domain and all below it, with all that they own: nothing reaches them from now on. `tell`: their hosts are told.
    pub fn end_domain(&mut self, turn: &mut Turn<'_>, top: DomainId, tell: bool) -> Ended {
        let ended = self.cx.end_domain(turn, top, |_| tell);
        let codes = self.environments.settle(&mut self.cx, turn);
        Ended { codes, ..ended }
    }

    /// Who has ended this domain against its will; asked once.
    pub fn felled_by(&mut self, domain: DomainId) -> Option<EndedBy> {
        let at = self.cx.control.felled.0.iter().position(|(felled, _)| *felled == domain)?;
        self.cx.control.felled.0.remove(at).map(|(_, by)| by)
    }

    /// A host is gone: with it all its domains.
    pub fn disconnect(&mut self, turn: &mut Turn<'_>, host: HostId) -> Ended {
        let tops = self.cx.tops_of(host);
        let ended = self.cx.end_domains(turn, &tops, |_| false);
        let codes = self.environments.settle(&mut self.cx, turn);
        self.ask(|hosts: &mut Hosts, _| hosts.remove(host));
        Ended { codes, ..ended }
    }

    /// What exists in the node: so much there is before something is made and after it has ended.
    pub fn resources(&self) -> Resources {
        let core = &self.cx.core;
        Resources {
            domains: core.domains.iter().count(),
            hosts: self.environments.get().map_or(0, Hosts::len),
            channels: self.cx.graphs.channels.ins.len() + self.cx.graphs.channels.outs.len(),
            cuts: self.cx.graphs.channels.cuts.len(),
            filters: self.cx.graphs.channels.have_filters(),
            pools: self.cx.core.pools.len(),
            events: self.cx.control.events.len(),
            waiting: self.cx.order.paths.waiting(),
            state_entries: core.domains.iter().map(|(_, domain)| domain.counts.state_entries as usize).sum(),
            stores: {
                let counts = self.cx.control.stores.counts();
                counts.stores + counts.snapshots + counts.watches
            },
            codes: self.environments.get().map_or(0, |capsules: &Capsules| capsules.codes.iter().count()),
        }
    }

    /// How many packets have gone through channels.
    pub fn channel_counts(&mut self) -> ChannelCounts {
        self.cx.graphs.settle_cuts(&mut self.cx.core);
        let sum = |traffic: &mut dyn Iterator<Item = u64>| traffic.sum();
        ChannelCounts {
            received: sum(&mut self.cx.graphs.channels.ins.iter().map(|(_, channel)| channel.traffic.packets)),
            sent: sum(&mut self.cx.graphs.channels.outs.iter().map(|(_, channel)| channel.traffic.packets)),
            cut: sum(&mut self.cx.graphs.channels.cuts.iter().map(|(_, channel)| channel.traffic.packets)),
        }
    }
}

impl Cx {
    /// The domains of a host that are below none of it.
    pub(super) fn tops_of(&self, host: HostId) -> Vec<DomainId> {
        let domains = &self.core.domains;
        let is_its = |id: DomainId| domains.by_id(id).is_some_and(|domain| domain.host == host);
        let tops = domains.of_host(host).filter(|(_, domain)| !domain.parent().is_some_and(is_its));
        tops.map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests;
