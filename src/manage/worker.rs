//! The worker: one thread that takes frames from the ports through the node and back.
//!
//! It runs to completion: a batch of frames is received, each is processed, what came out is sent,
//! and only then is the next batch looked at. Control reaches it by commands between batches, code
//! by the loader; it waits for nothing but frames, and takes no lock.

use super::apps::Apps;
use super::config::Plan;
use super::cpu::Cpu;
use super::ee::{Desk, Half};
use super::loader::{Loaded, Loader};
use super::ports::{Before, OpenPort, explain};
use crate::code::run::Runtime;
use crate::node::{Effect, Node, NodeConfig, Output, Turn};
use crate::nodeos::interface::HostId;
use crate::nodeos::reason::Reason;
use crate::port::packet::AROUND;
use crate::port::{Frame, FramePool, PortId};
use crate::sys::clock::Clock;
use crate::sys::poll::{Poll, Ready, Waker};
use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

/// Token of the waker.
const WAKER: u64 = 0;

/// Token of the applications' socket.
const APPS: u64 = 1;

/// Token of the first port.
const PORTS: u64 = 2;

/// Token of the first application: behind all ports.
pub const FIRST_APP: u64 = 1 << 20;

/// Token of the first process: behind all applications that ever come.
const PROCESSES: u64 = 1 << 60;

/// Nanoseconds until a process that had no room is told again what waits for it.
const AGAIN: u64 = 1_000_000;

/// Batches taken from one port before the others have their turn.
const BATCHES_MAX: usize = 4;

/// Orders taken in one go, so that whoever asks without end cannot keep packets waiting.
const ORDERS_MAX: usize = 8;

/// Packets run by the path scheduler until the ports have their turn, so that what comes is dropped by whose it is and not by the system.
const PACKETS_MAX: usize = 64;

/// Frames ready in the pool from the start.
const FRAMES_READY: usize = 512;

/// What control asks of the worker: done between two batches, and short.
pub type Command = Box<dyn FnOnce(&mut Node, &mut Turn<'_>) + Send>;

/// What wakes the worker besides frames.
pub enum Order {
    /// Do this.
    Do(Command),
    /// Carry out what follows from the orders before, and say so.
    Settle(Sender<()>),
    /// A process of an environment's has connected.
    Attach(HostId, Box<Half>),
    /// It has gone.
    Detach(HostId),
    /// The interface of a native port is another one, behind a program of the node's or not.
    Reopen {
        /// The port.
        port: PortId,
        /// The interface's index.
        interface: u32,
        /// Whether a program of the node's stands before it.
        program: bool,
    },
    /// Stop.
    Stop,
}

/// The worker of one node.
pub struct Worker {
    node: Node,
    runtime: Runtime,
    out: Output,
    ports: Vec<OpenPort>,
    apps: Apps,
    processes: Desk,
    loader: Loader,
    orders: Receiver<Order>,
    waker: Waker,
    poll: Poll,
    clock: Clock,
    batch: Vec<Frame>,
    refused: Vec<Frame>,
    /// For how long drivers are polled when a frame has come, and until when that is, in nanoseconds.
    busy_poll: u64,
    busy_until: u64,
    cpu: Cpu,
}

/// What a worker is made from.
pub struct Parts {
    /// The node.
    pub config: NodeConfig,
    /// Its PLAN environment.
    pub plan: crate::ee::plan::Config,
    /// Its ports.
    pub plans: Vec<Plan>,
    /// What each has before the Linux stack.
    pub before: Vec<Before>,
    /// For how long drivers are polled when a frame has come, in microseconds.
    pub busy_poll_us: u32,
    /// What it gets of the CPU.
    pub cpu: Cpu,
    /// The applications' socket.
    pub apps: Apps,
    /// The loader.
    pub loader: Loader,
    /// Orders from other threads.
    pub orders: Receiver<Order>,
    /// What wakes it.
    pub waker: Waker,
    /// The node's clock.
    pub clock: Clock,
}

impl Worker {
    /// Opens the ports.
    pub fn new(parts: Parts) -> io::Result<Worker> {
        let Parts { config, plan, plans, before, busy_poll_us, cpu, apps, loader, orders, waker, clock } = parts;
        let mut poll = Poll::new()?;
        poll.add(&waker, WAKER)?;
        poll.add(apps.socket(), APPS)?;
        let largest = config.ports.iter().map(|port| port.mtu).max().unwrap_or(0);
        let mut ports = Vec::new();
        for (at, (plan, before)) in plans.into_iter().zip(before).enumerate() {
            let name = &config.ports[at].name;
            let port =
                OpenPort::open(PortId(at as u16), plan, before, largest).map_err(|error| explain(name, error))?;
            port.wait_for(&mut poll, PORTS + at as u64)?;
            ports.push(port);
        }
        let pool = FramePool::new(crate::port::frame::FRAME.max(largest + AROUND), FRAMES_READY);
        let out = Output { pool, ..Output::default() };
        let mut node = Node::new(config);
        node.set_scheduler(cpu.scheduler(), 0);
        node.speak_plan(plan);
        Ok(Worker {
            node,
            runtime: Runtime::default(),
            out,
            ports,
            apps,
            processes: Desk::default(),
            loader,
            orders,
            waker,
            poll,
            clock,
            batch: Vec::new(),
            refused: Vec::new(),
            busy_poll: u64::from(busy_poll_us) * 1000,
            busy_until: 0,
            cpu,
        })
    }

    /// Works until it is told to stop.
    pub fn run(&mut self) -> io::Result<()> {
        self.cpu.begin(self.clock.now())?;
        let mut ready: Vec<Ready> = Vec::new();
        let mut busy = false;
        // What was ordered before it runs comes before all packets.
        if self.take_orders() {
            return Ok(());
        }
        loop {
            let now = self.clock.now();
            let polling = now < self.busy_until;
            if polling {
                self.ports.iter().for_each(OpenPort::poll_driver);
            }
            let timer = self.node.next_timer().saturating_sub(now);
            let patience = if self.processes.waits() { timer.min(AGAIN) } else { timer };
            let wait = if busy || polling || self.node.has_work() { 0 } else { patience };
            self.poll.wait(wait, &mut ready)?;
            busy = false;
            for event in &ready {
                match event.token {
                    WAKER => {
                        if self.take_orders() {
                            return Ok(());
                        }
                    }
                    APPS => self.apps.accept(&self.poll),
                    token if token >= PROCESSES => self.processes.mark(token - PROCESSES),
                    token if token >= FIRST_APP => self.serve_application(token)?,
                    token => busy |= self.serve_port((token - PORTS) as usize, event)?,
                }
            }
            let now = self.clock.now();
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            busy |= self.processes.take(&mut self.node, &mut turn, &self.poll);
            self.processes.notify_waiting();
            if now >= self.node.next_timer() {
                let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
                self.node.timer(&mut turn);
                self.look_after_ports();
                self.processes.look_after(&self.poll, PROCESSES);
            }
            if self.node.has_work() {
                self.run_packets(now);
            }
            self.settle(now)?;
            if self.cpu.rest(now).is_some_and(|rest| self.rest(rest)) {
                return Ok(());
            }
        }
    }

    /// Runs packets in the order of the path scheduler, at what they cost.
    fn run_packets(&mut self, mut now: u64) {
        for _ in 0..PACKETS_MAX {
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            let Some(ran) = self.node.run_next(&mut turn) else { return };
            let began = std::mem::replace(&mut now, self.clock.now());
            self.node.ran(ran, now - began, now);
        }
    }

    /// Sleeps until the share of the CPU is not used up any more; true if the worker is to stop.
    #[cold]
    fn rest(&mut self, mut rest: Duration) -> bool {
        loop {
            std::thread::sleep(rest);
            if self.take_orders() {
                return true;
            }
            match self.cpu.rest_on(self.clock.now()) {
                Some(more) => rest = more,
                None => return false,
            }
        }
    }

    fn look_after_ports(&mut self) {
        for (at, port) in self.ports.iter_mut().enumerate() {
            port.flush_tap();
            self.node.count_missed(PortId(at as u16), port.overflows());
        }
    }

    /// Takes what a port has; true if there may be more.
    fn serve_port(&mut self, at: usize, event: &Ready) -> io::Result<bool> {
        if event.writable {
            self.send(at)?;
        }
        if !event.readable {
            return Ok(false);
        }
        for _ in 0..BATCHES_MAX {
            let (count, more) = self.ports[at].receive(&mut self.out.pool, &mut self.batch)?;
            if count == 0 {
                return Ok(false);
            }
            let now = self.clock.now();
            self.busy_until = now + self.busy_poll;
            let mut batch = core::mem::take(&mut self.batch);
            for frame in batch.drain(..) {
                self.ports[at].record_in(now, &frame);
                let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
                self.node.receive(&mut turn, frame);
            }
            self.batch = batch;
            self.settle(now)?;
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn serve_application(&mut self, token: u64) -> io::Result<()> {
        let now = self.clock.now();
        let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
        self.apps.receive(token, &self.poll, &mut self.node, &mut turn);
        // Now, so that what waits to be sent is bounded by what one application may bring.
        self.settle(now)
    }

    /// Carries out what others ask; true if that is to stop.
    fn take_orders(&mut self) -> bool {
        self.waker.rest();
        let now = self.clock.now();
        while let Some(loaded) = self.loader.result() {
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            match loaded {
                Loaded::Found(digest, bytes) => self.node.found(&mut turn, digest, bytes),
                Loaded::Prepared(code, result) => self.node.prepared(&mut turn, code, *result),
                Loaded::Authorised(code, result) => self.node.authorised(&mut turn, code, *result),
                Loaded::Linked(code, result) => self.node.linked(&mut turn, code, result),
                Loaded::Heard(list) => self.node.heard(turn.now, &list),
                Loaded::Resolved(name, addr) => self.node.resolved(&mut turn, &name, addr),
            }
        }
        for _ in 0..ORDERS_MAX {
            let Ok(order) = self.orders.try_recv() else { return false };
            match order {
                Order::Do(command) => {
                    // Not before it was asked for: a delay that begins now is not over too early.
                    let now = self.clock.now();
                    let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
                    command(&mut self.node, &mut turn);
                }
                Order::Settle(done) => {
                    // Should this fail, then the next turn does too, and ends the worker.
                    if self.settle(self.clock.now()).is_ok() {
                        // Whoever asked may have gone away meanwhile.
                        let _ = done.send(());
                    }
                }
                Order::Attach(host, half) => {
                    if let Err(error) = self.processes.attach(host, half, &self.poll, PROCESSES) {
                        tracing::warn!(%error, "what a process sends is not noticed");
                    }
                }
                Order::Detach(host) => self.processes.detach(host, &self.poll),
                Order::Reopen { port, interface, program } => self.reopen(port, interface, program),
                Order::Stop => return true,
            }
        }
        self.waker.wake();
        false
    }

    #[cold]
    fn reopen(&mut self, id: PortId, interface: u32, program: bool) {
        let at = usize::from(id.0);
        let Some(port) = self.ports.get_mut(at) else { return };
        match port.reopen(interface, program, &mut self.poll, PORTS + at as u64) {
            Ok(()) => tracing::info!(port = at, interface, "a port goes on by the interface that has its name now"),
            Err(error) => tracing::error!(port = at, %error, "a port does not come back with its interface"),
        }
    }

    /// Does what the node wants done, until it wants nothing more.
    fn settle(&mut self, now: u64) -> io::Result<()> {
        let idle = |out: &Output| {
            let (frames, told) = (out.frames.is_empty(), out.told.is_empty() && out.upcalls.is_empty());
            out.deliveries.is_empty() && out.effects.is_empty() && frames && told
        };
        while !idle(&self.out) {
            self.deliver(now);
            self.tell(now);
            self.carry_out(now);
            self.queue_frames(now);
        }
        for at in 0..self.ports.len() {
            let queue = self.ports[at].queue();
            if queue.is_empty() {
                continue;
            }
            let bytes = queue.bytes().min(u64::from(u32::MAX)) as u32;
            if self.ports[at].blocked {
                self.node.set_queue(PortId(at as u16), bytes);
            } else {
                self.send(at)?;
            }
        }
        if !self.ports.iter().any(|port| port.blocked) {
            self.ports.iter_mut().for_each(OpenPort::settled);
        }
        Ok(())
    }

    fn deliver(&mut self, now: u64) {
        let mut deliveries = core::mem::take(&mut self.out.deliveries);
        for delivery in deliveries.drain(..) {
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            self.apps.deliver(delivery, &mut self.node, &mut turn);
        }
        self.out.deliveries = deliveries;
        let mut told = core::mem::take(&mut self.out.told);
        for (port, message) in told.drain(..) {
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            self.apps.tell(port, &message, &mut self.node, &mut turn);
        }
        self.out.told = told;
    }

    /// Tells processes what happens to their domains.
    fn tell(&mut self, now: u64) {
        let mut upcalls = core::mem::take(&mut self.out.upcalls);
        for (host, domain, upcall) in upcalls.drain(..) {
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            self.processes.tell(host, domain, upcall, &mut self.node, &mut turn);
        }
        upcalls.append(&mut self.out.upcalls);
        self.out.upcalls = upcalls;
        self.processes.notify();
    }

    fn carry_out(&mut self, now: u64) {
        let mut effects = core::mem::take(&mut self.out.effects);
        for effect in effects.drain(..) {
            if let Effect::Channel { filter, exists } = effect {
                for (token, port) in (PORTS..).zip(&mut self.ports) {
                    port.take_for(&filter, exists, &mut self.poll, token);
                }
                continue;
            }
            let Err(effect) = self.loader.submit(effect) else { continue };
            let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
            match effect {
                Effect::LookUp(digest) => self.node.found(&mut turn, digest, None),
                Effect::Prepare(prepare) => self.node.unprepared(&mut turn, prepare.code),
                Effect::Authorise(claim) => self.node.unprepared(&mut turn, claim.code),
                // The kernel half is told again when something changes; until then capsules run here.
                Effect::Resolve(name) => self.node.resolved(&mut turn, &name, None),
                Effect::Store(_) | Effect::Kernel(_) | Effect::Channel { .. } => {}
            }
        }
        // What the answers have caused comes behind.
        effects.append(&mut self.out.effects);
        self.out.effects = effects;
    }

    fn queue_frames(&mut self, now: u64) {
        let mut frames = core::mem::take(&mut self.out.frames);
        for frame in frames.drain(..) {
            let port = &mut self.ports[usize::from(frame.port.0)];
            port.record_out(now, &frame);
            if let Err(frame) = port.queue().push(frame) {
                let mut turn = Turn { now, runtime: &mut self.runtime, out: &mut self.out };
                self.node.refused_outside(&mut turn, frame, Reason::QueueFull);
            }
        }
        frames.append(&mut self.out.frames);
        self.out.frames = frames;
    }

    /// Sends what a port has queued, and asks to be told when it can take the rest.
    fn send(&mut self, at: usize) -> io::Result<()> {
        let port = &mut self.ports[at];
        port.flush(&mut self.out.pool, &mut self.refused);
        let waiting = !port.queue().is_empty();
        let bytes = port.queue().bytes().min(u64::from(u32::MAX)) as u32;
        if waiting != port.blocked {
            self.poll.want_write(PORTS + at as u64, waiting);
            port.blocked = waiting;
        }
        self.node.set_queue(PortId(at as u16), bytes);
        for frame in self.refused.drain(..) {
            let mut turn = Turn { now: self.clock.now(), runtime: &mut self.runtime, out: &mut self.out };
            self.node.refused_outside(&mut turn, frame, Reason::NotSent);
        }
        Ok(())
    }
}
