//! Evaluation of a PLAN packet at its destination: from its bytes to a result, or to the exception that is reported to
//! its source.

use super::config::Config;
use super::holders::Holder;
use super::jobs::{Copies, SendJob};
use super::library::{Library, Shelf};
use super::loaded::Loaded;
use super::outbox::{Deed, Outbox, Outgoing};
use super::route::Guide;
use super::table::{Service, Table};
use super::{ANYONE, Fate, Next, Plan, PlanOs, State, account, layers, route, work};
use crate::core::reason::Reason;
use crate::topology::Neighbour;
use crate::wire::Addr;
use plan::eval::{self, Cause, Fault, Limits, NewPacket, Run, Stop, Way, spend};
use plan::name::Name;
use plan::packet::{DecodeError, Packet, View};
use plan::program::{Digest, ServiceId, Services};
use plan::value::{Host, Value};

/// Why a packet was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is none.
    Malformed,
    /// A code that it names by digest is not here.
    Absent(Digest),
    /// A code of it would have to be compiled, and there is nobody to pay for that.
    Unpaid,
}

impl Unread {
    /// Under which reason it ends.
    pub(super) fn reason(self) -> Reason {
        match self {
            Unread::Malformed | Unread::Absent(_) => Reason::MalformedPlan,
            Unread::Unpaid => Reason::Budget,
        }
    }
}

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

    fn unpaid(&mut self) -> eval::Result<()> {
        self.outbox.unpaid += 1;
        Ok(())
    }

    fn send(&mut self, packet: &NewPacket<'_>, steps: &mut u32) -> eval::Result<()> {
        let to = Addr(packet.destination.0);
        let next = match packet.way {
            Way::Routed { .. } if self.env.topology().is_own(to) => None,
            Way::Routed { routing, .. } => {
                let flow = (packet.parent.session, packet.parent.flow);
                Some(self.find(routing, flow, to, steps)?)
            }
            Way::Neighbor(dev) => {
                spend(steps, work::looking(self.env.topology().neighbours.len()))?;
                let next = route::neighbour(self.env.topology(), to, dev);
                Some(next.ok_or(raise(const { Name::known("NotNeighbor") }))?)
            }
        };
        let here = Host(self.env.way(to).own.0);
        let header = packet.header(here);
        match packet.way {
            Way::Routed { routing, tries, interval_ms } if tries > 0 => {
                let copies = Copies { again: tries - 1, interval_ms };
                self.send_reliably(next, (header, routing), packet.chunk, copies, steps)
            }
            _ => self.put(next, header, packet.chunk, steps),
        }
    }
}

impl At<'_> {
    /// What a routing function says of a destination. The steps of one that was loaded are the evaluation's.
    pub fn find(&mut self, routing: &Name, flow: ([u8; 16], u32), to: Addr, steps: &mut u32) -> eval::Result<Next> {
        let At { env, state, loaded, config, outbox, .. } = self;
        let set = if *routing == route::FLOW_ROUTE {
            spend(steps, work::looking(outbox.deeds.len()))?;
            outbox.way(flow)
        } else {
            None
        };
        let mut guide = Guide { state, config, loaded, set, steps: *steps };
        let found = route::find(&mut guide, &mut **env, routing, flow, to);
        let left = guide.steps;
        let used_up = left == 0 && *steps > 0;
        *steps = left;
        if used_up { Err(Fault::Steps.into()) } else { found.map_err(raise) }
    }

    /// Who holds what the packet keeps here.
    pub fn holder(&self) -> Holder {
        Holder::of(self.principal, self.env.payer())
    }
}

impl Plan {
    /// A packet for this node.
    pub(super) fn arrive(&mut self, env: &mut dyn PlanOs, from: Option<&Neighbour>, bytes: &[u8]) -> Fate {
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        let decoded = self.decode(env, bytes, &mut seen);
        let whole = View::new_checked(bytes).is_some_and(|view| !view.by_digest());
        if let (Some(from), Ok(_)) = (from, &decoded) {
            self.note_codes(from, &seen);
        }
        self.seen = seen;
        match decoded {
            Ok(packet) => {
                self.untold = whole;
                let fate = self.evaluate(env, from, packet, bytes.len(), Stage::Sealed);
                self.untold = false;
                fate
            }
            Err(Unread::Absent(digest)) => self.wait_for_code(env, from, bytes, digest),
            Err(why) => self.end(bytes, why.reason()),
        }
    }

    /// Reads a packet; what compiling its codes takes is anyone's, so none is compiled when anyone has no steps left.
    /// Its codes are noted in `seen`.
    pub(super) fn decode(
        &mut self,
        env: &mut dyn PlanOs,
        bytes: &[u8],
        seen: &mut Vec<Digest>,
    ) -> Result<Packet, Unread> {
        let most = if env.has_steps(ANYONE) { usize::MAX } else { 0 };
        let mut shelf = Shelf::new(&mut self.library, &self.table, seen).at_most(most);
        let decoded = Packet::decode(bytes, &mut shelf);
        let (compiled, beyond) = (shelf.compiled, shelf.beyond);
        self.state.charge_compiling(env, compiled);
        decoded.map_err(|error| match error {
            _ if beyond => Unread::Unpaid,
            DecodeError::Absent(digest) => Unread::Absent(digest),
            _ => Unread::Malformed,
        })
    }

    /// Bytes that end here.
    pub(super) fn end(&mut self, bytes: &[u8], reason: Reason) -> Fate {
        self.state.account.unused += account::bound_of(bytes);
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
        self.state.graphs.begin();
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
            outbox.unpaid = 0;
            self.flush(env, outbox, principal, used);
            return self.wait_for_outside(env, from, &packet, principal);
        }
        let spare = outbox.packets.iter().skip(before).map(|sent| sent.paid.spare).sum();
        let Some(left) = self.pay_debt(&outbox, before, left) else {
            // All that it had is to be spent later, and nothing is left for what it has caused.
            outbox.packets.truncate(before);
            outbox.deeds.truncate(deeds);
            outbox.unpaid = 0;
            self.flush(env, outbox, principal, used);
            self.state.account.unused += u64::from(packet.header.bound);
            return Fate::Drop(Reason::FetchUnpaid);
        };
        outbox.undo.clear();
        self.state.account.evaluated += 1;
        let watched =
            outbox.deeds.iter().rev().find_map(|deed| if let Deed::Job(job) = deed { job.number } else { None });
        self.flush(env, outbox, principal, used);
        match result {
            Ok(_) => {
                let tells = from.filter(|_| self.untold);
                let left = tells.map_or(left, |from| self.tell_with(env, from, (left, spare)));
                // What is left pays for word to the source if what it has sent again and again does not arrive.
                if !watched.is_some_and(|number| self.state.jobs.leave_rest(number, left)) {
                    self.state.account.unused += u64::from(left);
                }
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
        self.state.account.unreported += outbox.unpaid;
        for before in outbox.undo.drain(..).rev() {
            self.state.resident.undo(before);
        }
        let mut sent = 0;
        for Outgoing { next, range, paid } in &outbox.packets {
            let Some(bytes) = outbox.bytes.get(range.clone()) else { continue };
            self.state.account.spent += u64::from(paid.frames);
            match next {
                Some(next) => {
                    sent += 1;
                    self.state.account.sent += account::bound_of(bytes);
                    self.state.send(env, next, bytes);
                }
                None => self.push_local(env, bytes),
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
    /// Sends bytes to the next node, in pieces if need be.
    pub(super) fn send(&mut self, env: &mut dyn PlanOs, next: &Next, bytes: &[u8]) {
        let room = env.room(next);
        if bytes.len() <= room {
            return env.send(next, &mut |frame| {
                frame.get_mut(..bytes.len())?.copy_from_slice(bytes);
                Some(bytes.len())
            });
        }
        self.message = self.message.wrapping_add(1);
        match crate::wire::plan::pieces(bytes, room, self.message) {
            Some(pieces) => {
                for piece in pieces {
                    env.send(next, &mut |frame| crate::wire::plan::emit_piece(&piece, frame).ok());
                }
            }
            None => env.withhold(Reason::TooBig),
        }
    }

    /// Begins a job. What the node sends in the place of a program is charged to its destination now.
    fn begin(&mut self, env: &mut dyn PlanOs, job: SendJob) {
        let (bound, bytes) = (job.bound(), job.bytes.len().saturating_mul(job.left as usize));
        let to = View::new_checked(&job.bytes).map_or(Addr::UNSPECIFIED, |view| Addr(view.destination().0));
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
