//! The end of domains and hosts, with all that they own, and what there is in a node: so much before something is made and after it has ended.

use super::Node;
use super::cuts::withdraw;
use super::output::{Effect, Turn};
use crate::nodeos::channel::InChan;
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
    /// Octets of memory pools.
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

impl Node {
    /// Ends a domain and all below it, with all that they own: nothing reaches them from now on. `tell`: their hosts are told.
    pub fn end_domain(&mut self, turn: &mut Turn<'_>, top: DomainId, tell: bool) -> Ended {
        self.settle_hand();
        let codes = self.withdraw_codes_of(turn, top);
        self.domains_within(top).into_iter().for_each(|domain| self.end_cuts_of(domain));
        let core = &mut self.core;
        let gone = core.domains.end(top);
        let mut ended = Ended { domains: gone.len(), codes, ..Ended::default() };
        for (id, _) in &gone {
            core.state.forget(&mut core.domains, *id);
            let (ins, outs) = self.channels.remove_all(*id);
            ended.channels += ins.len() + outs;
            ins.iter().for_each(|channel| withdraw(&mut self.halves, &channel.filter));
            let ends = |channel: InChan| Effect::Channel { filter: Box::new(channel.into_filter()), exists: false };
            turn.out.effects.extend(ins.into_iter().map(ends));
            ended.bytes += core.pools.end(*id);
            ended.events += self.events.cancel_all(*id);
        }
        for (id, domain) in gone {
            self.leave_path(turn, id);
            if self.hosts.is_remote(domain.host) {
                if tell {
                    turn.out.upcalls.push((domain.host, id, Upcall::Ended));
                }
            } else if !self.runs_any(domain.host) {
                self.hosts.remove(domain.host);
            } else if tell {
                self.hosts.tell_end(domain.host, id);
            }
        }
        ended
    }

    /// A domain is ended against its will, or whoever runs it is given up.
    pub fn fell(&mut self, domain: DomainId, by: EndedBy) {
        if self.felled.0.len() == FELLED_MAX {
            self.felled.0.pop_front();
        }
        self.felled.0.push_back((domain, by));
    }

    /// Who has ended this domain against its will; asked once.
    pub fn felled_by(&mut self, domain: DomainId) -> Option<EndedBy> {
        let at = self.felled.0.iter().position(|(felled, _)| *felled == domain)?;
        self.felled.0.remove(at).map(|(_, by)| by)
    }

    /// A host is gone: with it all its domains.
    pub fn disconnect(&mut self, turn: &mut Turn<'_>, host: HostId) -> Ended {
        let core = &self.core;
        let own: Vec<_> = core.domains.iter().filter(|(_, domain)| domain.host == host).map(|(id, _)| id).collect();
        let mut ended = Ended::default();
        for domain in own {
            let more = self.end_domain(turn, domain, false);
            ended.domains += more.domains;
            ended.channels += more.channels;
            ended.codes += more.codes;
            ended.bytes += more.bytes;
            ended.events += more.events;
        }
        self.hosts.remove(host);
        ended
    }

    pub(super) fn runs_any(&self, host: HostId) -> bool {
        self.core.domains.iter().any(|(_, domain)| domain.host == host)
    }

    /// What exists in the node: so much there is before something is made and after it has ended.
    pub fn resources(&self) -> Resources {
        let core = &self.core;
        Resources {
            domains: core.domains.iter().count(),
            hosts: self.hosts.len(),
            channels: self.channels.ins.len() + self.channels.outs.len(),
            cuts: self.channels.cuts.len(),
            filters: !self.channels.demux.is_empty(),
            pools: self.core.pools.len(),
            events: self.events.len(),
            waiting: self.paths.waiting(),
            state_entries: core.domains.iter().map(|(_, domain)| domain.counts.state_entries as usize).sum(),
            codes: self.codes.iter().count(),
        }
    }

    /// How many packets have gone through channels.
    pub fn channel_counts(&mut self) -> ChannelCounts {
        self.settle_cuts();
        let sum = |traffic: &mut dyn Iterator<Item = u64>| traffic.sum();
        ChannelCounts {
            received: sum(&mut self.channels.ins.iter().map(|(_, channel)| channel.traffic.packets)),
            sent: sum(&mut self.channels.outs.iter().map(|(_, channel)| channel.traffic.packets)),
            cut: sum(&mut self.channels.cuts.iter().map(|(_, channel)| channel.traffic.packets)),
        }
    }
}
