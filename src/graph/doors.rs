//! Incoming channels of graphs whose program is in the other half. Their packets go there, and what has passed is added to the accounts
//! of this one, as with cut-through channels.

use super::Graphs;
use super::channels::CarriedCut;
use super::door::{GraphSlot, KernelDoor};
use super::half::{Cut, CutCounts, CutWay};
use crate::classify::taught::classifier::MatchMode;
use crate::core::Core;
use crate::core::domain::DomainId;
use crate::core::reason::Reason;
use crate::nodeos::interface::InChanId;

impl Graphs {
    /// The packets of a channel go to the program of a graph from now on; false: they did before.
    pub fn open_door(
        &mut self,
        core: &mut Core,
        channel: InChanId,
        domain: DomainId,
        slot: GraphSlot,
    ) -> Result<bool, String> {
        if self.doors.iter().any(|door| door.channel == channel) {
            return Ok(false);
        }
        let carried = self.carry(core, channel, domain, slot)?;
        self.doors.push(KernelDoor { channel, domain, slot, carried: Some(carried) });
        Ok(true)
    }

    fn carry(
        &mut self,
        core: &mut Core,
        channel: InChanId,
        domain: DomainId,
        slot: GraphSlot,
    ) -> Result<CarriedCut, String> {
        if self.channels.taught.classifying().mode == MatchMode::All {
            return Err("all rules that hold are wanted here, and the kernel knows one (docs/classifier.md)".into());
        }
        let filter = self.channels.ins.get(channel).and_then(|known| known.filter.fixed());
        let filter = filter.ok_or("a rule of what it takes is not of fixed fields")?;
        let known = core.domains.of(domain).ok_or("its domain has ended")?;
        let wanted = Cut {
            filter,
            way: CutWay::Graph(slot.place),
            domain,
            rates: [known.limits.packets_per_second, known.limits.steps_per_second],
            of_domain: Some(known.grants.bandwidth).filter(|rate| *rate < u64::MAX),
        };
        let half = self.halves.get_mut(slot.half).ok_or("there is no kernel half")?;
        let shared = half.begin(&wanted)?;
        let shared =
            shared.ok_or("the kernel takes packets of IP, UDP and TCP from graphs, and has room for 1023 channels")?;
        known.share(&shared.account, shared.of_domain.as_ref());
        Ok(CarriedCut { half: slot.half, shared, seen: CutCounts::default() })
    }

    /// The packets of a channel come here from now on.
    pub fn close_door(&mut self, core: &mut Core, channel: InChanId) {
        let Some(at) = self.doors.iter().position(|door| door.channel == channel) else { return };
        self.rest_door(core, at);
        self.doors.remove(at);
    }

    /// The same of all channels of a domain, as long as something about it changes; which they are.
    pub fn rest_doors(&mut self, core: &mut Core, of: impl Fn(DomainId) -> bool) -> bool {
        let mut any = false;
        for at in 0..self.doors.len() {
            if of(self.doors[at].domain) {
                any |= self.doors[at].carried.is_some();
                self.rest_door(core, at);
            }
        }
        any
    }

    /// Their packets go to the programs again.
    pub fn resume_doors(&mut self, core: &mut Core, of: impl Fn(DomainId) -> bool) {
        for at in 0..self.doors.len() {
            let KernelDoor { channel, domain, slot, ref carried } = self.doors[at];
            if carried.is_some() || !of(domain) {
                continue;
            }
            match self.carry(core, channel, domain, slot) {
                Ok(carried) => self.doors[at].carried = Some(carried),
                Err(error) => tracing::warn!(node = core.name, error, "packets of a graph stay in user space"),
            }
        }
    }

    fn rest_door(&mut self, core: &mut Core, at: usize) {
        let Some(KernelDoor { channel, carried: Some(carried), .. }) = self.doors.get(at) else { return };
        let filter = self.channels.ins.get(*channel).and_then(|known| known.filter.fixed());
        if let Some((half, filter)) = self.halves.get_mut(carried.half).zip(filter)
            && let Err(error) = half.end(carried.shared.number, filter)
        {
            tracing::error!(node = core.name, %error, "packets of a graph do not end in the kernel");
        }
        self.settle_door(core, at);
        self.doors[at].carried = None;
    }

    /// The doors of domains that are about to end.
    pub(super) fn end_doors_of(&mut self, core: &mut Core, of: impl Fn(DomainId) -> bool) {
        self.rest_doors(core, &of);
        self.doors.retain(|door| !of(door.domain));
    }

    /// Adds what has passed by the other half to the accounts of this one.
    pub(super) fn settle_doors(&mut self, core: &mut Core) {
        (0..self.doors.len()).for_each(|at| self.settle_door(core, at));
    }

    fn settle_door(&mut self, core: &mut Core, at: usize) {
        let Some(KernelDoor { channel, domain, carried: Some(carried), .. }) = self.doors.get_mut(at) else { return };
        let Some(half) = self.halves.get(carried.half) else { return };
        let more = half.passed(carried.shared.number).since(&carried.seen);
        carried.seen = carried.seen.with(&more);
        let known = self.channels.ins.get_mut(*channel).map(|channel| &mut channel.traffic);
        self.in_kernel = self.in_kernel.with(&more.balance());
        if let Some(traffic) = known {
            traffic.packets += more.packets + more.over_budget;
            traffic.bytes += more.bytes + more.over_budget_bytes;
            traffic.dropped += more.over_budget;
        }
        super::cut::account(core, *domain, &more, Reason::GraphDropped);
        let domain = *domain;
        match self.passed.iter_mut().find(|(known, _)| *known == domain) {
            Some((_, passed)) => *passed = passed.with(&more),
            None => self.passed.push((domain, more)),
        }
    }

    /// What has passed of a domain's graph since the last time.
    pub fn take_passed(&mut self, core: &mut Core, domain: DomainId) -> CutCounts {
        for at in 0..self.doors.len() {
            if self.doors[at].domain == domain {
                self.settle_door(core, at);
            }
        }
        let at = self.passed.iter().position(|(known, _)| *known == domain);
        at.map_or(CutCounts::default(), |at| self.passed.swap_remove(at).1)
    }
}
