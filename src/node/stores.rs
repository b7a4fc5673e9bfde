//! Named stores of domains: who asks by which name, what that costs, and who is told.
//!
//! ```text
//! the domain's worker: begin (may it? take bytes) ──▶ first worker: ask ──▶ end (give back what was not used)
//!                                                          └─▶ signals ──▶ the workers of those who watch
//! ```
//!
//! For a domain of the first worker all of it is one call of the interface ([`NodeOs::store`]). For another's, whoever
//! asks goes from worker to worker (`manage/ee/stores`). A domain may end between two steps. What was made for it then
//! ends in the last one.
//!
//! [`NodeOs::store`]: crate::nodeos::interface::NodeOs::store

use super::os::Os;
use super::output::{Effect, Turn};
use super::workers::WorkerOrder;
use super::{Cx, Node};
use crate::nodeos::file::{Sharing, check_holder};
use crate::nodeos::interface::{DomainId, Error, HostId, Upcall};
use crate::nodeos::store::ask::{StoreAsk, StoreReply, StoreUser};
use crate::nodeos::store::{Contents, Signal, StoreOutcome, Stores};
use std::sync::Arc;

/// Upcalls that wait at a time; who is not told now is told a second later.
const UNTOLD_MAX: usize = 1024;

/// A call that has begun: who asks, and what was taken for it.
#[derive(Clone, Debug)]
pub struct BegunAsk {
    /// Who asks.
    pub user: StoreUser,
    /// Whether it may leave something that ends with the domain.
    pub leaves: bool,
    taken: u64,
}

impl Os<'_, '_> {
    /// Begins a call in a domain's name: takes what it may cost. [`Os::end_store`] has to follow.
    pub fn begin_store(&mut self, domain: DomainId, ask: &StoreAsk) -> Result<BegunAsk, Error> {
        self.may(domain)?;
        let holder = self.cx.holder_of(domain)?;
        let taken = ask.charge()?;
        if taken > 0 {
            self.cx.settle_hand();
            let pools = &mut self.cx.core.pools;
            // What is asked for at leisure is no reason to go over the limit, and to be ended for it.
            let pool = pools.of_domain(domain).and_then(|pool| pools.status(pool)).ok_or(Error::Stale)?;
            if pool.held_bytes.saturating_add(taken) > pool.limit_bytes {
                return Err(Error::Limit);
            }
            pools.charge(domain, taken)?;
        }
        if let Some(domain) = self.cx.core.domains.of(domain).filter(|_| ask.leaves()) {
            domain.has_stores = true;
        }
        Ok(BegunAsk { user: StoreUser { domain, holder }, leaves: ask.leaves(), taken })
    }

    /// Whether the stores are here.
    pub fn is_at_first(&self) -> bool {
        !self.cx.is_further()
    }

    /// Ends it: gives back what was not used, and what is free again. `Stale`: the domain has ended meanwhile, and who asks
    /// has to end what was made for it.
    pub fn end_store(&mut self, begun: BegunAsk, outcome: StoreOutcome) -> Result<StoreReply, Error> {
        self.cx.settle_hand();
        let pools = &mut self.cx.core.pools;
        if self.cx.core.domains.by_id(begun.user.domain).is_none() {
            return Err(Error::Stale);
        }
        pools.free(begun.user.domain, begun.taken.saturating_sub(outcome.used));
        if let Some((domain, bytes)) = outcome.back {
            pools.free(domain, bytes);
        }
        outcome.reply
    }
}

impl Node {
    /// Asks something in the name of a domain that is at any worker; at the first one. `kept`: it is written where it
    /// outlives the node.
    pub fn ask_store(&mut self, turn: &mut Turn<'_>, user: &StoreUser, ask: &StoreAsk, kept: bool) -> StoreOutcome {
        let outcome = self.cx.ask_store(turn, user, ask, kept);
        self.environments.settle(&mut self.cx, turn);
        outcome
    }

    /// Whether a change would be made; see [`Stores::check`].
    pub fn check_store(&mut self, user: &StoreUser, ask: &StoreAsk) -> Result<u64, Error> {
        self.cx.control.stores.check(user, ask)
    }

    /// Makes a store that was kept elsewhere, with what it had.
    pub fn open_kept_store(
        &mut self,
        turn: &mut Turn<'_>,
        user: &StoreUser,
        ask: &StoreAsk,
        (contents, sharing): (Contents, Sharing),
    ) -> StoreOutcome {
        let outcome = self.ask_store(turn, user, ask, true);
        if let Ok(StoreReply::Store(store, true)) = outcome.reply {
            self.cx.control.stores.restore(store, contents, sharing);
        }
        outcome
    }

    /// The stores, for whoever only looks.
    pub fn stores(&self) -> &Stores {
        &self.cx.control.stores
    }

    /// Domains of another worker have ended: so have their stores.
    pub fn end_stores(&mut self, turn: &mut Turn<'_>, domains: &[DomainId]) {
        self.cx.end_stores(turn, domains);
        self.environments.settle(&mut self.cx, turn);
    }
}

impl Cx {
    /// The holder whose stores are a domain's own: the environment that it is below, by its name.
    fn holder_of(&self, domain: DomainId) -> Result<Arc<str>, Error> {
        let (mut id, mut found) = (domain, self.core.domains.by_id(domain).ok_or(Error::Stale)?);
        if found.host == HostId::NODE {
            return Err(Error::Denied);
        }
        while let Some(above) = found.parent().filter(|above| !self.control.kept.contains(above)) {
            (id, found) = (above, self.core.domains.by_id(above).ok_or(Error::Stale)?);
        }
        let is_own = self.control.kept.contains(&id);
        check_holder(&found.title).ok().filter(|()| !is_own).map(|()| Arc::from(&*found.title)).ok_or(Error::Denied)
    }

    /// Carries out what is asked. Domains that are to be told wait for the end of the call.
    pub(super) fn ask_store(
        &mut self,
        turn: &mut Turn<'_>,
        user: &StoreUser,
        ask: &StoreAsk,
        kept: bool,
    ) -> StoreOutcome {
        let outcome = self.control.stores.ask(turn.now, user, ask, kept);
        self.tell_signals(turn);
        outcome
    }

    fn tell_signals(&mut self, turn: &mut Turn<'_>) {
        for signal in self.control.stores.signals() {
            if self.core.domains.by_id(signal.domain).is_some() {
                self.signal(signal);
            } else {
                self.tell_workers(turn, |_| WorkerOrder::Changed(signal));
            }
        }
    }

    /// A domain of this worker, if it is here, is told of a change.
    pub(super) fn signal(&mut self, signal: Signal) {
        if self.core.domains.by_id(signal.domain).is_some() && self.control.untold.len() < UNTOLD_MAX {
            let Signal { domain, watch, argument } = signal;
            self.control.untold.push((domain, Upcall::Changed { watch, argument }));
        }
    }

    /// Domains have ended: so have their stores.
    pub(super) fn end_stores(&mut self, turn: &mut Turn<'_>, domains: &[DomainId]) {
        if self.is_further() {
            turn.out.effects.push(Effect::EndStores(domains.to_vec()));
        } else {
            self.control.stores.end_domains(turn.now, domains);
            self.tell_signals(turn);
        }
    }

    /// This worker has panicked: its domains are no more.
    pub(super) fn give_up_stores(&self, turn: &mut Turn<'_>) {
        let have = |(id, domain): (DomainId, &crate::core::domain::Domain)| domain.has_stores.then_some(id);
        let domains: Vec<_> = self.core.domains.iter().filter_map(have).collect();
        if !domains.is_empty() {
            turn.out.effects.push(Effect::EndStores(domains));
        }
    }

    /// A tenth of a second is over.
    pub(super) fn sweep_stores(&mut self, turn: &mut Turn<'_>) {
        self.control.stores.sweep(turn.now);
        self.tell_signals(turn);
    }
}
