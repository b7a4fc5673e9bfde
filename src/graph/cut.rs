//! Cut-through channels: graphs that no domain's code is part of, and so can be carried out by either half. The other
//! half is told which there are, and what passes there is added to the accounts of this one.

use super::Graphs;
use super::channels::{CarriedCut, CutChan, InChan};
use super::half::{ChannelHalf, Cut, CutCounts, CutWay, Whose};
use super::rules::Taker;
use crate::classify::filter::Filter;
use crate::classify::rule::Rule;
use crate::classify::taught::classifier::MatchMode;
use crate::core::Core;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::nodeos::interface::{CutChanId, Error, InChanId, OutChanId};

impl Graphs {
    /// Packets of a filter are an incoming channel's from now on: whoever looks at them first has to know.
    /// Of a rule over taught protocols it is not told, and leaves those packets to the ports.
    pub fn announce(&mut self, node: &str, filter: &Filter) -> Result<(), Error> {
        let Some(filter) = filter.fixed() else { return Ok(()) };
        for at in 0..self.halves.len() {
            if let Err(error) = self.halves[at].change(filter, true) {
                tracing::error!(node, %error, "an incoming channel cannot be told to the kernel");
                withdraw(&mut self.halves[..at], filter);
                return Err(Error::Full);
            }
        }
        Ok(())
    }

    /// Lets the other half carry a cut-through channel, if it can. It cannot where packets may be others' as well.
    pub fn begin_cut(&mut self, core: &mut Core, id: CutChanId) {
        let Some(cut) = self.channels.cuts.get_mut(id) else { return };
        let ends = self.channels.ins.get(cut.from).zip(self.channels.outs.get_mut(cut.to));
        let Some((from, to)) = ends else { return };
        let mode = self.channels.taught.classifying().mode;
        let Some(filter) = from.filter.fixed().filter(|_| mode != MatchMode::All) else { return };
        let Some(domain) = core.domains.of(cut.domain).filter(|_| CutChan::joins(from, to).is_some()) else { return };
        let wanted = Cut {
            filter,
            way: CutWay::Out(&to.target, cut.to, Some(to.spec.net.bandwidth).filter(|rate| *rate > 0)),
            domain: cut.domain,
            rates: [domain.limits.packets_per_second, domain.limits.steps_per_second],
            of_domain: Some(domain.grants.bandwidth).filter(|rate| *rate < u64::MAX),
        };
        for (at, half) in self.halves.iter_mut().enumerate() {
            match half.begin(&wanted) {
                Ok(Some(shared)) => {
                    domain.share(&shared.account, shared.of_domain.as_ref());
                    if let Some((bandwidth, bytes)) = to.bandwidth.as_mut().zip(shared.of_channel.clone()) {
                        bandwidth.share(bytes);
                    }
                    cut.half = Some(CarriedCut { half: at, shared, seen: CutCounts::default() });
                    return;
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(node = core.name, %error, "a cut-through channel stays in user space"),
            }
        }
    }

    /// Nothing passes by a cut-through channel in the other half from now on.
    pub fn end_cut(&mut self, core: &mut Core, id: CutChanId) {
        let Some(cut) = self.channels.cuts.get(id) else { return };
        let filter = self.channels.ins.get(cut.from).and_then(|from| from.filter.fixed());
        if let Some((carried, filter)) = cut.half.as_ref().zip(filter)
            && let Some(half) = self.halves.get_mut(carried.half)
            && let Err(error) = half.end(carried.shared.number, filter)
        {
            tracing::error!(node = core.name, %error, "a cut-through channel does not end in the kernel");
        }
        self.settle_cut(core, id);
        if let Some(cut) = self.channels.cuts.get_mut(id) {
            cut.half = None;
        }
    }

    /// Ends those that lead to an outgoing channel, which is about to go.
    pub fn end_cuts_to(&mut self, core: &mut Core, channel: OutChanId) {
        let domain = self.channels.outs.get(channel).map(|out| out.domain);
        let cuts = domain.map_or(Vec::new(), |domain| self.channels.cuts_to(domain, channel));
        cuts.into_iter().for_each(|id| self.end_cut(core, id));
        self.halves.iter_mut().for_each(|half| half.forget(Whose::Channel(channel)));
    }

    /// Ends those of domains that are about to go.
    pub fn end_cuts_of(&mut self, core: &mut Core, domains: &[DomainId]) {
        self.end_doors_of(core, |domain| domains.contains(&domain));
        self.channels.cuts.of_all(domains).into_iter().for_each(|id| self.end_cut(core, id));
        for half in &mut self.halves {
            self.channels.outs.of_all(domains).into_iter().for_each(|id| half.forget(Whose::Channel(id)));
        }
        for half in &mut self.halves {
            domains.iter().for_each(|domain| half.forget(Whose::Domain(*domain)));
        }
    }

    /// Adds what has passed by the other half to the accounts of this one.
    pub fn settle_cuts(&mut self, core: &mut Core) {
        let cuts: Vec<_> = self.channels.cuts.iter().filter(|(_, cut)| cut.half.is_some()).map(|(id, _)| id).collect();
        cuts.into_iter().for_each(|id| self.settle_cut(core, id));
        self.settle_doors(core);
    }

    /// The same of the channel at this place in their table; false: no place is behind those before.
    pub fn settle_at(&mut self, core: &mut Core, at: usize) -> bool {
        let Some(found) = self.channels.cuts.at(at) else {
            self.settle_doors(core);
            return false;
        };
        if let Some((id, _)) = found.filter(|(_, cut)| cut.half.is_some()) {
            self.settle_cut(core, id);
        }
        true
    }

    fn settle_cut(&mut self, core: &mut Core, id: CutChanId) {
        let Some(cut) = self.channels.cuts.get_mut(id) else { return };
        let Some(carried) = &mut cut.half else { return };
        let Some(half) = self.halves.get(carried.half) else { return };
        let more = half.passed(carried.shared.number).since(&carried.seen);
        carried.seen = carried.seen.with(&more);
        self.in_kernel = self.in_kernel.with(&more.balance());
        cut.in_kernel += more.packets;
        cut.traffic.packets += more.packets;
        cut.traffic.bytes += more.bytes;
        if let Some(from) = self.channels.ins.get_mut(cut.from) {
            from.traffic.packets += more.packets + more.over_budget;
            from.traffic.bytes += more.bytes + more.over_budget_bytes;
            from.traffic.dropped += more.over_budget;
        }
        if let Some(to) = self.channels.outs.get_mut(cut.to) {
            to.traffic.packets += more.sent;
            to.traffic.bytes += more.sent_bytes;
            to.traffic.dropped += more.over_channel;
        }
        account(core, cut.domain, &more, Reason::MalformedPacket);
    }

    /// The cut-through channels that a domain pays for.
    pub fn cuts_of(&self, domain: DomainId) -> Vec<CutChanId> {
        self.channels.cuts.of(domain).map(|(id, _)| id).collect()
    }

    /// The other half has no part in the budget of a domain any more: its cut-through channels have ended there.
    pub fn share_no_more(&mut self, core: &mut Core, domain: DomainId, now: u64) {
        self.halves.iter_mut().for_each(|half| half.forget(Whose::Domain(domain)));
        if let Some(domain) = core.domains.of(domain) {
            domain.end_sharing(now);
        }
    }

    /// Packets of an incoming channel, which has ended, are nobody's any more. Only then another worker may have the same.
    pub fn withdraw(&mut self, id: InChanId, channel: &InChan) {
        self.withdraw_rule(&channel.filter, self.channels.taker(id, channel.domain));
    }

    /// The same of a channel that is known by its rule alone; whether it was the channel's.
    pub fn withdraw_rule(&mut self, rule: &Filter, taker: Taker) -> bool {
        let is_released = self.channels.release(rule, taker);
        if is_released {
            rule.fixed().into_iter().for_each(|rule| withdraw(&mut self.halves, rule));
        }
        is_released
    }
}

/// Adds to the accounts of the node and of a domain what has passed by the other half; `broken`: why packets were dropped there for what
/// they are.
pub(super) fn account(core: &mut Core, domain: DomainId, more: &CutCounts, broken: Reason) {
    let over = more.over_domain + more.over_channel;
    // They came to the other half only.
    core.ledger.unseen += more.over_budget + over + more.broken;
    let drops = [(Reason::Budget, more.over_budget), (Reason::Bandwidth, over), (broken, more.broken)];
    drops.iter().for_each(|(reason, packets)| core.drops.count_many(*reason, *packets));
    if let Some(domain) = core.domains.of(domain) {
        domain.add(more.packets + more.over_budget, more.frame_bytes);
        domain.cpu_ns += more.time_ns;
        drops.iter().for_each(|(reason, packets)| domain.counts.drops.count_many(*reason, *packets));
        domain.forwarded += more.sent;
    }
}

/// Packets of a filter are nobody's any more.
fn withdraw(halves: &mut [Box<dyn ChannelHalf>], filter: &Rule) {
    for half in halves {
        if let Err(error) = half.change(filter, false) {
            tracing::error!(%error, "the kernel goes on to look for packets of a channel that is no more");
        }
    }
}
