//! Memory pools: the memory of domains, in bytes. Example: 1 MiB shared by an environment and its three sub-domains.
//!
//! Every domain takes its buffers from one pool, and many domains may share one. A pool may be part of another. Its
//! bytes count there too, but each has a limit of its own, which no pool below inherits. A charge far over the limit
//! ([`ceiling`]) is refused. A charge a little over is granted and begins an *overrun*: the pool's domains are told,
//! and are ended if the pool is still over its limit at the deadline. So an environment can free memory in time.
//!
//! Nothing here is carried out: [`Pools::tell`] and [`Pools::due`] name the domains to be told and ended. A charge
//! allocates nothing. After Snow on Silk, table 1; PLAN on OSKit, §3.3.1.

mod pool;

use super::domain::DomainId;
use super::owned::{Beside, OwnedTable};
use super::table::SharedPlaces;
use crate::sys::cache;
use libanode::error::Error;
use pool::{Pool, Rest, Standing};
pub use pool::{PoolId, ceiling};

/// A memory pool to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemPoolSpec {
    /// The pool that it is part of: what it holds counts there too.
    pub parent: Option<PoolId>,
    /// Bytes that may be held.
    pub limit_bytes: u64,
    /// The time for the domains to get below the limit after they have been told, in milliseconds.
    pub deadline_ms: u32,
}

/// Pools one node holds at the same time.
pub const POOLS_MAX: usize = 131_072;

/// The depth of pools within pools, at most.
pub const DEPTH_MAX: u16 = 8;

/// The longest time domains may stay over a limit, in milliseconds.
pub const DEADLINE_MS_MAX: u32 = 60_000;

/// The state of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PoolStatus {
    /// Bytes that may be held.
    pub limit_bytes: u64,
    /// Bytes that are held, by it and by those below it.
    pub held_bytes: u64,
    /// The most that ever were.
    pub peak_bytes: u64,
    /// The number of times that it went over its limit.
    pub overruns: u64,
    /// Charges refused because it was full.
    pub refused: u64,
    /// Domains that use it.
    pub domains: usize,
}

/// The pool of a domain, and the domain's part of it.
#[derive(Clone, Copy, Debug)]
struct Holding {
    domain: DomainId,
    pool: PoolId,
    bytes: u64,
}

impl Holding {
    /// Of no domain: there is no place of that number.
    const NONE: Holding = Holding { domain: DomainId(u32::MAX), pool: PoolId(u32::MAX), bytes: 0 };
}

/// Pools on their way to another worker, with what domains hold.
pub struct MovedPools {
    pools: Vec<(PoolId, Pool)>,
    holdings: Vec<Holding>,
}

/// The pools of a node.
pub struct Pools {
    table: OwnedTable<PoolId, Pool>,
    /// By the domain's place.
    holdings: Vec<Holding>,
    /// By the domain's place, too: where it stands among the users of its pool.
    seats: Vec<u32>,
    /// Pools over their limits; each has a place reserved when it is created.
    over: Vec<PoolId>,
}

impl Default for Pools {
    fn default() -> Pools {
        Pools { table: OwnedTable::new(POOLS_MAX), holdings: Vec::new(), seats: Vec::new(), over: Vec::new() }
    }
}

impl Pools {
    /// Creates a pool of a domain. Whether the domain may have so much, and may have it counted in the pool above, the caller knows.
    pub fn create(&mut self, owner: DomainId, spec: &MemPoolSpec) -> Result<PoolId, Error> {
        if spec.limit_bytes == 0 || spec.deadline_ms > DEADLINE_MS_MAX {
            return Err(Error::Invalid);
        }
        let depth = match spec.parent {
            Some(parent) => self.table.get(parent).ok_or(Error::Stale)?.rest.depth + 1,
            None => 0,
        };
        if depth >= DEPTH_MAX {
            return Err(Error::Limit);
        }
        let rest = Rest {
            owner,
            depth,
            parts: 0,
            users: Vec::new(),
            deadline: u64::from(spec.deadline_ms) * 1_000_000,
            direct: 0,
            overruns: 0,
            refused: 0,
            beside: Beside::default(),
        };
        let (parent, limit, standing) = (spec.parent, spec.limit_bytes, Standing::Within);
        let pool = Pool { parent, limit, held: 0, peak: 0, standing, rest: Box::new(rest) };
        let id = self.table.add(pool).map_err(|_| Error::Full)?;
        if let Some(parent) = spec.parent.and_then(|parent| self.table.get_mut(parent)) {
            parent.rest.parts += 1;
        }
        self.over.reserve(self.table.len().saturating_sub(self.over.len()));
        Ok(id)
    }

    /// Destroys a pool that no domain uses and no pool is part of; what was charged to it alone is given back.
    pub fn destroy(&mut self, id: PoolId) -> Result<(), Error> {
        let pool = self.table.get(id).ok_or(Error::Stale)?;
        if pool.rest.parts > 0 || !pool.rest.users.is_empty() {
            return Err(Error::Invalid);
        }
        let (held, parent) = (pool.held, pool.parent);
        self.release(id, held);
        if let Some(parent) = parent.and_then(|parent| self.table.get_mut(parent)) {
            parent.rest.parts -= 1;
        }
        self.table.remove(id);
        Ok(())
    }

    /// Gives no name from now on that another worker has given.
    pub fn share_names(&mut self, places: &SharedPlaces) {
        self.table.share(places);
    }

    /// Names that were given are nobody's any more.
    pub fn give_up_names(&mut self) {
        self.table.give_up();
    }

    /// Takes out the pools of domains for another worker. No other domain uses them, and they are part of no other's.
    pub fn send_off(&mut self, domains: &[DomainId]) -> MovedPools {
        let holdings: Vec<_> = domains.iter().filter_map(|domain| self.holding(*domain)).collect();
        holdings.iter().for_each(|holding| self.holdings[holding.domain.index()] = Holding::NONE);
        let owned = self.table.of_all(domains);
        self.over.retain(|over| !owned.contains(over));
        MovedPools {
            pools: owned.into_iter().filter_map(|id| Some((id, self.table.send_off(id)?))).collect(),
            holdings,
        }
    }

    /// Takes in what another worker has sent off.
    pub fn take_in(&mut self, MovedPools { pools, holdings }: MovedPools) {
        for (id, pool) in pools {
            if pool.standing != Standing::Within {
                self.over.push(id);
            }
            let users = pool.rest.users.clone();
            self.table.take_in(id, pool);
            (0..).zip(users).for_each(|(seat, user)| self.sit(user, seat));
        }
        self.over.reserve(self.table.len().saturating_sub(self.over.len()));
        holdings.into_iter().for_each(|holding| self.hold(holding));
    }

    /// The owner of the pool.
    pub fn owner(&self, id: PoolId) -> Option<DomainId> {
        self.table.get(id).map(|pool| pool.rest.owner)
    }

    /// Has a domain take its buffers from a pool.
    pub fn attach(&mut self, domain: DomainId, id: PoolId) -> Result<(), Error> {
        if self.holding(domain).is_some() {
            return Err(Error::Exists);
        }
        let users = &mut self.table.get_mut(id).ok_or(Error::Stale)?.rest.users;
        users.push(domain);
        let seat = users.len() as u32 - 1;
        self.sit(domain, seat);
        self.hold(Holding { domain, pool: id, bytes: 0 });
        Ok(())
    }

    fn hold(&mut self, holding: Holding) {
        let at = holding.domain.index();
        if at >= self.holdings.len() {
            // Once for each domain there ever is at the same time.
            cache::make_room(&mut self.holdings, at + 1);
            self.holdings.resize(at + 1, Holding::NONE);
        }
        self.holdings[at] = holding;
    }

    /// A domain stands at this place among the users of its pool.
    fn sit(&mut self, domain: DomainId, seat: u32) {
        let at = domain.index();
        if at >= self.seats.len() {
            self.seats.resize(at + 1, 0);
        }
        self.seats[at] = seat;
    }

    /// A domain is no user of its pool any more; the last user has its place.
    fn leave(&mut self, domain: DomainId, pool: PoolId) {
        let Some(seat) = self.seats.get(domain.index()).copied() else { return };
        let Some(users) = self.table.get_mut(pool).map(|pool| &mut pool.rest.users) else { return };
        if users.get(seat as usize) == Some(&domain) {
            users.swap_remove(seat as usize);
            let moved = users.get(seat as usize).copied();
            moved.into_iter().for_each(|moved| self.sit(moved, seat));
        }
    }

    /// The pool that a domain uses.
    pub fn of_domain(&self, domain: DomainId) -> Option<PoolId> {
        self.holding(domain).map(|holding| holding.pool)
    }

    /// Bytes that a domain holds.
    pub fn held_by(&self, domain: DomainId) -> u64 {
        self.holding(domain).map_or(0, |holding| holding.bytes)
    }

    /// A domain has ended: what it held is given back, and the pools that it owned are gone, with what was charged to them. Those below
    /// it come before it. Gives the bytes that were freed.
    pub fn end(&mut self, domain: DomainId) -> u64 {
        self.end_all(&[domain])
    }

    /// The same of several.
    pub fn end_all(&mut self, domains: &[DomainId]) -> u64 {
        let mut freed = 0;
        for domain in domains {
            let Some(Holding { pool, bytes, .. }) = self.holding(*domain) else { continue };
            self.release(pool, bytes);
            freed += bytes;
            self.holdings[domain.index()] = Holding::NONE;
            self.leave(*domain, pool);
        }
        let owned = domains.iter().flat_map(|domain| self.table.of(*domain));
        let mut own: Vec<_> = owned.map(|(id, pool)| (pool.rest.depth, id)).collect();
        own.sort_unstable_by_key(|(depth, _)| core::cmp::Reverse(*depth));
        for (_, id) in own {
            let direct = self.table.get(id).map_or(0, |pool| pool.rest.direct);
            // One that another domain still uses stays as it is: its users are all below its owner, so there is none.
            freed += self.destroy(id).map_or(0, |()| direct);
        }
        freed
    }

    /// Charges buffers to the domain that holds them.
    #[inline]
    pub fn charge(&mut self, domain: DomainId, bytes: u64) -> Result<(), Error> {
        let holding = self.holding(domain).ok_or(Error::Stale)?;
        self.take(holding.pool, bytes)?;
        if let Some(holding) = self.holdings.get_mut(domain.index()) {
            holding.bytes += bytes;
        }
        Ok(())
    }

    /// Gives back what a domain held; never more than it holds.
    #[inline]
    pub fn free(&mut self, domain: DomainId, bytes: u64) {
        let Some(holding) = self.holding(domain) else { return };
        let bytes = bytes.min(holding.bytes);
        self.release(holding.pool, bytes);
        if let Some(holding) = self.holdings.get_mut(domain.index()) {
            holding.bytes -= bytes;
        }
    }

    /// A domain holds so much now, as somebody found who looks once in a while; false if that is more than its pool has.
    pub fn set_held(&mut self, domain: DomainId, bytes: u64) -> bool {
        let held = self.held_by(domain);
        match bytes.checked_sub(held) {
            Some(more) => self.charge(domain, more).is_ok(),
            None => {
                self.free(domain, held - bytes);
                true
            }
        }
    }

    /// Charges what an environment holds by itself to a pool; negative gives it back, never more than was charged so.
    pub fn charge_direct(&mut self, id: PoolId, bytes: i64) -> Result<(), Error> {
        let pool = self.table.get(id).ok_or(Error::Stale)?;
        let amount = bytes.unsigned_abs();
        if bytes >= 0 {
            self.take(id, amount)?;
        } else if amount > pool.rest.direct {
            return Err(Error::Invalid);
        } else {
            self.release(id, amount);
        }
        if let Some(pool) = self.table.get_mut(id) {
            pool.rest.direct = pool.rest.direct.wrapping_add_signed(bytes);
        }
        Ok(())
    }

    /// Tells of each pool that has gone over its limit since the last time: the domains that use it or a part of it, and by when they
    /// have to have changed that. One that is within its limit again is not spoken of.
    pub fn tell(&mut self, now: u64, mut tell: impl FnMut(DomainId, PoolId, u64)) {
        for at in 0..self.over.len() {
            let id = self.over[at];
            let Some(pool) = self.table.get_mut(id).filter(|pool| pool.standing == Standing::Over) else { continue };
            let deadline = now.saturating_add(pool.rest.deadline);
            pool.standing = Standing::Told(deadline);
            self.users_within(id).into_iter().for_each(|user| tell(user, id, deadline));
        }
    }

    /// Whether [`Pools::tell`] has anything to tell, or [`Pools::due`] anything to wait for.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.over.is_empty()
    }

    /// When [`Pools::due`] has something next.
    pub fn next_deadline(&self) -> Option<u64> {
        let deadline = |id: &PoolId| match self.table.get(*id)?.standing {
            Standing::Told(deadline) => Some(deadline),
            _ => None,
        };
        self.over.iter().filter_map(deadline).min()
    }

    /// The domains to be ended: those that use a pool which is over its limit at its deadline, or a part of it, and hold something.
    pub fn due(&mut self, now: u64) -> Vec<DomainId> {
        let mut due = Vec::new();
        for id in &self.over {
            let late = |pool: &&Pool| matches!(pool.standing, Standing::Told(deadline) if deadline <= now);
            if let Some(pool) = self.table.get(*id).filter(late) {
                let users = self.users_within(*id);
                let holders = users.iter().copied().filter(|user| pool.rest.direct > 0 || self.held_by(*user) > 0);
                due.extend(holders);
            }
        }
        due.sort_unstable();
        due.dedup();
        due
    }

    /// A pool may hold so much from now on. What it holds beyond that is an overrun, as if it had been taken now.
    pub fn set_limit(&mut self, id: PoolId, limit: u64) {
        let Some(pool) = self.table.get_mut(id) else { return };
        pool.limit = limit.max(1);
        if pool.held > pool.limit && pool.standing == Standing::Within {
            self.overrun(id);
        }
        self.release(id, 0);
    }

    /// The state of a pool, for status.
    pub fn status(&self, id: PoolId) -> Option<PoolStatus> {
        self.table.get(id).map(|pool| PoolStatus {
            limit_bytes: pool.limit,
            held_bytes: pool.held,
            peak_bytes: pool.peak,
            overruns: pool.rest.overruns,
            refused: pool.rest.refused,
            domains: pool.rest.users.len(),
        })
    }

    /// Pools there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    #[inline]
    fn holding(&self, domain: DomainId) -> Option<Holding> {
        self.holdings.get(domain.index()).copied().filter(|holding| holding.domain == domain)
    }

    /// A pool and those it is part of, at most [`DEPTH_MAX`].
    #[inline]
    fn line(&self, id: PoolId) -> impl Iterator<Item = PoolId> + '_ {
        core::iter::successors(Some(id), |id| self.table.get(*id)?.parent).take(usize::from(DEPTH_MAX))
    }

    /// Counts bytes in a pool and all above it, or in none.
    #[inline]
    fn take(&mut self, id: PoolId, bytes: u64) -> Result<(), Error> {
        if let Some(pool) = self.table.get_mut(id).filter(|pool| pool.parent.is_none() && pool.fits(bytes)) {
            if pool.hold(bytes) {
                self.overrun(id);
            }
            return Ok(());
        }
        self.take_in_line(id, bytes)
    }

    /// The same for a pool that is part of another, or full.
    fn take_in_line(&mut self, id: PoolId, bytes: u64) -> Result<(), Error> {
        let fits = |id: &PoolId| self.table.get(*id).is_some_and(|pool| pool.fits(bytes));
        let full = self.line(id).find(|id| !fits(id));
        if let Some(full) = full {
            if let Some(pool) = self.table.get_mut(full) {
                pool.rest.refused += 1;
            }
            return Err(Error::Limit);
        }
        let mut at = Some(id);
        while let Some(id) = at {
            let Some(pool) = self.table.get_mut(id) else { break };
            at = pool.parent;
            if pool.hold(bytes) {
                self.overrun(id);
            }
        }
        Ok(())
    }

    /// A pool has gone over its limit.
    #[cold]
    fn overrun(&mut self, id: PoolId) {
        if let Some(pool) = self.table.get_mut(id) {
            pool.standing = Standing::Over;
            pool.rest.overruns += 1;
            self.over.push(id);
        }
    }

    #[inline]
    fn release(&mut self, id: PoolId, bytes: u64) {
        let mut at = Some(id);
        while let Some(id) = at {
            let Some(pool) = self.table.get_mut(id) else { break };
            pool.held = pool.held.saturating_sub(bytes);
            at = pool.parent;
            if pool.held <= pool.limit && pool.standing != Standing::Within {
                pool.standing = Standing::Within;
                self.over.retain(|other| *other != id);
            }
        }
    }

    /// The domains that use a pool or one of its parts.
    fn users_within(&self, top: PoolId) -> Vec<DomainId> {
        let within = self.table.iter().filter(|(id, _)| self.line(*id).any(|above| above == top));
        within.flat_map(|(_, pool)| pool.rest.users.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests;
