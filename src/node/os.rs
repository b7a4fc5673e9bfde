//! The NodeOS interface, bound to one domain of this node.
//!
//! [`Os`] implements [`NodeOs`] for environments of the node: a context, a turn, and the calling domain. Every call
//! first checks that its objects exist and belong to the caller's subtree of domains. Environments are not within its
//! reach: what a call leaves to be done with them is done when the caller has returned (`Environments::settle`).

mod filters;
mod founding;
mod graphs;
mod streams;

use super::ending::EndedBy;
pub use super::ending::{ChannelCounts, Ended, Resources};
use super::hosts::{Hosts, InProcess};
use super::output::Turn;
use super::{Cx, Node};
use crate::classify::rule::Layer;
use crate::clean::is_clean;
use crate::core::domain::Domain;
use crate::core::reason::Reason;
use crate::core::state_store::{Change, Refused, Value};
use crate::frame::{BUFFER, Frame};
use crate::graph::Target;
use crate::graph::engine::{INWARD, OUTWARD};
use crate::graph::table::Graph;
use crate::nodeos::interface::{
    ChanSpec, CutChanId, Destination, DomainId, DomainSpec, Error, EventId, HostId, InChanId, MemPoolSpec, NodeOs,
    OutChanId, PoolId, Upcall, Usage,
};
use crate::nodeos::store::ask::{StoreAsk, StoreReply};
use crate::trust::Role;
use crate::trust::grants::Grants;
use std::sync::Arc;

/// Characters of a title.
const TITLE_MAX: usize = 64;

/// How long the domains of a pool that a domain got at its creation may stay over its limit, in milliseconds.
const DEADLINE_MS: u32 = 100;

/// What has happened to domains and waits for their environments to be told: one overrun for each pool.
const UNTOLD_MAX: usize = 1024;

/// The NodeOS interface in the name of a domain.
pub struct Os<'a, 't> {
    pub(super) cx: &'a mut Cx,
    turn: &'a mut Turn<'t>,
    caller: DomainId,
    /// Whether it is an environment on the packet path that calls: who ends a domain of its own knows.
    called: bool,
}

/// A title that people can read.
pub(super) fn title_of(title: &str) -> Result<String, Error> {
    let fits = !title.is_empty() && title.chars().count() <= TITLE_MAX && title.chars().all(is_clean);
    if fits { Ok(title.to_owned()) } else { Err(Error::Invalid) }
}

impl<'a, 't> Os<'a, 't> {
    /// For an environment that is being called.
    pub(super) fn within(cx: &'a mut Cx, turn: &'a mut Turn<'t>, caller: DomainId) -> Os<'a, 't> {
        Os { cx, turn, caller, called: true }
    }

    /// Whether the caller may use what is this domain's.
    #[inline]
    pub(super) fn may(&self, domain: DomainId) -> Result<(), Error> {
        let core = &self.cx.core;
        if core.domains.by_id(domain).is_none() {
            return Err(Error::Stale);
        }
        if domain == self.caller || core.domains.is_within(domain, self.caller) { Ok(()) } else { Err(Error::Denied) }
    }

    fn owner_of_in(&self, channel: InChanId) -> Result<DomainId, Error> {
        let domain = self.cx.graphs.channels.ins.get(channel).ok_or(Error::Stale)?.domain;
        self.may(domain).map(|()| domain)
    }

    /// The domain that an outgoing channel is of, if the caller may use it.
    #[inline]
    pub fn owner_of_out(&self, channel: OutChanId) -> Result<DomainId, Error> {
        let domain = self.cx.graphs.channels.outs.get(channel).ok_or(Error::Stale)?.domain;
        self.may(domain).map(|()| domain)
    }

    /// Charges memory that the node holds for a domain, until that ends.
    pub fn charge(&mut self, domain: DomainId, bytes: u64) -> Result<(), Error> {
        self.may(domain)?;
        self.cx.settle_hand();
        self.cx.core.pools.charge(domain, bytes)
    }

    /// Takes a packet of a domain's away that goes nowhere.
    pub fn refuse(&mut self, domain: DomainId, frame: Frame, reason: Reason) {
        self.cx.let_go(domain);
        self.cx.begin_in(domain);
        self.cx.drop_in(self.turn, frame, reason, domain);
    }

    /// Charges a domain the memory of a new channel's engines; says how much that is.
    fn charge_engines(&mut self, domain: DomainId, graph: &Graph, way: u16) -> Result<u64, Error> {
        let bytes = graph.bytes(way);
        if bytes > 0 {
            self.cx.settle_hand();
            self.cx.core.pools.charge(domain, bytes)?;
        }
        Ok(bytes)
    }
}

impl Os<'_, '_> {
    /// Who runs a new domain, and what the security module lets it have, with as many threads as were asked for.
    fn granted(&self, parent: DomainId, title: &str, spec: &DomainSpec) -> Result<(HostId, Arc<Role>, Grants), Error> {
        let core = &self.cx.core;
        let host = core.domains.by_id(parent).ok_or(Error::Stale)?.host;
        let creator = &core.domains.by_id(self.caller).ok_or(Error::Stale)?.role;
        let role = self.cx.control.roles.domain(&self.cx.core.name, title, creator, spec.role.as_deref());
        let role = role.map_err(|refused| refused.error())?;
        let grants = role.grants.with_threads(&spec.threads).filter(|_| core.domains.has_room(parent));
        let grants = grants.ok_or(Error::Limit)?;
        Ok((host, role, grants))
    }

    /// Whether a pool is a domain's, or one's above it.
    fn owned_above(&self, pool: PoolId, domain: DomainId) -> Result<(), Error> {
        let core = &self.cx.core;
        let owner = self.cx.core.pools.owner(pool).ok_or(Error::Stale)?;
        if core.domains.is_within(domain, owner) { Ok(()) } else { Err(Error::Denied) }
    }

    fn may_pool(&self, pool: PoolId) -> Result<(), Error> {
        self.may(self.cx.core.pools.owner(pool).ok_or(Error::Stale)?)
    }
}

impl NodeOs for Os<'_, '_> {
    fn domain_self(&self) -> DomainId {
        self.caller
    }

    fn domain_create(&mut self, parent: DomainId, spec: &DomainSpec) -> Result<DomainId, Error> {
        self.may(parent)?;
        let title = title_of(&spec.title)?;
        if spec.threads.max_threads == 0 {
            return Err(Error::Invalid);
        }
        let (host, role, grants) = self.granted(parent, &title, spec)?;
        if let Some(pool) = spec.pool {
            self.may_pool(pool)?;
            // Its users end before its owner: so a pool is never left behind.
            self.owned_above(pool, parent)?;
        }
        let domain = self.cx.add_domain(parent, title, host, (&role, grants), spec.pool)?;
        // Nobody has more of the table by having more domains.
        self.cx.core.state.join_with(domain, parent);
        Ok(domain)
    }

    fn domain_terminate(&mut self, domain: DomainId) -> Result<(), Error> {
        self.may(domain)?;
        if domain == self.cx.core.domains.root() {
            return Err(Error::Denied);
        }
        let own = self.cx.core.domains.by_id(self.caller).map(|caller| caller.host).filter(|_| self.called);
        let tell = domain != self.caller;
        self.cx.end_domain(self.turn, domain, |host| tell && Some(host) != own);
        Ok(())
    }

    fn domain_usage(&mut self, domain: DomainId) -> Result<(Usage, u64), Error> {
        self.may(domain)?;
        self.cx.settle_hand();
        let core = &self.cx.core;
        let usage = core.domains.by_id(domain).ok_or(Error::Stale)?.usage();
        Ok((usage, self.cx.core.pools.held_by(domain)))
    }

    fn mempool_create(&mut self, spec: &MemPoolSpec) -> Result<PoolId, Error> {
        if let Some(parent) = spec.parent {
            self.may_pool(parent)?;
            self.owned_above(parent, self.caller)?;
        }
        let core = &self.cx.core;
        let caller = core.domains.by_id(self.caller).ok_or(Error::Stale)?;
        if spec.limit_bytes > caller.grants.memory_bytes {
            return Err(Error::Limit);
        }
        // What is not part of a pool that the caller has is part of the caller's own, so that it is granted but once.
        let parent = spec.parent.or(self.cx.core.pools.of_domain(self.caller));
        self.cx.core.pools.create(self.caller, &MemPoolSpec { parent, ..*spec })
    }

    fn mempool_destroy(&mut self, pool: PoolId) -> Result<(), Error> {
        self.may_pool(pool)?;
        self.cx.settle_hand();
        self.cx.core.pools.destroy(pool)
    }

    fn mempool_charge(&mut self, pool: PoolId, bytes: i64) -> Result<(), Error> {
        self.may_pool(pool)?;
        self.cx.settle_hand();
        let charged = self.cx.core.pools.charge_direct(pool, bytes);
        self.cx.look_after_pools(self.turn);
        charged
    }

    fn inchan_create(&mut self, domain: DomainId, spec: &ChanSpec) -> Result<InChanId, Error> {
        let (filter, graph) = self.incoming(domain, spec)?;
        let told = filter.clone();
        let bytes = self.charge_engines(domain, &graph, INWARD)?;
        let graphs = &mut self.cx.graphs;
        let added = graphs.channels.add_in(domain, (filter, graph), spec);
        let added = added.and_then(|channel| {
            graphs.announce(&self.cx.core.name, &told).map(|()| channel).inspect_err(|_| {
                if let Some(gone) = graphs.channels.remove_in(channel) {
                    graphs.withdraw(channel, &gone);
                }
            })
        });
        let channel = added.inspect_err(|_| self.cx.core.pools.free(domain, bytes))?;
        self.turn.out.watch(told, true);
        self.cx.count_channel(domain, 1);
        Ok(channel)
    }

    fn inchan_destroy(&mut self, channel: InChanId) -> Result<(), Error> {
        let domain = self.owner_of_in(channel)?;
        if let Some(cut) = self.cx.graphs.channels.ins.get(channel).and_then(|channel| channel.form.cut()) {
            self.cx.graphs.end_cut(&mut self.cx.core, cut);
        }
        if let Some(gone) = self.cx.graphs.channels.remove_in(channel) {
            self.cx.count_lost(domain, &mut vec![(Reason::ChannelGone, gone.pieces())]);
            self.cx.graphs.withdraw(channel, &gone);
            self.cx.core.pools.free(domain, gone.graph.bytes(INWARD));
            self.turn.out.watch(gone.into_filter(), false);
            self.cx.count_channel(domain, -1);
        }
        Ok(())
    }

    fn outchan_create(&mut self, domain: DomainId, spec: &ChanSpec) -> Result<OutChanId, Error> {
        let (filter, graph) = self.outgoing(domain, spec)?;
        if filter.layer == Layer::Tcp {
            return Err(Error::Unsupported);
        }
        if filter.layer == Layer::Anep && filter.kind.is_some_and(|kind| self.cx.graphs.channels.is_own(kind)) {
            return Err(Error::Exists);
        }
        let target = Target::of(&filter)?;
        let core = &self.cx.core;
        if target.source.is_some_and(|source| !core.topology.is_own(source)) {
            return Err(Error::Denied);
        }
        if core.domains.by_id(domain).is_none_or(|domain| domain.grants.bandwidth == 0) {
            return Err(Error::Limit);
        }
        let bytes = self.charge_engines(domain, &graph, OUTWARD)?;
        let added = self.cx.graphs.channels.add_out(domain, (target, graph), spec);
        let channel = added.inspect_err(|_| self.cx.core.pools.free(domain, bytes))?;
        self.cx.count_channel(domain, 1);
        Ok(channel)
    }

    fn outchan_destroy(&mut self, channel: OutChanId) -> Result<(), Error> {
        let domain = self.owner_of_out(channel)?;
        self.cx.graphs.end_cuts_to(&mut self.cx.core, channel);
        if let Some(gone) = self.cx.graphs.channels.remove_out(channel) {
            self.cx.core.pools.free(domain, gone.graph.bytes(OUTWARD));
        }
        self.cx.count_channel(domain, -1);
        Ok(())
    }

    fn outchan_send(&mut self, channel: OutChanId, to: Destination, frame: Frame) -> Result<(), (Frame, Error)> {
        match self.owner_of_out(channel) {
            Ok(domain) => {
                self.cx.begin_in(domain);
                let sent = self.cx.send_out(self.turn, channel, to, frame);
                match &sent {
                    Ok(()) => self.cx.let_go(domain),
                    // It is the caller's again.
                    Err(_) => self.cx.not_begun_in(domain),
                }
                sent
            }
            Err(error) => Err((frame, error)),
        }
    }

    fn cutchan_create(&mut self, from: InChanId, to: OutChanId) -> Result<CutChanId, Error> {
        self.owner_of_in(from)?;
        self.owner_of_out(to)?;
        let cut = self.cx.graphs.channels.add_cut(from, to)?;
        self.cx.graphs.begin_cut(&mut self.cx.core, cut);
        Ok(cut)
    }

    fn cutchan_destroy(&mut self, channel: CutChanId) -> Result<(), Error> {
        let domain = self.cx.graphs.channels.cuts.get(channel).ok_or(Error::Stale)?.domain;
        self.may(domain)?;
        self.cx.graphs.end_cut(&mut self.cx.core, channel);
        self.cx.graphs.channels.remove_cut(channel);
        Ok(())
    }

    fn state_get(&mut self, domain: DomainId, key: u64) -> Result<Value, Error> {
        self.may(domain)?;
        self.cx.keep_in_common(domain);
        self.cx.core.state_value(domain, key, self.turn.now).map_err(as_error)?.ok_or(Error::Unknown)
    }

    fn state_change(&mut self, domain: DomainId, key: u64, change: Change<'_>, keep_ms: u32) -> Result<u64, Error> {
        self.may(domain)?;
        self.cx.keep_in_common(domain);
        let changed = self.cx.core.change_state(domain, key, change, keep_ms, self.turn.now);
        changed.map_err(as_error)
    }

    fn store(&mut self, domain: DomainId, ask: &StoreAsk) -> Result<StoreReply, Error> {
        if !self.is_at_first() {
            return Err(Error::Invalid);
        }
        let begun = self.begin_store(domain, ask)?;
        let outcome = self.cx.ask_store(self.turn, &begun.user, ask, false);
        self.end_store(begun, outcome)
    }

    fn event_schedule(&mut self, domain: DomainId, delay_ms: u64, argument: u64) -> Result<EventId, Error> {
        self.may(domain)?;
        let granted = self.cx.core.domains.by_id(domain).map(|it| it.grants.events);
        if self.cx.control.events.count(domain) >= granted.unwrap_or(0) {
            return Err(Error::Limit);
        }
        let due = self.turn.now.saturating_add(delay_ms.saturating_mul(1_000_000));
        self.cx.control.events.schedule(domain, due, argument)
    }

    fn event_cancel(&mut self, event: EventId) -> Result<(), Error> {
        self.may(self.cx.control.events.owner(event).ok_or(Error::Stale)?)?;
        self.cx.control.events.cancel(event).map(drop).ok_or(Error::Stale)
    }

    fn time_now(&self) -> u64 {
        self.turn.now
    }

    fn packet_alloc(&mut self, domain: DomainId) -> Result<Frame, Error> {
        self.may(domain)?;
        self.cx.settle_hand();
        self.cx.core.pools.charge(domain, BUFFER)?;
        Ok(self.turn.out.pool.take())
    }

    fn packet_free(&mut self, domain: DomainId, frame: Frame) {
        self.cx.let_go(domain);
        self.turn.out.pool.give(frame);
    }
}

/// What an environment is told of a refusal: of a keeper that did not answer the same as of a full table.
fn as_error(refused: Refused) -> Error {
    match refused {
        Refused::Full | Refused::Failed => Error::Limit,
        Refused::Changed => Error::Changed,
    }
}
