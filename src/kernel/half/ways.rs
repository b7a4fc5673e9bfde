//! What the kernel half is told of routes: for `an_route`, which code asks, and which addresses are the node's own.
//!
//! Packets go by the kernel's own tables. There may be a million routes, so they are told one by one as they change.

use super::KernelHalf;
use crate::kernel::told_routes::ToldRoutes;
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
        let told = self.told();
        let mut done = Ok(());
        // One that has no place keeps no other out.
        for change in changes.iter().filter(|change| !told.is_own(change.to)) {
            done = self.put(change.to, change.now).and(done);
        }
        done
    }

    /// Tells the addresses of the node; routes to those that are not any more count again.
    pub fn set_own(&self, own: impl IntoIterator<Item = Addr>, routes: &Routes) -> io::Result<()> {
        let mut told = self.told();
        let before = core::mem::replace(&mut told.own, own.into_iter().collect());
        for gone in before.difference(&told.own).copied().map(Prefix::host) {
            self.put(gone, routes.get(gone))?;
        }
        told.own.iter().try_for_each(|addr| self.maps.set_own(*addr))
    }

    /// All routes were told: what only a process before this one has told goes.
    pub fn forget_routes_before(&self, routes: &Routes) -> io::Result<()> {
        let mut told = self.told();
        let before = core::mem::take(&mut told.before);
        let gone = before.into_iter().filter(|to| !told.is_own(*to) && routes.get(*to).is_none());
        gone.into_iter().try_for_each(|to| self.put(to, None))?;
        self.put(V4, routes.get(V4))
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
