//! All of a simulation but its nodes: places, links, planned actions, and the books. It carries out nodes' output.

use super::host::{Host, Sink};
use super::line::Direction;
use super::network::Network;
use super::packets::Packets;
use super::queue::Queue;
use super::report::{CodeTotals, Totals};
use super::run::Action;
use super::tap::{Tap, Tapped};
use super::trace::Tracer;
use super::{Arrival, Histogram, Told, Traffic};
use crate::core::reason::Reason;
use crate::driver::{Driven, Outside};
use crate::frame::{Frame, WorkerId};
use crate::node::handing::Handed;
use crate::node::{Delivery, Effect, Event, EventKind, Node};
use crate::trust::object_name;
use crate::wire::capsule;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

pub(super) struct World {
    pub(super) now: u64,
    pub(super) seed: u64,
    pub(super) queue: Queue<Action>,
    pub(super) hosts: Vec<Host>,
    pub(super) directions: Vec<Direction>,
    pub(super) packets: Packets,
    /// Chance on links.
    pub(super) chance: Xoshiro256PlusPlus,
    /// Choices of traffic.
    pub(super) choices: Xoshiro256PlusPlus,
    /// When workers take what others have for them.
    pub(super) apart: Xoshiro256PlusPlus,
    pub(super) traffic: Vec<Traffic>,
    pub(super) network: Network,
    pub(super) totals: Totals,
    pub(super) latency: Histogram,
    pub(super) delivered_hops: u64,
    pub(super) past_codes: BTreeMap<String, CodeTotals>,
    pub(super) lives: u32,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) told: Vec<Told>,
    pub(super) tracer: Option<Tracer>,
    pub(super) tap: Option<Tap>,
    /// Whether all frames are accounted for behind each step.
    pub(super) watched: bool,
}

impl World {
    pub(super) fn plan(&mut self, time: u64, action: Action) {
        self.queue.push(time.max(self.now), action);
    }

    #[inline]
    pub(super) fn show(&mut self, node: usize, port: u16, leaves: bool, bytes: &[u8]) {
        if let Some(tap) = &mut self.tap {
            tap(Tapped { at: self.now, node, port, leaves, bytes });
        }
    }

    /// Something happened to a packet at a node.
    #[inline]
    pub(super) fn note(&mut self, at: usize, Event { trace, kind }: Event) {
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

    /// A capsule comes to an application port.
    fn deliver(&mut self, at: usize, port: u16, frame: &Frame) {
        let packet = frame.trace;
        let Some(known) = self.packets.end(packet) else { return };
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
    }
}

/// What is around one node.
pub(super) struct Place<'a> {
    pub(super) world: &'a mut World,
    /// The node's number.
    pub(super) at: usize,
    /// Which of its workers it is.
    pub(super) worker: WorkerId,
}

impl Outside for Place<'_> {
    #[inline]
    fn happened(&mut self, _: &Node, event: Event) {
        self.world.note(self.at, event);
    }

    #[inline]
    fn send(&mut self, Driven { node, turn }: &mut Driven<'_>, frame: Frame) {
        if let Err(frame) = self.world.transmit(&mut turn.out.pool, self.at, frame) {
            node.refused_by_port(turn, frame, Reason::QueueFull);
        }
    }

    #[inline]
    fn deliver(&mut self, driven: &mut Driven<'_>, Delivery { port, frame }: Delivery) {
        self.world.deliver(self.at, port, &frame);
        driven.turn.out.pool.give(frame);
    }

    fn hand(&mut self, driven: &mut Driven<'_>, handed: Handed) {
        if let Err(handed) = self.world.hand(self.at, self.worker, handed) {
            driven.node.not_handed(&mut driven.turn, handed);
        }
    }

    fn tell(&mut self, _: &mut Driven<'_>, port: u64, message: Vec<u8>) {
        self.world.told.push(Told { at: self.world.now, node: self.at, port, message });
    }

    /// Answers are planned: nothing outside is done at once.
    fn effect(&mut self, driven: &mut Driven<'_>, effect: Effect) {
        let Place { world, at, .. } = self;
        let (node, life) = (*at as u32, world.hosts[*at].life);
        let (looked_up, prepared) = (world.now + world.network.look_up_ns, world.now + world.network.prepare_ns);
        match effect {
            Effect::Workers(order) => world.tell_workers(*at, &order),
            Effect::Heard(list) => world.tell_heard(*at, list),
            Effect::AskLink(port, addr) => world.tell_old_link(*at, port, addr),
            // All else the first worker asks for.
            _ if self.worker > 0 => {}
            Effect::LookUp(digest, _) => world.plan(looked_up, Action::Found { node, life, digest }),
            Effect::Store(bytes) => drop(world.hosts[*at].store.insert(object_name(&bytes), bytes)),
            Effect::Plan(wish, _) => world.plan(looked_up, Action::Granted { node, life, wish: Box::new(wish) }),
            Effect::GraphEdit(wish) => {
                let Driven { node, turn } = driven;
                node.edited(turn, &wish, Err("nobody changes graphs of a simulated node".to_owned().into()), 0);
            }
            // Simulated nodes have no kernel half.
            Effect::Foreign(..) | Effect::NoneForeign => {}
            Effect::Kernel(_) | Effect::Channel { .. } | Effect::EndStores(_) => {}
            Effect::Authorise(claim, _) => {
                world.plan(looked_up, Action::Authorised { node, life, claim: Box::new(claim) });
            }
            Effect::Revoke(repr, from, _) => {
                world.plan(looked_up, Action::Revoked { node, life, told: Box::new((*repr, from)) });
            }
            Effect::Prepare(prepare) => {
                world.plan(prepared, Action::Prepared { node, life, prepare: Box::new(prepare) });
            }
        }
    }
}
