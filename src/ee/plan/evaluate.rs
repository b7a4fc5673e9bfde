//! Evaluation: from octets for this node to what came of them.

use super::config::Config;
use super::holders::Holder;
use super::library::{Library, Shelf};
use super::loaded::Loaded;
use super::outbox::{Deed, Outbox, Outgoing};
use super::route::Guide;
use super::table::{Service, Table};
use super::{ANYONE, Fate, Next, Plan, PlanOs, State, account, layers, route};
use crate::core::reason::Reason;
use crate::topology::Neighbour;
use crate::wire::Addr;
use plan::eval::{self, Cause, Fault, Limits, NewPacket, Run, Stop, Way};
use plan::name::Name;
use plan::packet::{DecodeError, Header, Packet, View, encode_with, slices};
use plan::program::{ServiceId, Services};
use plan::value::{Callee, Chunk, Host, Value};
use std::sync::Arc;

/// Steps that compiling an octet of code is charged as.
const COMPILE_STEPS: u64 = 16;

/// The shortest time between tries, in nanoseconds.
const INTERVAL_MIN: u64 = 10_000_000;

/// How far a packet has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// As it arrived.
    Sealed,
    /// A principal has signed what is left of it; there may be more layers.
    Vouched(usize),
    /// All layers are open, and this is the principal.
    Open(usize),
}

/// The node while it evaluates one packet.
pub(super) struct At<'a> {
    pub env: &'a mut dyn PlanOs,
    pub state: &'a mut State,
    pub table: &'a Table,
    pub loaded: &'a mut Vec<Loaded>,
    pub library: &'a mut Library,
    pub config: &'a Config,
    pub outbox: &'a mut Outbox,
    pub from: Option<&'a Neighbour>,
    pub principal: usize,
}

/// An exception of this name.
pub(super) const fn raise(name: Name) -> Stop {
    Stop::Raise(name)
}

impl Services for At<'_> {
    fn service(&self, name: &Name) -> Option<ServiceId> {
        self.table.service(name)
    }
}

impl eval::Node for At<'_> {
    fn call(&mut self, service: ServiceId, given: &[Value], state: &mut eval::State<'_>) -> eval::Result<Value> {
        match self.table.of(service, self.principal) {
            Some(Service::Core(call)) => call(self, given, state),
            Some(Service::Loaded(number)) => self.call_loaded(number, given, state),
            None => Err(raise(Name::SERVICE_NOT_PRESENT)),
        }
    }

    fn send(&mut self, packet: &NewPacket<'_>) -> eval::Result<()> {
        let to = Addr(packet.destination.0);
        let next = match packet.way {
            Way::Routed { .. } if self.env.topology().is_own(to) => None,
            Way::Routed { routing, .. } => {
                let flow = (packet.parent.session, packet.parent.flow);
                Some(self.find(routing, flow, to)?)
            }
            Way::Neighbor(dev) => {
                let next = route::neighbour(self.env.topology(), to, dev);
                Some(next.ok_or(raise(const { Name::known("NotNeighbor") }))?)
            }
        };
        let here = Host(self.env.way(to).own.0);
        let header = packet.header(here);
        match packet.way {
            Way::Routed { routing, tries, interval_ms } if tries > 1 => {
                self.send_reliably(next, (header, routing), packet.chunk, tries - 1, interval_ms)
            }
            _ => self.put(next, header, packet.chunk),
        }
    }
}

impl At<'_> {
    /// What a routing function says of a destination.
    pub fn find(&mut self, routing: &Name, flow: ([u8; 16], u32), to: Addr) -> eval::Result<Next> {
        let At { env, state, loaded, config, .. } = self;
        route::find(&mut Guide { state, config, loaded }, &mut **env, routing, flow, to).map_err(raise)
    }

    /// Who holds what the packet keeps here.
    pub fn holder(&self) -> Holder {
        Holder::of(self.principal, self.env.payer())
    }

    /// Adds a packet to the outbox.
    pub fn put(&mut self, next: Option<Next>, mut header: Header, chunk: &Chunk) -> eval::Result<()> {
        let too_big = || raise(const { Name::known("TooBig") });
        if !self.outbox.has_room() {
            return Err(raise(const { Name::known("Refused") }));
        }
        let codes = slices(chunk).ok_or_else(too_big)?;
        header.by_digest = false;
        if let Some(Next { port, via, .. }) = next {
            let State { peers, .. } = self.state;
            let known = |slice: &&plan::program::Slice| {
                peers.knows(port, via, &slice.digest) && self.library.has(&slice.digest)
            };
            // One that would have nothing left to ask with is sent whole.
            header.by_digest = header.bound > 0 && !codes.is_empty() && codes.iter().all(known);
            if !header.by_digest {
                // Whoever learns the code from here may be sent its digest later, and may then have lost it.
                for slice in codes.iter().filter(|slice| !slice.octets.is_empty()) {
                    if !self.library.has(&slice.digest) && self.library.by_octets(&slice.octets, self.table).is_ok() {
                        self.env.charge(ANYONE, slice.octets.len() as u64 * COMPILE_STEPS, 0);
                    }
                }
            }
        }
        let start = self.outbox.octets.len();
        if !encode_with(&header, chunk, &codes, &mut self.outbox.octets) {
            return Err(too_big());
        }
        let range = start..self.outbox.octets.len();
        let paid = match self.pay(next.as_ref(), &header, &codes, range.clone()) {
            Ok(paid) => paid,
            Err(stop) => {
                self.outbox.octets.truncate(start);
                return Err(stop);
            }
        };
        if let Some(Next { port, via, .. }) = next.filter(|_| header.by_digest) {
            self.state.account.by_digest += 1;
            codes.iter().for_each(|slice| self.state.peers.mark(port, via, &slice.digest));
        }
        self.outbox.packets.push(Outgoing { next, range, paid });
        Ok(())
    }

    /// Sends a packet now, and again until its arrival is known.
    fn send_reliably(
        &mut self,
        next: Option<Next>,
        (header, routing): (Header, &Name),
        chunk: &Arc<Chunk>,
        again: u32,
        interval_ms: u32,
    ) -> eval::Result<()> {
        let refused = || raise(const { Name::known("Refused") });
        let (number, donated) = (self.env.nonce() as i64, header.bound.saturating_add(1));
        let number = number & i64::MAX;
        let arguments =
            [Value::Host(header.previous), Value::Int(number), Value::Int(donated.into()), Value::Chunk(chunk.clone())];
        let wrapped = Chunk::new(Callee::Service(layers::RELIABLY), arguments).ok_or(Fault::Value)?;
        // A copy that leaves later spends its first hop then.
        let later =
            Packet { header: Header { bound: donated, by_digest: false, ..header.clone() }, chunk: Arc::new(wrapped) };
        let octets = later.octets().ok_or(raise(const { Name::known("TooBig") }))?;
        let interval = (u64::from(interval_ms) * 1_000_000).max(INTERVAL_MIN);
        let due = self.env.now().saturating_add(interval);
        // Programs say ways of flows, so only the way that all packets take proves who is at its end.
        let proves = (*routing == route::DEFAULT_ROUTE).then_some(Addr(header.destination.0));
        let (payer, holder) = (self.env.payer(), self.holder());
        let job = super::jobs::Job { octets, left: again, due, interval, number: Some(number), proves, payer, holder };
        if !self.state.jobs.has_room(holder) || !self.outbox.deed(Deed::Job(Box::new(job))) {
            return Err(refused());
        }
        let sent = self.put(next, header, &later.chunk);
        if sent.is_err() {
            self.outbox.deeds.pop();
        }
        sent
    }
}

impl Plan {
    /// A packet for this node.
    pub(super) fn arrive(&mut self, env: &mut dyn PlanOs, from: Option<&Neighbour>, octets: &[u8]) -> Fate {
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        let mut shelf = Shelf { library: &mut self.library, table: &self.table, seen: &mut seen, compiled: 0 };
        let decoded = Packet::decode(octets, &mut shelf);
        let compiled = shelf.compiled;
        if compiled > 0 {
            env.charge(ANYONE, compiled as u64 * COMPILE_STEPS, 0);
        }
        let whole = View::new_checked(octets).is_some_and(|view| !view.by_digest());
        if let (Some(from), Ok(_)) = (from, &decoded) {
            self.note_codes(from, &seen);
        }
        self.seen = seen;
        match decoded {
            Ok(packet) => {
                self.untold = whole;
                let fate = self.evaluate(env, from, packet, octets.len(), Stage::Sealed);
                self.untold = false;
                fate
            }
            Err(DecodeError::Absent(digest)) => self.wait_for_code(env, from, octets, digest),
            Err(_) => self.end(octets, Reason::MalformedPlan),
        }
    }

    /// Octets that end here.
    pub(super) fn end(&mut self, octets: &[u8], reason: Reason) -> Fate {
        self.state.account.unused += account::bound_of(octets);
        Fate::Drop(reason)
    }

    /// Evaluates a packet, which may have waited before.
    pub(super) fn evaluate(
        &mut self,
        env: &mut dyn PlanOs,
        from: Option<&Neighbour>,
        packet: Packet,
        length: usize,
        stage: Stage,
    ) -> Fate {
        let mut outbox = std::mem::take(&mut self.outbox);
        outbox.debt = self.debt;
        let (packet, principal) = match self.opened(env, (from, length), packet, stage, &mut outbox) {
            Ok(opened) => opened,
            Err(fate) => return fate,
        };
        let steps = match env.admit(principal, length) {
            Ok(steps) => u32::try_from(steps).unwrap_or(u32::MAX),
            Err(reason) => {
                self.state.account.unused += u64::from(packet.header.bound);
                self.flush(env, outbox, principal, 0);
                env.drop(principal, reason);
                return Fate::Dropped;
            }
        };
        let (before, deeds) = (outbox.packets.len(), outbox.deeds.len());
        let limits = Limits { steps, depth: self.config.depth, cells: self.config.cells };
        let Plan { config, table, loaded, library, machine, state, .. } = self;
        let mut at = At { env: &mut *env, state, table, loaded, library, config, outbox: &mut outbox, from, principal };
        let mut run = Run::new(&mut at, &packet.header, limits);
        let result = machine.evaluate(&mut run, &packet.chunk);
        // A report has nothing to spend, and loses what is left of it.
        let left = if packet.header.report { packet.header.bound } else { run.bound() };
        let used = u64::from(limits.steps - run.steps_left());
        if result == Err(Stop::Fault(Fault::Wait)) {
            outbox.packets.truncate(before);
            outbox.deeds.truncate(deeds);
            self.flush(env, outbox, principal, used);
            return self.wait_for_outside(env, from, &packet, principal);
        }
        let spare = outbox.packets.iter().skip(before).map(|sent| sent.paid.spare).sum();
        let Some(left) = self.pay_debt(&outbox, before, left) else {
            // All that it had is to be spent later, and nothing is left for what it has caused.
            outbox.packets.truncate(before);
            outbox.deeds.truncate(deeds);
            self.flush(env, outbox, principal, used);
            self.state.account.unused += u64::from(packet.header.bound);
            return Fate::Drop(Reason::FetchUnpaid);
        };
        outbox.undo.clear();
        self.state.account.evaluated += 1;
        self.flush(env, outbox, principal, used);
        match result {
            Ok(_) => {
                let tells = from.filter(|_| self.untold);
                let left = tells.map_or(left, |from| self.tell_with(env, from, (left, spare)));
                self.state.account.unused += u64::from(left);
                Fate::Taken
            }
            Err(stop) => self.failed_evaluation(env, &packet, &stop.into(), (principal, left)),
        }
    }

    /// The chunk of a packet and whose it is, with its layers taken off; or what becomes of the packet without that.
    fn opened(
        &mut self,
        env: &mut dyn PlanOs,
        (from, length): (Option<&Neighbour>, usize),
        packet: Packet,
        stage: Stage,
        outbox: &mut Outbox,
    ) -> Result<(Packet, usize), Fate> {
        if let Stage::Open(principal) = stage {
            return Ok((packet, principal));
        }
        let fate = match self.open_layers(env, (from, length), packet, stage, outbox) {
            layers::Opened::Chunk(packet, principal) => return Ok((packet, principal)),
            layers::Opened::Signed(packet, statement) => {
                self.flush(env, std::mem::take(outbox), ANYONE, 0);
                self.wait_for_role(env, from, &packet, statement)
            }
            layers::Opened::Nothing(left) => {
                self.state.account.unused += u64::from(left);
                self.flush(env, std::mem::take(outbox), ANYONE, 0);
                Fate::Taken
            }
            layers::Opened::Wrong(mut packet, name) => {
                self.cut_header(env, from, &mut packet.header);
                self.flush(env, std::mem::take(outbox), ANYONE, 0);
                self.failed(env, &packet, &Cause::Exception(name), ANYONE)
            }
        };
        Err(fate)
    }

    /// Does what an evaluation has done.
    pub(super) fn flush(&mut self, env: &mut dyn PlanOs, mut outbox: Outbox, principal: usize, steps: u64) {
        for before in outbox.undo.drain(..).rev() {
            self.state.resident.undo(before);
        }
        let mut sent = 0;
        for Outgoing { next, range, paid } in &outbox.packets {
            let Some(octets) = outbox.octets.get(range.clone()) else { continue };
            self.state.account.spent += u64::from(paid.frames);
            match next {
                Some(next) => {
                    sent += 1;
                    self.state.account.sent += account::bound_of(octets);
                    self.state.send(env, next, octets);
                }
                None => self.push_local(env, octets),
            }
        }
        for deed in outbox.deeds.drain(..) {
            self.state.carry_out(env, deed);
        }
        if steps > 0 || sent > 0 {
            env.charge(principal, steps, sent);
        }
        outbox.clear();
        self.outbox = outbox;
    }
}

impl State {
    /// Sends octets to the next node, in pieces if need be.
    pub(super) fn send(&mut self, env: &mut dyn PlanOs, next: &Next, octets: &[u8]) {
        let room = env.room(next);
        if octets.len() <= room {
            return env.send(next, &mut |frame| {
                frame.get_mut(..octets.len())?.copy_from_slice(octets);
                Some(octets.len())
            });
        }
        self.message = self.message.wrapping_add(1);
        match crate::wire::plan::pieces(octets, room, self.message) {
            Some(pieces) => {
                for piece in pieces {
                    env.send(next, &mut |frame| crate::wire::plan::emit_piece(&piece, frame).ok());
                }
            }
            None => env.withhold(Reason::TooBig),
        }
    }

    /// Begins a job. What the node sends in the place of a program is charged to its destination now.
    fn begin(&mut self, env: &mut dyn PlanOs, job: super::jobs::Job) {
        let (bound, bytes) = (job.bound(), job.octets.len().saturating_mul(job.left as usize));
        let to = View::new_checked(&job.octets).map_or(Addr::UNSPECIFIED, |view| Addr(view.destination().0));
        let of_program = job.number.is_some() || env.topology().is_own(to);
        let may = of_program || env.may_send(to, None, bytes);
        if !may {
            env.withhold(Reason::Unanswered);
        }
        if !(may && self.jobs.add(job)) {
            self.account.unused += bound;
        }
    }

    fn carry_out(&mut self, env: &mut dyn PlanOs, deed: Deed) {
        let now = env.now();
        match deed {
            Deed::Tell(application, message) => env.tell(application, message),
            Deed::Open(port, application, holder) => self.ports.open(now, port, application, holder),
            Deed::Close(port) => {
                if let Some(application) = self.ports.close(port) {
                    env.tell(application, super::ports::closed(port));
                }
            }
            Deed::Flow(flow, way, holder) => self.flows.set(flow, way, holder),
            Deed::Acknowledge(number) => {
                if let Some(job) = self.jobs.acknowledge(number) {
                    self.account.unused += job.bound();
                    if let Some(addr) = job.proves {
                        env.answered(addr);
                    }
                }
            }
            Deed::Receive(name, until, holder) => self.jobs.meters.receive(now, name, until, holder),
            Deed::Count(name, bytes) => self.jobs.meters.count(now, &name, bytes),
            Deed::Job(job) => self.begin(env, *job),
        }
    }
}
