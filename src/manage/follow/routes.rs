//! The kernel's routes and rules of policy routing, and the node's own routes: what changes is told to both halves.
//!
//! ```text
//! kernel ── changes ──▶ [mirror] ── prefixes touched ──▶ [table] ── what leads otherwise ──▶ kernel half
//!        ◀─ all of it, when changes were lost ─┘             └── a copy that shares the rest ──▶ workers
//! ```

use super::{Follower, interface_of};
use crate::frame::PortId;
use crate::kernel::{Asker, KernelHalf, RuledRoutes};
use crate::sys::netlink::{self, Rules};
use crate::sys::threads::{self, Duty};
use crate::topology::{RouteChange, Router, Routes};
use anyhow::Result;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Pieces of the first reading that wait for the kernel half.
const BATCHES: usize = 64;

/// Until the kernel half is told again what it did not take: at first, and at most, since each time is twice that before.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(60);

impl Follower {
    /// Looks at the rules of policy routing.
    pub(super) fn look_at_rules(&mut self) {
        match netlink::rules() {
            Ok(rules) if self.report.renew(rules) => {
                say(rules);
                self.followed.renew();
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "rules of policy routing not followed"),
        }
    }

    /// Tells both halves all there is.
    pub(super) fn begin_routes(&mut self) -> Result<()> {
        self.renew_ports();
        // One that comes has a node from its start: threads that come later may start none.
        let Some(half) = self.half.clone() else {
            self.followed.begin(&self.report, drop);
            return self.tell_routes();
        };
        let (batches, inbox) = sync_channel::<Vec<RouteChange>>(BATCHES);
        let told = half.clone();
        // The kernel half takes as long as the reading of them.
        let put = move |batch: Vec<RouteChange>| told.change_routes(&batch);
        let telling = threads::start("anode-first", Duty::Routes, move || inbox.into_iter().try_for_each(put))?;
        // One that has ended says why.
        self.followed.begin(&self.report, |batch| drop(batches.send(batch)));
        drop(batches);
        complain(telling.join().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into())));
        self.tell_routes()?;
        complain(half.forget_routes_before(&self.followed.told));
        Ok(())
    }

    /// The ports are others than before.
    pub(super) fn renew_ports(&mut self) {
        let ports = self.plans.iter().enumerate().map(|(at, plan)| (interface_of(plan), PortId(at as u16)));
        // Of two ports at one interface the first has the routes.
        let ports: HashMap<_, _> = ports.rev().filter(|(interface, _)| *interface > 0).collect();
        self.followed.set_ports(ports);
        let gone = self.renew_own_routes();
        if gone > 0 {
            tracing::warn!(
                event = "route",
                routes = gone,
                "static routes lead nowhere: no port has their next hop in its subnet any more"
            );
        }
        let own = self.config.ports.iter().flat_map(|port| &port.addresses).map(|(addr, _)| *addr);
        if let Some(half) = self.half.as_deref() {
            complain(half.set_own(own, &self.followed.told));
        }
    }

    /// What the node has of its own is other than before: static routes, those of extensions, subnets of links. How many of the first lead
    /// nowhere.
    pub(super) fn renew_own_routes(&mut self) -> usize {
        let (fixed, gone) = self.file.fixed_routes_now(&self.config);
        let own = [
            self.brought.behind(fixed, (&self.config.ports, &self.config.neighbours)),
            self.file.link_routes(&self.config),
        ];
        self.followed.set_own(own);
        gone
    }

    /// Tells both halves what has changed. An error: the node is gone.
    pub(super) fn tell_routes(&mut self) -> Result<()> {
        self.followed.read_if_due(&self.report);
        self.followed.release();
        let ruled = self.report.rules().obeyed > 0;
        let changes = self.followed.changes(ruled);
        self.followed.say();
        let Some(changes) = changes else { return Ok(()) };
        if let Some(half) = self.half.as_deref() {
            complain(tell_half(half, &changes, ruled));
        }
        let routes = self.followed.copy();
        let router = if ruled { self.router(&routes) } else { None };
        self.tell(move |node, turn| node.follow_routes(turn, routes, router))
    }

    /// Tells the kernel half again what it did not take; gives for how long it is left alone then.
    pub(super) fn tell_again(&mut self) -> Option<Duration> {
        let (half, now) = (self.half.as_deref()?, Instant::now());
        if half.untold().now == 0 {
            self.seen.again = None;
            self.report.keep_untold(half.untold());
            return None;
        }
        let (due, pause) = *self.seen.again.get_or_insert((now + AGAIN, AGAIN));
        if due <= now {
            if let Err(error) = half.retry_routes(&self.followed.told) {
                complain(Err(error));
            }
            let pause = (2 * pause).min(AGAIN_MAX);
            self.seen.again = Some((now + pause, pause));
        }
        let untold = half.untold();
        let before = self.report.keep_untold(untold);
        if untold.now == 0 {
            tracing::info!(event = "route", routes = before.now, "the kernel half has taken all routes after all");
            self.seen.again = None;
        }
        self.seen.again.map(|(due, _)| due.saturating_duration_since(now))
    }

    /// Who is asked in the place of the routes.
    fn router(&mut self, main: &Arc<Routes>) -> Option<Arc<dyn Router>> {
        if self.seen.asker.is_none() {
            match Asker::open() {
                Ok(asker) => self.seen.asker = Some(Arc::new(asker)),
                Err(error) => {
                    tracing::warn!(%error, "the kernel cannot be asked: packets go by the main tables alone");
                    return None;
                }
            }
        }
        Some(Arc::new(RuledRoutes {
            asker: self.seen.asker.clone()?,
            interfaces: self.plans.iter().map(interface_of).collect(),
            fixed: self.followed.fixed.clone(),
            main: main.clone(),
        }))
    }
}

fn tell_half(half: &KernelHalf, changes: &[RouteChange], ruled: bool) -> io::Result<()> {
    // What is remembered is found out anew whatever had no room.
    let told = half.change_routes(changes);
    half.set_ruled(ruled)?;
    half.raise_generation()?;
    told
}

fn complain(told: io::Result<()>) {
    if let Err(error) = told {
        tracing::error!(%error, "the kernel half is not told of new routes");
    }
}

fn say(Rules { obeyed, not_obeyed }: Rules) {
    if obeyed > 0 {
        tracing::info!(
            event = "route",
            rules = obeyed,
            "rules of policy routing decide: the kernel is asked for the way of each flow"
        );
    }
    if not_obeyed > 0 {
        tracing::warn!(
            event = "route",
            rules = not_obeyed,
            "rules for marked packets are not obeyed: nothing of the node's is marked"
        );
    }
}
