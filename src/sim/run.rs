//! The loop of a simulation: next action, its node, the node's output.

use super::host::{Host, Inmate};
use super::trace::Loss;
use super::world::Place;
use super::{Change, Sending, Simulation, shop};
use crate::code::fetch::Source;
use crate::code::judge::Claim;
use crate::code::run::Tier;
use crate::driver::Driven;
use crate::frame::{Frame, PortId, WorkerId};
use crate::node::{Node, Prepare, Turn};
use crate::trust::Revocation;
use crate::wire::revocation::Repr;
use crate::wire::{Addr, Digest};

/// Something planned.
pub(super) enum Action {
    /// A frame arrives at a node, with its port and peer there.
    Arrive { node: u32, frame: Frame },
    /// A node's timers are due.
    Timer { node: u32 },
    /// The same of a further worker of a node.
    TimerOf { node: u32, life: u32, worker: WorkerId },
    /// A packet that a further worker has handed over is taken.
    TakeHanded { node: u32, life: u32, worker: WorkerId },
    /// What the first has handed to a further worker is taken.
    TakeBack { node: u32, life: u32, worker: WorkerId },
    /// A further worker does what the first has told it.
    Obey { node: u32, life: u32, worker: WorkerId },
    /// The first worker of a node learns whom another has heard.
    Heard { node: u32, life: u32, list: Vec<(PortId, Addr)> },
    /// The same of a link address that another has known for long.
    OldLink { node: u32, life: u32, port: PortId, addr: Addr },
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
        while self.world.queue.next().is_some_and(|next| next < time) {
            self.step();
        }
        self.world.now = self.world.now.max(time);
        self.assert_balanced();
    }

    /// Runs for so many nanoseconds.
    pub fn run_for(&mut self, duration: u64) {
        self.run_until(self.world.now.saturating_add(duration));
    }

    /// Runs until no capsule is alive, at most until `time` (nanoseconds); whether none is.
    pub fn drain(&mut self, time: u64) -> bool {
        while self.world.packets.alive() > 0 && self.world.queue.next().is_some_and(|next| next < time) {
            self.step();
        }
        self.assert_balanced();
        self.world.packets.alive() == 0
    }

    /// Does the next planned action, if there is one.
    pub fn step(&mut self) -> bool {
        let Some((time, action)) = self.world.queue.pop() else { return false };
        self.world.now = self.world.now.max(time);
        match action {
            Action::Arrive { node, frame } => self.arrive(node as usize, frame),
            Action::Timer { node } => self.timer(node as usize, time),
            Action::TimerOf { node, life, .. }
            | Action::TakeHanded { node, life, .. }
            | Action::TakeBack { node, life, .. }
            | Action::Obey { node, life, .. }
            | Action::Heard { node, life, .. }
            | Action::OldLink { node, life, .. }
                if self.world.hosts[node as usize].life != life => {}
            Action::TimerOf { node, worker, .. } => self.timer_of(node as usize, worker, time),
            Action::TakeHanded { node, worker, .. } => self.take_handed(node as usize, worker),
            Action::TakeBack { node, worker, .. } => self.take_back(node as usize, worker),
            Action::Obey { node, worker, .. } => self.obey(node as usize, worker),
            Action::OldLink { node, port, addr, .. } => {
                self.turn(node as usize, |node, turn| node.link_is_old(turn, port, addr));
            }
            Action::Heard { node, list, .. } => {
                self.turn(node as usize, |node, turn| node.heard(turn.now, &list));
            }
            Action::Found { node, life, digest } => {
                let host = &self.world.hosts[node as usize];
                let bytes = host.store.get(&digest).cloned();
                if host.life == life {
                    self.turn(node as usize, |node, turn| node.found(turn, digest, bytes));
                }
            }
            Action::Prepared { node, life, prepare } => {
                if self.world.hosts[node as usize].life == life {
                    let program = shop::prepare(&prepare);
                    self.turn(node as usize, |node, turn| match prepare.tier {
                        Tier::Fast => node.prepared(turn, prepare.code, program),
                        Tier::Optimised => node.optimised(turn, prepare.code, program),
                    });
                }
            }
            Action::Authorised { node, life, claim } => {
                let Host { config, life: now_lives, .. } = &self.world.hosts[node as usize];
                if *now_lives == life {
                    let unix_s = self.world.network.unix_s + self.world.now / super::SECOND;
                    let grant = config.roles.authorise(&config.name, unix_s, &claim).map_err(|error| error.to_string());
                    self.turn(node as usize, |node, turn| node.authorised(turn, claim.code, grant));
                }
            }
            Action::Revoked { node, life, told } => {
                let (repr, from) = *told;
                let Host { config, life: now_lives, .. } = &self.world.hosts[node as usize];
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
        if self.world.watched {
            self.assert_balanced();
        }
        true
    }

    pub(super) fn timer(&mut self, node: usize, time: u64) {
        let host = &mut self.world.hosts[node];
        // Another one was planned since, or the node is in another life.
        if host.timer_at == time {
            host.timer_at = u64::MAX;
            self.turn(node, |node, turn| node.timer(turn));
        }
    }

    #[inline]
    pub(super) fn arrive(&mut self, at: usize, frame: Frame) {
        let packet = frame.trace;
        self.world.show(at, frame.port.0, false, frame.bytes());
        match &mut self.inmates[at] {
            Inmate::Node(_) => {
                if packet != 0 {
                    self.world.packets.arrive(packet, at);
                    self.world.totals.packet_hops += 1;
                }
                let worker = self.world.worker_of(at, &frame);
                self.turn_of(at, worker, |node, turn| node.receive(turn, frame));
            }
            Inmate::Actor(actor) => {
                let mut send = Vec::new();
                actor.receive(self.world.now, usize::from(frame.port.0), frame.bytes(), &mut send);
                let carries = self.world.carried(at, frame.port, frame.bytes());
                self.world.lose(at, at, packet, carries, Loss::Stranger);
                self.out.pool.give(frame);
                for (port, bytes) in send {
                    self.put_frame(at, port, &bytes);
                }
            }
            Inmate::Down => {
                let carries = self.world.carried(at, frame.port, frame.bytes());
                self.world.lose(at, at, packet, carries, Loss::Down);
                self.out.pool.give(frame);
            }
        }
    }

    /// A call into a node, and all that comes of it.
    #[inline]
    pub(super) fn turn<R>(&mut self, at: usize, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> Option<R> {
        self.turn_of(at, 0, work)
    }

    /// A call into a node.
    #[inline]
    pub(super) fn enter<R>(&mut self, at: usize, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> Option<R> {
        self.enter_of(at, 0, work)
    }

    /// A call into one worker of a node.
    #[inline]
    pub(super) fn enter_of<R>(
        &mut self,
        at: usize,
        worker: WorkerId,
        work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R,
    ) -> Option<R> {
        let now = self.world.now;
        let Inmate::Node(workers) = self.inmates.get_mut(at)? else { return None };
        let node = workers.of(worker)?;
        let host = &self.world.hosts[at];
        let (limited, first, ports) = (host.limited, host.first_direction, host.ends.len());
        if limited {
            for (port, direction) in self.world.directions[first..first + ports].iter().enumerate() {
                node.set_queue(PortId(port as u16), direction.model.queued(now));
            }
        }
        Some(work(node, &mut Turn { now, runtime: &mut self.runtime, out: &mut self.out }))
    }

    /// Carries out what a node has given back, and plans when it is called for its timers.
    #[inline]
    pub(super) fn settle(&mut self, at: usize) {
        self.settle_of(at, 0);
    }

    /// The same of one worker of a node.
    #[inline]
    pub(super) fn settle_of(&mut self, at: usize, worker: WorkerId) {
        let world = &mut self.world;
        let Inmate::Node(workers) = &mut self.inmates[at] else {
            // Of a node that was here.
            return self.out.events.drain(..).for_each(|event| world.note(at, event));
        };
        let Some(node) = workers.of(worker) else { return };
        let turn = Turn { now: world.now, runtime: &mut self.runtime, out: &mut self.out };
        Driven { node, turn }.settle(&mut Place { world, at, worker });
        let (next, host) = (node.next_timer().max(self.world.now), &mut self.world.hosts[at]);
        let (life, node) = (host.life, at as u32);
        let (timer_at, action) = match usize::from(worker).checked_sub(1) {
            None => (&mut host.timer_at, Action::Timer { node }),
            Some(place) => (&mut host.between[place].timer_at, Action::TimerOf { node, life, worker }),
        };
        if next < *timer_at {
            *timer_at = next;
            self.world.queue.push(next, action);
        }
    }
}
