//! Packets for other nodes: their next hop, and their form on the way there.
//!
//! Only the front of such a packet is read: its header, the name of its routing function, its codes. Codes that the
//! next node does not hold go with the packet whole.

use super::config::Config;
use super::costs::frames;
use super::flows::MeasuredFlow;
use super::loaded::Loaded;
use super::rip::Rip;
use super::{ANYONE, Fate, Next, Plan, PlanOs, State, account};
use crate::core::reason::Reason;
use crate::frame::{PeerId, PortId};
use crate::topology::{Neighbour, Topology};
use crate::wire::Addr;
use plan::eval::Cause;
use plan::name::Name;
use plan::packet::{Code, Front, Outline};
use plan::program::Digest;
use plan::value::{Host, Value};

pub(super) const DEFAULT_ROUTE: Name = Name::known("defaultRoute");
const RIP: Name = Name::known("RIP");
pub(super) const FLOW_ROUTE: Name = Name::known("flowRoute");
const NO_ROUTE: Name = Name::known("NoRoute");
const RIP_NO_ROUTE: Name = Name::known("RIPNoRoute");

/// Steps that a loaded service has to find a way.
const ROUTE_STEPS: u32 = 1000;

/// What routing functions look at, besides the node.
pub(super) struct Guide<'a> {
    pub state: &'a mut State,
    pub config: &'a Config,
    pub loaded: &'a mut [Loaded],
    /// The way of the packet's flow that the evaluation under way has set, which counts before the one that is known.
    pub set: Option<MeasuredFlow>,
    /// Steps that are left to who asks.
    pub steps: u32,
}

/// What a routing function says of a destination; `flow` is the packet's session and flow.
pub(super) fn find(
    guide: &mut Guide<'_>,
    env: &mut dyn PlanOs,
    routing: &Name,
    flow: ([u8; 16], u32),
    to: Addr,
) -> Result<Next, Name> {
    if let Some(service) = guide.loaded.iter_mut().find(|service| service.name == *routing) {
        return by_service(service, env, to, &mut guide.steps);
    }
    let Guide { state, config, set, .. } = guide;
    if *routing == FLOW_ROUTE
        && let Some(way) = set.or_else(|| state.flows.of(env.now(), flow.0, flow.1)).filter(|way| way.until > env.now())
    {
        let next = neighbour(env.topology(), Addr(way.next.0), Some(way.dev));
        return next.map(|next| Next { to, ..next }).ok_or(NO_ROUTE);
    }
    let default = *routing == DEFAULT_ROUTE || *routing == FLOW_ROUTE;
    if *routing == RIP || default && config.default_rip {
        by_rip(state.rip.as_ref(), to)
    } else if default
        && let Some(name) = &config.default_service
        && let Some(service) = guide.loaded.iter_mut().find(|service| service.name == *name)
    {
        let found = by_service(service, env, to, &mut guide.steps);
        // What it does not know goes by the node's routes, as all does if it does not answer: a packet is not lost by that.
        found.or_else(|_| by_routes(env, to).ok_or(NO_ROUTE))
    } else if default {
        by_routes(env, to).ok_or(NO_ROUTE)
    } else {
        Err(Name::SERVICE_NOT_PRESENT)
    }
}

/// What a loaded service of the type `host -> host * dev` says, within few steps: a neighbour, or it raises.
fn by_service(service: &mut Loaded, env: &mut dyn PlanOs, to: Addr, steps: &mut u32) -> Result<Next, Name> {
    let (said, taken) = service.call(env, &[Value::Host(Host(to.0))], ROUTE_STEPS.min(*steps));
    *steps = steps.saturating_sub(taken);
    let bad = const { Name::known("BadService") };
    let said = said.map_err(|stop| if let plan::eval::Stop::Raise(name) = stop { name } else { bad.clone() })?;
    let Value::Tuple(items) = said else { return Err(bad) };
    let [Value::Host(via), Value::Dev(dev)] = items.items() else { return Err(bad) };
    let next = neighbour(env.topology(), Addr(via.0), Some(*dev));
    next.map(|next| Next { to, ..next }).ok_or(NO_ROUTE)
}

fn by_rip(rip: Option<&Rip>, to: Addr) -> Result<Next, Name> {
    let next = rip.and_then(|rip| rip.next_hop(to));
    next.map(|next| Next { to, ..next }).ok_or(RIP_NO_ROUTE)
}

/// What the node's routes say.
fn by_routes(env: &mut dyn PlanOs, to: Addr) -> Option<Next> {
    let way = env.way(to);
    let next = way.next?;
    let via = if next.via.is_unspecified() { to } else { next.via };
    let overlay = env.topology().port(next.port)?.link == crate::frame::Link::Overlay;
    (!overlay || way.peer != PeerId::NONE).then_some(Next { port: next.port, peer: way.peer, via, to })
}

/// The neighbour with this address, by this port if one is given.
pub(super) fn neighbour(topology: &Topology, addr: Addr, dev: Option<u32>) -> Option<Next> {
    let by = |port: PortId| dev.is_none_or(|dev| dev == u32::from(port.0));
    let known = topology.neighbours.iter().find(|known| known.addr == addr && by(known.port));
    if let Some(known) = known {
        return Some(Next { port: known.port, peer: known.peer, via: addr, to: addr });
    }
    let ports = topology.ports.iter().enumerate().map(|(at, port)| (PortId(at as u16), port));
    let near = |(id, port): &(PortId, &crate::topology::Port)| by(*id) && port.leads_to(addr);
    ports.filter(near).map(|(port, _)| Next { port, peer: PeerId::NONE, via: addr, to: addr }).next()
}

impl Plan {
    /// Sends a packet on; `judged` if it is known whether somebody has signed it.
    pub(super) fn pass(
        &mut self,
        env: &mut dyn PlanOs,
        from: Option<&Neighbour>,
        bytes: &mut [u8],
        judged: bool,
    ) -> Fate {
        match Outline::read(bytes).map(Outline::front) {
            Ok(front) => self.pass_read(env, from, (bytes, front), judged),
            Err(_) => self.end(bytes, Reason::MalformedPlan),
        }
    }

    /// The same of one whose front was read.
    pub(super) fn pass_read(
        &mut self,
        env: &mut dyn PlanOs,
        from: Option<&Neighbour>,
        (bytes, front): (&mut [u8], Front),
        judged: bool,
    ) -> Fate {
        let Some(outline) = Outline::again(bytes, front) else { return self.end(bytes, Reason::MalformedPlan) };
        if let Err(reason) = env.admit(ANYONE, bytes.len()) {
            return self.end(bytes, reason);
        }
        let (view, routing) = (outline.view(), outline.routing.clone());
        let (to, by_digest) = (Addr(view.destination().0), view.by_digest());
        let absent = self.take_codes(env, from, &outline);
        let steps = 2 * ROUTE_STEPS;
        let mut guide =
            Guide { state: &mut self.state, config: &self.config, loaded: &mut self.loaded, set: None, steps };
        let flow = (view.session(), view.flow());
        let mut found = find(&mut guide, env, &routing, flow, to);
        if view.report() && found == Err(Name::SERVICE_NOT_PRESENT) {
            // That the routing function is missing here may be what it reports.
            found = find(&mut guide, env, &DEFAULT_ROUTE, flow, to);
        }
        let taken = steps - guide.steps;
        if taken > 0 {
            env.charge(ANYONE, taken.into(), 0);
        }
        let next = match found {
            Ok(next) => next,
            Err(name) => return self.fail(env, bytes, name, Reason::NoRoute),
        };
        if view.bound() == 0 {
            return self.fail(env, bytes, Name::NOT_ENOUGH_RB, Reason::Bound);
        }
        if let Some(digest) = absent {
            return self.wait_for_code(env, from, bytes, digest);
        }
        if !judged && let Some(from) = from.filter(|from| view.bound() > self.ceiling(env, from).unsigned) {
            return self.wait_for_signer(env, from, bytes);
        }
        let length = self.length_in_all(env, &next, bytes) + self.debt;
        let Some(frames) = frames(env, &next, length) else {
            return self.end(bytes, Reason::TooBig);
        };
        if view.bound() < frames {
            return self.fail(env, bytes, Name::NOT_ENOUGH_RB, Reason::Bound);
        }
        if let Some(from) = from.filter(|_| !by_digest) {
            self.tell_within(env, (&next, frames), length, from);
        }
        // One that would have nothing left to ask with is sent whole.
        if by_digest && (view.bound() == frames || !self.next_holds(&next)) {
            return self.pass_whole(env, &next, bytes, frames);
        }
        self.spend(env, &next, bytes, frames);
        if bytes.len() <= env.room(&next) {
            return Fate::Forward(next);
        }
        self.state.send(env, &next, bytes);
        Fate::Taken
    }

    /// Notes which codes the packet's neighbour holds, and keeps those that came whole; gives the first that is not here.
    fn take_codes(&mut self, env: &mut dyn PlanOs, from: Option<&Neighbour>, front: &Outline<'_>) -> Option<Digest> {
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        let mut absent = None;
        for code in front.codes() {
            match code {
                Code::Digest(digest) => {
                    if !self.library.has(&digest) {
                        absent = absent.or(Some(digest));
                    }
                    seen.push(digest);
                }
                Code::Whole(bytes) => {
                    // What cannot be read is for the node that evaluates it to complain of.
                    if let Ok((program, compiled)) = self.library.by_bytes(bytes, &self.table, usize::MAX) {
                        self.state.charge_compiling(env, compiled);
                        seen.push(program.digest());
                    }
                }
            }
        }
        if let Some(from) = from {
            self.note_codes(from, &seen);
        }
        self.seen = seen;
        absent
    }

    /// Whether the next node holds all codes of the packet under way; it counts on being asked otherwise.
    fn next_holds(&mut self, next: &Next) -> bool {
        let peers = &mut self.state.peers;
        let all = self.seen.iter().all(|digest| peers.knows(next.port, next.via, digest));
        if all {
            self.seen.iter().for_each(|digest| peers.mark(next.port, next.via, digest));
        }
        all
    }

    fn pass_whole(&mut self, env: &mut dyn PlanOs, next: &Next, bytes: &[u8], frames: u32) -> Fate {
        let mut whole = self.buffers.pop().unwrap_or_default();
        whole.clear();
        let library = &self.library;
        let written = Outline::read(bytes).and_then(|front| front.expand(|digest| library.bytes(digest), &mut whole));
        let fate = match written {
            Ok(()) => {
                self.spend(env, next, &mut whole, frames);
                self.state.send(env, next, &whole);
                Fate::Taken
            }
            Err(_) => self.end(bytes, Reason::TooBig),
        };
        self.recycle(whole);
        fate
    }

    /// A packet on its way ends with an exception.
    fn fail(&mut self, env: &mut dyn PlanOs, bytes: &[u8], name: Name, reason: Reason) -> Fate {
        let left = match self.decode(env, bytes, &mut Vec::new()) {
            Ok(packet) => {
                let left = self.left_of(packet.header.bound);
                self.report(env, &packet, &Cause::Exception(name), left)
            }
            Err(_) => account::bound_of(bytes),
        };
        self.state.account.unused += left;
        Fate::Drop(reason)
    }
}
