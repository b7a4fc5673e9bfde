//! What the kernel half is told of routes: for `an_route`, which code asks, and which addresses are the node's own.
//!
//! Packets go by the kernel's own tables. There may be a million routes, so they are told one by one as they change.

use super::KernelHalf;
use crate::kernel::told_routes::{Again, ToldRoutes, Untold};
use crate::topology::{Leads, RouteChange, Routes};
use crate::wire::{Addr, Prefix};
use std::io;
use std::sync::{MutexGuard, PoisonError};

/// All addresses of IPv4: never without an entry, so that no route of IPv6 is found for one of them.
const V4: Prefix = Prefix { addr: Addr::v4([0; 4]), length: 96 };

impl KernelHalf {
    /// Tells all routes of the node and its own addresses. What was told before and is not so any more goes.
    pub fn set_routes(&self, routes: &Routes, own: impl IntoIterator<Item = Addr>) -> io::Result<()> {
        self.set_own(own, routes)?;
        let all: Vec<_> = routes.iter().map(|(to, leads)| RouteChange { to, now: Some(leads) }).collect();
        self.change_routes(&all)?;
        self.forget_routes_before(routes)?;
        self.raise_generation()
    }

    /// Tells what has changed of the routes. Who has told all of it raises the generation.
    pub fn change_routes(&self, changes: &[RouteChange]) -> io::Result<()> {
        let told = &mut *self.told();
        let mut done = Ok(());
        // One that has no place keeps no other out.
        for RouteChange { to, now } in changes {
            if !told.is_own(*to) {
                done = self.put_noted(told, *to, *now).and(done);
            }
        }
        done
    }

    /// Tells the addresses of the node; routes to those that are not any more count again.
    pub fn set_own(&self, own: impl IntoIterator<Item = Addr>, routes: &Routes) -> io::Result<()> {
        let told = &mut *self.told();
        let before = core::mem::replace(&mut told.own, own.into_iter().collect());
        let gone: Vec<_> = before.difference(&told.own).copied().map(Prefix::host).collect();
        let own: Vec<_> = told.own.iter().copied().map(Prefix::host).collect();
        let mut done = Ok(());
        for to in gone.into_iter().chain(own) {
            done = self.put_noted(told, to, routes.get(to)).and(done);
        }
        done
    }

    /// All routes were told: what only a process before this one has told goes.
    pub fn forget_routes_before(&self, routes: &Routes) -> io::Result<()> {
        let told = &mut *self.told();
        let before = core::mem::take(&mut told.before);
        let mut done = Ok(());
        for to in before {
            if !told.is_own(to) && routes.get(to).is_none() {
                done = self.put_noted(told, to, None).and(done);
            }
        }
        self.put_noted(told, V4, routes.get(V4)).and(done)
    }

    /// Tells again what was not taken, as these routes are now; says how many of them are.
    pub fn retry_routes(&self, routes: &Routes) -> io::Result<usize> {
        let told = &mut *self.told();
        let again = match told.failed.again() {
            Again::Nothing => return Ok(0),
            Again::These(prefixes) => prefixes,
            Again::All => self.maps.prefixes()?.into_iter().chain(routes.iter().map(|(to, _)| to)).collect(),
        };
        let taken = again.iter().filter(|to| self.put_noted(told, **to, routes.get(**to)).is_ok()).count();
        if taken > 0 {
            self.raise_generation()?;
        }
        Ok(taken)
    }

    /// How many routes it has not taken.
    pub fn untold(&self) -> Untold {
        self.told().failed.untold()
    }

    /// Puts what an address block leads to, or that an address is the node's own.
    fn put_noted(&self, told: &mut ToldRoutes, to: Prefix, now: Option<Leads>) -> io::Result<()> {
        let done = if told.is_own(to) { self.maps.set_own(to.addr) } else { self.put(to, now) };
        told.failed.note(to, done.is_ok());
        done
    }

    fn put(&self, to: Prefix, now: Option<Leads>) -> io::Result<()> {
        match now.or((to == V4).then_some(None)) {
            Some(leads) => self.maps.set_route(to, leads),
            None => self.maps.remove_route(to),
        }
    }

    /// Where code that runs here finds that an address is; nothing: it is not to be had. The node's own are no routes.
    pub fn route_to(&self, to: Addr) -> io::Result<Leads> {
        self.maps.route_to(to)
    }

    fn told(&self) -> MutexGuard<'_, ToldRoutes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
