//! The loop: next action, its node, what the node gives back.

use super::host::{Host, Inmate, Sink};
use super::trace::Loss;
use super::{Arrival, Change, Sending, Simulation, shop};
use crate::code::fetch::Source;
use crate::code::judge::Claim;
use crate::code::run::Tier;
use crate::frame::{Frame, PortId};
use crate::node::{Delivery, Effect, Event, EventKind, Node, Prepare, Turn};
use crate::trust::{Revocation, object_name};
use crate::wire::revocation::Repr;
use crate::wire::{Digest, capsule};

/// Something planned.
pub(super) enum Action {
    /// A frame arrives at a node, with its port and peer there.
    Arrive { node: u32, frame: Frame },
    /// A node's timers are due.
    Timer { node: u32 },
    /// A node's store answers.
    Found { node: u32, life: u32, digest: Digest },
    /// A node's compiler answers.
    Prepared { node: u32, life: u32, prepare: Box<Prepare> },
    /// A node's policy answers.
    Authorised { node: u32, life: u32, claim: Box<Claim> },
    /// A revocation that a node was told has been verified.
    Revoked { node: u32, life: u32, told: Box<(Repr, Source)> },
    /// The outside grants what a node's PLAN environment wishes.
    Granted { node: u32, life: u32, wish: Box<crate::ee::plan::Wish> },
    /// A sender's next capsule is due.
    Generate { traffic: u32, node: u32 },
    /// An application sends.
    Send { node: u32, sending: Box<Sending> },
    /// The network changes.
    Change(Change),
}

impl Simulation {
    /// Runs until nothing is due before `time` (nanoseconds), which becomes now.
    pub fn run_until(&mut self, time: u64) {
        while self.queue.next().is_some_and(|next| next < time) {
            self.step();
        }
        self.now = self.now.max(time);
    }

    /// Runs for so many nanoseconds.
    pub fn run_for(&mut self, duration: u64) {
        self.run_until(self.now.saturating_add(duration));
    }

    /// Runs until no capsule is alive, at most until `time` (nanoseconds); whether none is.
    pub fn drain(&mut self, time: u64) -> bool {
        while self.packets.alive() > 0 && self.queue.next().is_some_and(|next| next < time) {
            self.step();
        }
        self.packets.alive() == 0
    }

    /// Does the next planned action, if there is one.
    pub fn step(&mut self) -> bool {
        let Some((time, action)) = self.queue.pop() else { return false };
        self.now = self.now.max(time);
        match action {
            Action::Arrive { node, frame } => self.arrive(node as usize, frame),
            Action::Timer { node } => self.timer(node as usize, time),
            Action::Found { node, life, digest } => {
                let host = &self.hosts[node as usize];
                let bytes = host.store.get(&digest).cloned();
                if host.life == life {
                    self.turn(node as usize, |node, turn| node.found(turn, digest, bytes));
                }
            }
            Action::Prepared { node, life, prepare } => {
                if self.hosts[node as usize].life == life {
                    let program = shop::prepare(&prepare);
                    self.turn(node as usize, |node, turn| match prepare.tier {
                        Tier::Fast => node.prepared(turn, prepare.code, program),
                        Tier::Optimised => node.optimised(turn, prepare.code, program),
                    });
                }
            }
            Action::Authorised { node, life, claim } => {
                let Host { config, life: now_lives, .. } = &self.hosts[node as usize];
                if *now_lives == life {
                    let unix_s = self.network.unix_s + self.now / super::SECOND;
                    let grant = config.roles.authorise(&config.name, unix_s, &claim).map_err(|error| error.to_string());
                    self.turn(node as usize, |node, turn| node.authorised(turn, claim.code, grant));
                }
            }
            Action::Revoked { node, life, told } => {
                let (repr, from) = *told;
                let Host { config, life: now_lives, .. } = &self.hosts[node as usize];
                if *now_lives == life {
                    let revocation = Revocation::of_wire(&repr);
                    let kept = revocation.verify().then(|| config.roles.revoke(revocation, false));
                    self.turn(node as usize, |node, turn| node.revocation_judged(turn, &repr, from, kept));
                }
            }
            Action::Granted { node, life, wish } => self.grant(node as usize, life, *wish),
            Action::Generate { traffic, node } => self.generate(traffic, node as usize),
            Action::Send { node, sending } => {
                // A refusal is in the books.
                let _ = self.inject(node as usize, sending.header, &sending.payload);
            }
            Action::Change(change) => self.change(change),
        }
        true
    }

    pub(super) fn timer(&mut self, node: usize, time: u64) {
        let host = &mut self.hosts[node];
        // Another one was planned since, or the node is in another life.
        if host.timer_at == time {
            host.timer_at = u64::MAX;
            self.turn(node, |node, turn| node.timer(turn));
        }
    }

    #[inline]
    pub(super) fn arrive(&mut self, at: usize, frame: Frame) {
        let packet = frame.trace;
        self.show(at, frame.port.0, false, frame.bytes());
        match &mut self.hosts[at].inmate {
            Inmate::Node(_) => {
                if packet != 0 {
                    self.packets.arrive(packet, at);
                    self.totals.packet_hops += 1;
                }
                self.turn(at, |node, turn| {
                    node.receive(turn, frame);
                    while let Some(ran) = node.run_next(turn) {
                        node.ran(ran, ran.steps, turn.now);
                    }
                });
            }
            Inmate::Actor(actor) => {
                let mut send = Vec::new();
                actor.receive(self.now, usize::from(frame.port.0), frame.bytes(), &mut send);
                let carries = self.carried(at, frame.port, frame.bytes());
                self.lose(at, at, packet, carries, Loss::Stranger);
                self.out.pool.give(frame);
                for (port, bytes) in send {
                    self.put_frame(at, port, &bytes);
                }
            }
            Inmate::Down => {
                let carries = self.carried(at, frame.port, frame.bytes());
                self.lose(at, at, packet, carries, Loss::Down);
                self.out.pool.give(frame);
            }
        }
    }

    /// A call into a node, and all that comes of it.
    #[inline]
    pub(super) fn turn<R>(&mut self, at: usize, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> Option<R> {
        let result = self.enter(at, work);
        self.settle(at);
        result
    }

    /// A call into a node.
    #[inline]
    pub(super) fn enter<R>(&mut self, at: usize, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> Option<R> {
        let now = self.now;
        let host = self.hosts.get_mut(at)?;
        let (limited, first, ports) = (host.limited, host.first_direction, host.ends.len());
        let node = host.node_mut()?;
        if limited {
            for (port, direction) in self.directions[first..first + ports].iter().enumerate() {
                node.set_queue(PortId(port as u16), direction.queued(now));
            }
        }
        Some(work(node, &mut Turn { now, runtime: &mut self.runtime, out: &mut self.out }))
    }

    /// Carries out what a node has given back.
    #[inline]
    pub(super) fn settle(&mut self, at: usize) {
        self.note_events(at);
        if !self.out.frames.is_empty() {
            let mut frames = core::mem::take(&mut self.out.frames);
            for frame in frames.drain(..) {
                self.transmit(at, frame);
            }
            self.out.frames = frames;
            self.note_events(at);
        }
        if !self.out.deliveries.is_empty() {
            let mut deliveries = core::mem::take(&mut self.out.deliveries);
            for delivery in deliveries.drain(..) {
                self.deliver(at, delivery);
            }
            self.out.deliveries = deliveries;
        }
        if !self.out.told.is_empty() {
            self.take_told(at);
        }
        if !self.out.effects.is_empty() {
            self.take_effects(at);
        }
        let host = &mut self.hosts[at];
        if let Inmate::Node(node) = &host.inmate {
            let next = node.next_timer().max(self.now);
            if next < host.timer_at {
                host.timer_at = next;
                self.queue.push(next, Action::Timer { node: at as u32 });
            }
        }
    }

    #[inline]
    pub(super) fn note_events(&mut self, at: usize) {
        let mut events = core::mem::take(&mut self.out.events);
        for Event { trace, kind } in events.drain(..) {
            match kind {
                EventKind::Ran(steps) => self.totals.steps += steps,
                EventKind::Child(child) => {
                    self.packets.child(trace, child);
                    self.totals.children += 1;
                }
                EventKind::Dropped(reason) if trace != 0 => {
                    let counted = self.packets.end(trace).is_some();
                    counted.then(|| self.totals.dropped.count(reason));
                }
                EventKind::Dropped(reason) => self.totals.messages_dropped.count(reason),
                EventKind::Ready(_) => self.totals.fetch.loads += 1,
                _ => {}
            }
            if let Some(tracer) = &mut self.tracer {
                tracer.event(self.now, at, trace, kind);
            }
        }
        self.out.events = events;
    }

    pub(super) fn deliver(&mut self, at: usize, Delivery { port, frame }: Delivery) {
        let packet = frame.trace;
        let Some(known) = self.packets.end(packet) else { return self.out.pool.give(frame) };
        let latency = self.now - known.since;
        self.totals.delivered += 1;
        self.delivered_hops += u64::from(known.hops);
        self.latency.count(latency);
        if let Some(sink @ (Sink::Keep | Sink::Application(_))) = self.hosts[at].sinks.get_mut(&port)
            && let Ok(header) = capsule::Header::parse(frame.bytes())
        {
            let payload = frame.bytes()[capsule::HEADER..].to_vec();
            let arrival = Arrival { at: self.now, node: at, port, packet, latency, hops: known.hops, header, payload };
            match sink {
                Sink::Application(application) => {
                    for sending in application.receive(arrival) {
                        let due = self.now.saturating_add(sending.after);
                        self.plan(due, Action::Send { node: at as u32, sending: Box::new(sending) });
                    }
                }
                _ => self.arrivals.push(arrival),
            }
        }
        self.out.pool.give(frame);
    }

    pub(super) fn take_effects(&mut self, at: usize) {
        let mut effects = core::mem::take(&mut self.out.effects);
        let (node, life) = (at as u32, self.hosts[at].life);
        for effect in effects.drain(..) {
            match effect {
                Effect::LookUp(digest) => {
                    self.plan(self.now + self.network.look_up_ns, Action::Found { node, life, digest });
                }
                Effect::Store(bytes) => {
                    self.hosts[at].store.insert(object_name(&bytes), bytes);
                }
                Effect::Plan(wish, _) => {
                    let ready = self.now + self.network.look_up_ns;
                    self.plan(ready, Action::Granted { node, life, wish: Box::new(wish) });
                }
                // Simulated nodes have no kernel half.
                Effect::Kernel(_) | Effect::Channel { .. } => {}
                Effect::Authorise(claim, _) => {
                    let claim = Box::new(claim);
                    self.plan(self.now + self.network.look_up_ns, Action::Authorised { node, life, claim });
                }
                Effect::Revoke(repr, from, _) => {
                    let told = Box::new((*repr, from));
                    self.plan(self.now + self.network.look_up_ns, Action::Revoked { node, life, told });
                }
                Effect::Prepare(prepare) => {
                    let prepare = Box::new(prepare);
                    self.plan(self.now + self.network.prepare_ns, Action::Prepared { node, life, prepare });
                }
            }
        }
        self.out.effects = effects;
    }
}
