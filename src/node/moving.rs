//! A domain moves to another worker, with all below it and all that they own, while packets come for it.
//!
//! ```text
//! worker 0: send_off ─▶ domains, channels, pools, events, hosts, waiting packets ─▶ ring ─▶ take_in: worker 1
//!           frames that come later: rules say worker 1 ─────────────────────────▶ ring ─▶ behind it
//! ```
//!
//! What comes later is handed over behind it (`turning`). All of it goes at once and by its names, which are good at
//! every worker. So nobody who has a name learns of the move. Packets that wait go along in their order. What moves is a
//! whole environment: the domain below the node's own, since a host is told of all its domains by one worker. Packets
//! on their way count as handed over ([`crate::core::ledger::Ledger::handed`]).

use super::environment::Environments;
use super::hosts::{Host, Hosts};
use super::output::Turn;
use super::paths::Work;
use super::turning::Turned;
use super::{Cx, Node};
use crate::core::common::OfCode;
use crate::core::domain::{Domain, DomainId, EnvironmentId};
use crate::core::memory_pool::MovedPools;
use crate::frame::{Frame, WorkerId};
use crate::graph::MovedChannels;
use crate::nodeos::event::MovedEvent;
use crate::nodeos::interface::{HostId, Upcall};

/// A domain on its way to another worker.
pub struct Moving {
    top: DomainId,
    from: WorkerId,
    domains: Vec<(DomainId, Domain)>,
    channels: MovedChannels,
    pools: MovedPools,
    events: Vec<MovedEvent>,
    hosts: Vec<(HostId, Host)>,
    waiting: Vec<(DomainId, Frame, Work)>,
    untold: Vec<(DomainId, Upcall)>,
    overdue: Vec<DomainId>,
}

impl Moving {
    /// The domain that moves with all below it.
    pub fn top(&self) -> DomainId {
        self.top
    }

    /// Whether a domain is among those that move.
    pub fn has(&self, domain: DomainId) -> bool {
        self.domains.iter().any(|(id, _)| *id == domain)
    }

    /// Whoever runs them.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> {
        self.hosts.iter().map(|(id, _)| *id)
    }

    /// Packets in it, whole or in pieces.
    fn packets(&self) -> u64 {
        self.waiting.len() as u64 + self.channels.pieces()
    }
}

impl Node {
    /// Whether a domain is here, other than those that each worker has.
    pub fn has_domain(&self, domain: DomainId) -> bool {
        self.cx.core.domains.by_id(domain).is_some() && !self.cx.control.kept.contains(&domain)
    }

    /// Which worker of its node this is.
    pub fn worker(&self) -> WorkerId {
        self.cx.control.workers.id()
    }

    /// Why a domain cannot go to another worker, in words for an operator.
    pub fn may_move(&self, domain: DomainId) -> Result<(), String> {
        let core = &self.cx.core;
        let found = core.domains.by_id(domain).ok_or_else(|| format!("there is no domain {}", domain.0))?;
        let title = &found.title;
        if self.cx.control.kept.contains(&domain) {
            return Err(format!("{title} is the node's own, and at every worker"));
        }
        if Some(domain) == self.plan_domain() {
            return Err(format!("{title} stays at worker 0, which has all that PLAN keeps"));
        }
        if Some(found.environment) != self.environments.place_of::<Hosts>() {
            return Err(format!(
                "{title} runs where its packets come: capsules at every worker, PLAN and graphs at worker 0"
            ));
        }
        let parent = found.parent().filter(|parent| !self.cx.control.kept.contains(parent));
        if let Some(above) = parent.and_then(|parent| core.domains.by_id(parent)) {
            return Err(format!(
                "{title} is below {}: an environment moves as a whole, by its first domain",
                above.title
            ));
        }
        let all = core.domains.with_those_below(domain);
        let hosts = self.cx.hosts_of(&all);
        let apart = core.domains.iter().find(|(id, other)| hosts.contains(&other.host) && !all.contains(id));
        match apart {
            Some((_, other)) => Err(format!("whoever runs {title} also runs {}, which is not below it", other.title)),
            None => Ok(()),
        }
    }

    /// A domain goes to another worker: from now on what comes for it is handed over. Nothing of it may be left in the output.
    pub fn send_off(&mut self, turn: &mut Turn<'_>, top: DomainId, to: WorkerId) -> Result<Box<Moving>, String> {
        self.may_move(top)?;
        let cx = &mut self.cx;
        cx.settle_hand();
        let order = cx.core.domains.with_those_below(top);
        let hosts = cx.hosts_of(&order);
        // Those below first: the order of packets has their shares below those of the others.
        let waiting = order.iter().rev().flat_map(|domain| cx.leave_with(turn.now, *domain)).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let is_one = |domain: &DomainId| sorted.binary_search(domain).is_ok();
        let channels = cx.graphs.channels.send_off(&sorted);
        cx.control.workers.turns.go(channels.domains(), to);
        let moving = Box::new(Moving {
            top,
            from: cx.control.workers.id(),
            channels,
            pools: cx.core.pools.send_off(&sorted),
            events: order.iter().flat_map(|domain| cx.control.events.send_off(*domain)).collect(),
            hosts: self.environments.send_hosts(&hosts),
            waiting,
            untold: cx.control.untold.extract_if(.., |(domain, _)| is_one(domain)).collect(),
            overdue: cx.core.overdue.extract_if(.., |domain| is_one(domain)).collect(),
            domains: cx.core.domains.send_off(top),
        });
        cx.core.ledger.handed = cx.core.ledger.handed.wrapping_add(moving.packets());
        Ok(moving)
    }

    /// A domain comes from another worker.
    pub fn take_in_domain(&mut self, turn: &mut Turn<'_>, moving: Box<Moving>) {
        self.cx.core.ledger.handed = self.cx.core.ledger.handed.wrapping_sub(moving.packets());
        let Moving { top: _, from, mut domains, channels, pools, events, hosts, waiting, untold, overdue } = *moving;
        // First of all: should the rest panic, rules that name this worker are withdrawn when it begins anew.
        let with_channels = channels.domains();
        self.cx.graphs.channels.take_in(channels, from);
        let place = self.environments.place_of::<Hosts>().unwrap_or_default();
        domains.iter_mut().for_each(|(_, domain)| domain.environment = place);
        self.environments.take_hosts(hosts);
        let cx = &mut self.cx;
        cx.core.domains.take_in(domains);
        cx.core.pools.take_in(pools);
        cx.control.events.take_in(events);
        cx.control.untold.extend(untold);
        cx.core.overdue.extend(overdue);
        for (domain, frame, work) in waiting {
            self.wait_again(turn, domain, frame, Work { environment: place, ..work });
        }
        // Packets that came here were handed to where it was: they come back before those that come now.
        let with_channels = with_channels.into_iter().map(Turned::Domain).collect();
        self.cx.begin_turn(turn, with_channels, from, self.cx.control.workers.id());
    }

    /// A packet that waited at another worker waits here.
    fn wait_again(&mut self, turn: &mut Turn<'_>, domain: DomainId, mut frame: Frame, work: Work) {
        self.cx.order.entry.note(&mut frame);
        if !self.cx.order.paths.is_queueing() {
            self.environments.run(&mut self.cx, turn, domain, work, frame);
        } else if !self.cx.enqueue(turn, domain, frame, work)
            && let Some(channel) = self.cx.graphs.channels.ins.get_mut(crate::nodeos::interface::InChanId(work.what))
        {
            channel.waiting = channel.waiting.saturating_sub(1);
            channel.traffic.dropped += 1;
        }
    }
}

impl Cx {
    /// Who runs these domains, other than the node.
    fn hosts_of(&self, domains: &[DomainId]) -> Vec<HostId> {
        let mut hosts: Vec<_> = domains
            .iter()
            .filter_map(|id| Some(self.core.domains.by_id(*id)?.host))
            .filter(|host| *host != HostId::NODE)
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }

    /// What waits for a domain, in its order; from now on nothing does.
    fn leave_with(&mut self, now: u64, domain: DomainId) -> Vec<(DomainId, Frame, Work)> {
        let mut all = Vec::new();
        while let Some((frame, work, reserved)) = self.order.paths.take_of(domain) {
            self.order.entry.settle(frame.payer, now, reserved, 0);
            all.push((domain, frame, work));
        }
        self.order.paths.forget(domain);
        all
    }

    /// A domain that may be at any worker keeps its soft state where all of them reach it.
    pub(super) fn keep_in_common(&mut self, domain: DomainId) {
        let Some(common) = self.control.workers.common() else { return };
        let Some(found) = self.core.domains.by_id(domain).filter(|found| found.shared.is_none()) else { return };
        let mut top = (domain, found);
        while let Some((id, above)) = top.1.parent().and_then(|id| Some((id, self.core.domains.by_id(id)?)))
            && !self.control.kept.contains(&id)
        {
            top = (id, above);
        }
        let kept: OfCode = common.domain(domain, top.0, &found.limits);
        if let Some(found) = self.core.domains.of(domain) {
            found.shared = Some(kept.state.clone());
            found.common = Some(kept);
        }
    }
}

impl Environments {
    /// The place of the environment of a type.
    pub(super) fn place_of<E: super::environment::Environment>(&self) -> Option<EnvironmentId> {
        let at = self.iter().position(|environment| (environment as &dyn core::any::Any).is::<E>())?;
        Some(EnvironmentId(at as u8))
    }

    fn send_hosts(&mut self, hosts: &[HostId]) -> Vec<(HostId, Host)> {
        let Some(known) = self.get_mut::<Hosts>() else { return Vec::new() };
        hosts.iter().filter_map(|id| Some((*id, known.0.send_off(*id)?))).collect()
    }

    fn take_hosts(&mut self, hosts: Vec<(HostId, Host)>) {
        if let Some(known) = self.get_mut::<Hosts>() {
            hosts.into_iter().for_each(|(id, host)| known.0.take_in(id, host));
        }
    }
}
