//! RIP between PLAN neighbours: distance vectors with the rules of RFC 2453. Example: "r3 is two hops from me".
//!
//! A node tells its neighbours its distances from all other nodes, at intervals and soon after a change. Routes learned
//! from a neighbour are told back to it as unreachable (split horizon with poisoned reverse, 3.4.3). A silent route
//! becomes unreachable and is forgotten a while later (3.8). Routes lead to the nodes' own addresses, since packets are
//! evaluated there. Messages come from neighbours alone; on an interface without any, the node asks everybody on the
//! link, so an unknown node there hears of this one and answers.
//!
//! Configured neighbours are told one by one. Neighbours that have only shown themselves on a link may be invented:
//! they get one common message to everybody on the link (4.3), and each by itself only answers that its own questions
//! pay for.
//!
//! Any name can be a destination, so who brings one holds a place of the table, and nobody may hold more than is left
//! ([`Shares`]). Example: one neighbour that invents addresses has half of the places, two have a third each.

use super::{Next, PlanOs};
use crate::core::reason::Reason;
use crate::frame::shares::Shares;
use crate::frame::{Link, Payer, PeerId, PortId};
use crate::topology::Neighbour;
use crate::wire::Addr;
use crate::wire::plan::{self as wire, INFINITY, ROUTES_MAX, Route, RoutesView};
use std::collections::{BTreeMap, BTreeSet};

/// Destinations kept.
pub const DESTINATIONS_MAX: usize = 4096;

const SECOND: u64 = 1_000_000_000;

/// How often things happen, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Between two updates (RFC 2453: 30 s).
    pub update: u64,
    /// Until a route that nobody mentions is unreachable (180 s).
    pub timeout: u64,
    /// Until it is forgotten then (120 s).
    pub garbage: u64,
    /// Between a change and the word of it, at least (1 s); at most five times that.
    pub triggered: u64,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { update: 30 * SECOND, timeout: 180 * SECOND, garbage: 120 * SECOND, triggered: SECOND }
    }
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RipEntry {
    /// The neighbour it goes by.
    pub by: Neighbour,
    /// Hops, [`INFINITY`] if there is no way.
    pub metric: u8,
    /// Until when it counts, or is kept if it does not.
    until: u64,
    changed: bool,
    /// Who holds its place: whose route it is.
    payer: Payer,
}

/// The routes of one node.
pub struct Rip {
    timers: Timers,
    routes: BTreeMap<Addr, RipEntry>,
    places: Shares<Payer>,
    /// Destinations that found no place.
    no_room: u64,
    /// When routes end, and whether one has changed: so nothing is looked through for that.
    ends: BTreeSet<(u64, Addr)>,
    any_changed: bool,
    next_update: u64,
    /// When changes are told.
    next_triggered: u64,
    /// Before this nothing is told again.
    quiet_until: u64,
    buffer: Vec<u8>,
}

impl Rip {
    /// No routes yet.
    pub fn new(timers: Timers) -> Rip {
        Rip {
            timers,
            routes: BTreeMap::new(),
            places: Shares::new(DESTINATIONS_MAX as u64),
            no_room: 0,
            ends: BTreeSet::new(),
            any_changed: false,
            next_update: 0,
            next_triggered: u64::MAX,
            quiet_until: 0,
            buffer: vec![],
        }
    }

    /// The way to a destination.
    pub fn next_hop(&self, to: Addr) -> Option<Next> {
        let entry = self.routes.get(&to).filter(|entry| entry.metric < INFINITY)?;
        let Neighbour { addr, port, peer } = entry.by;
        Some(Next { port, peer, via: addr, to })
    }

    /// All routes that count.
    pub fn routes(&self) -> impl Iterator<Item = (Addr, &RipEntry)> {
        self.routes.iter().filter(|(_, entry)| entry.metric < INFINITY).map(|(to, entry)| (*to, entry))
    }

    /// How many destinations it has heard of.
    pub fn heard_of(&self) -> usize {
        self.routes.len()
    }

    /// How many destinations found no place.
    pub fn no_room(&self) -> u64 {
        self.no_room
    }

    /// A neighbour's message.
    pub fn receive(&mut self, env: &mut dyn PlanOs, from: &Neighbour, routes: &RoutesView<'_>) {
        let now = env.now();
        if routes.request {
            return self.answer(env, from);
        }
        // Natively a packet is an IP packet, and its next hop one of the same family; a node is a neighbour once in each.
        let fits = |to: Addr| from.peer != PeerId::NONE || to.is_v4() == from.addr.is_v4();
        for route in routes.iter().filter(|route| route.length == 128 && fits(route.to)) {
            if !env.topology().is_own(route.to) {
                self.hear(now, (from, env.payer()), route);
            }
        }
        self.plan_triggered(now, env.random());
    }

    /// RFC 2453, 3.9.2.
    fn hear(&mut self, now: u64, (from, payer): (&Neighbour, Payer), route: Route) {
        let metric = (route.metric + 1).min(INFINITY);
        let (live, dead) = (now + self.timers.timeout, now + self.timers.garbage);
        let until = if metric < INFINITY { live } else { dead };
        let ended = self.routes.get(&route.to).map(|entry| entry.until);
        let heard = RipEntry { by: *from, metric, until, changed: true, payer };
        match self.routes.get_mut(&route.to) {
            Some(entry) if entry.by == *from => {
                let ends = metric == INFINITY && entry.metric == INFINITY;
                if !ends {
                    entry.until = until;
                }
                entry.changed |= entry.metric != metric;
                entry.metric = metric;
            }
            Some(entry) => {
                // As far, but the one in use is about to time out: the heuristic of 3.9.2.
                let stale = metric == entry.metric && entry.until < now + self.timers.timeout / 2;
                if metric < entry.metric || stale && metric < INFINITY {
                    let changed = entry.changed || metric != entry.metric;
                    self.places.give(entry.payer, 1);
                    self.places.take_back(payer, 1);
                    *entry = RipEntry { changed, ..heard };
                }
            }
            None if metric < INFINITY && self.places.take(payer, 1) => drop(self.routes.insert(route.to, heard)),
            None => self.no_room += u64::from(metric < INFINITY),
        }
        let Some(entry) = self.routes.get(&route.to) else { return };
        self.any_changed |= entry.changed;
        if ended != Some(entry.until) {
            ended.map(|ended| self.ends.remove(&(ended, route.to)));
            self.ends.insert((entry.until, route.to));
        }
    }

    fn plan_triggered(&mut self, now: u64, random: u64) {
        if self.next_triggered == u64::MAX && self.any_changed {
            // 3.10.1: after one to five seconds, so that changes are told together.
            let pause = self.timers.triggered / 16 + random % (self.timers.triggered / 16).max(1);
            self.next_triggered = (now + pause).max(self.quiet_until);
        }
    }

    /// When something is due.
    pub fn next_timer(&self) -> u64 {
        let ends = self.ends.first().map_or(u64::MAX, |(until, _)| *until);
        ends.min(self.next_update).min(self.next_triggered)
    }

    /// Does what is due.
    pub fn timer(&mut self, env: &mut dyn PlanOs) {
        let now = env.now();
        self.expire(now);
        let random = env.random();
        self.plan_triggered(now, random);
        if now >= self.next_update {
            let first = self.next_update == 0;
            // 3.8: a sixth more or less, so that neighbours do not march in step.
            let third = (self.timers.update / 3).max(1);
            self.next_update = now + self.timers.update - third / 2 + random % third;
            self.tell_all(env, false, first);
        } else if now >= self.next_triggered {
            self.tell_all(env, true, false);
        }
    }

    fn expire(&mut self, now: u64) {
        while let Some((_, to)) = self.ends.first().copied().filter(|(until, _)| *until <= now) {
            self.ends.pop_first();
            match self.routes.get_mut(&to).filter(|entry| entry.metric < INFINITY) {
                Some(entry) => {
                    (entry.metric, entry.until, entry.changed) = (INFINITY, now + self.timers.garbage, true);
                    self.ends.insert((entry.until, to));
                    self.any_changed = true;
                }
                None => {
                    let gone = self.routes.remove(&to);
                    gone.into_iter().for_each(|gone| self.places.give(gone.payer, 1));
                }
            }
        }
    }

    fn tell_all(&mut self, env: &mut dyn PlanOs, changes: bool, ask: bool) {
        let (now, random) = (env.now(), env.random());
        self.tell_links(env, changes, ask);
        for at in 0.. {
            let Some(neighbour) = env.topology().neighbours.of(at).copied() else { break };
            if !env.expects(neighbour.addr, neighbour.port) {
                continue;
            }
            if ask {
                self.ask(env, &neighbour);
            }
            self.tell(env, &neighbour, changes);
        }
        self.routes.values_mut().for_each(|entry| entry.changed = false);
        self.any_changed = false;
        self.next_triggered = u64::MAX;
        self.quiet_until = now + self.timers.triggered + random % (4 * self.timers.triggered).max(1);
    }

    /// Asks everybody of a family on the links where no neighbour of it is known, and tells everybody where there are some that
    /// nobody has configured.
    fn tell_links(&mut self, env: &mut dyn PlanOs, changes: bool, ask: bool) {
        for at in 0.. {
            let id = PortId(at);
            let Some(port) = env.topology().port(id) else { break };
            if port.link == Link::Overlay {
                continue;
            }
            let families = [true, false].map(|v4| port.addresses.iter().any(|(own, _)| own.is_v4() == v4));
            let there: Vec<Addr> =
                env.topology().neighbours.iter().filter(|known| known.port == id).map(|known| known.addr).collect();
            for (v4, _) in [true, false].into_iter().zip(families).filter(|(_, there)| *there) {
                let all = Neighbour { addr: wire::everybody(v4), port: id, peer: PeerId::NONE };
                let mut here = there.iter().filter(|addr| addr.is_v4() == v4);
                let strange = here.clone().any(|addr| !env.expects(*addr, id));
                // A neighbour may be known by its address of the other family alone.
                if here.next().is_none() && !changes || strange && ask {
                    self.ask(env, &all);
                }
                if strange {
                    self.tell(env, &all, changes);
                }
            }
        }
    }

    fn ask(&mut self, env: &mut dyn PlanOs, to: &Neighbour) {
        let mut message = std::mem::take(&mut self.buffer);
        message.clear();
        put_question(&mut message);
        self.send(env, to, message);
    }

    /// Tells a neighbour that has asked, as far as it may be sent so much.
    fn answer(&mut self, env: &mut dyn PlanOs, to: &Neighbour) {
        for routes in self.routes_for(env, to, false).chunks(ROUTES_MAX) {
            if !env.may_send(to.addr, Some(to.port), wire::routes_length(routes.len())) {
                return env.withhold(Reason::Unanswered);
            }
            self.put(env, to, routes);
        }
    }

    /// Tells a neighbour the routes, or those that have changed.
    fn tell(&mut self, env: &mut dyn PlanOs, to: &Neighbour, changes: bool) {
        for routes in self.routes_for(env, to, changes).chunks(ROUTES_MAX) {
            self.put(env, to, routes);
        }
    }

    fn put(&mut self, env: &mut dyn PlanOs, to: &Neighbour, routes: &[Route]) {
        let mut message = std::mem::take(&mut self.buffer);
        message.clear();
        wire::put_routes(false, routes.iter().copied(), &mut message);
        self.send(env, to, message);
    }

    fn routes_for(&self, env: &dyn PlanOs, to: &Neighbour, changes: bool) -> Vec<Route> {
        let own = env.topology().ports.iter().flat_map(|port| &port.addresses);
        let own = own.map(|(addr, _)| *addr).filter(|addr| !addr.is_link_local() && !changes);
        let own = own.map(|to| Route { to, length: 128, metric: 1 });
        let all = wire::is_everybody(to.addr);
        let others = self.routes.iter().filter(|(_, entry)| entry.changed || !changes).map(|(addr, entry)| {
            let back = entry.by == *to || all && entry.by.port == to.port;
            let metric = if back { INFINITY } else { entry.metric };
            Route { to: *addr, length: 128, metric }
        });
        let mut all: Vec<Route> = own.chain(others).collect();
        all.sort_unstable_by_key(|route| route.to);
        all.dedup_by_key(|route| route.to);
        all
    }

    fn send(&mut self, env: &mut dyn PlanOs, to: &Neighbour, message: Vec<u8>) {
        let next = Next { port: to.port, peer: to.peer, via: to.addr, to: to.addr };
        env.send(&next, &mut |frame| {
            frame.get_mut(..message.len())?.copy_from_slice(&message);
            Some(message.len())
        });
        self.buffer = message;
    }
}

/// A question for all routes: as long as a message can be, since the answer may be three times as long where nobody has answered yet.
fn put_question(message: &mut Vec<u8>) {
    let nowhere = Route { to: Addr::UNSPECIFIED, length: 0, metric: INFINITY };
    wire::put_routes(true, [nowhere; ROUTES_MAX], message);
}
