//! The worker: one thread that takes frames from the ports through the node and back.
//!
//! It runs to completion: receive a batch, process each frame, send the output, and only then look at the next batch.
//! Control reaches it by commands between batches, code by the loader. It waits for nothing but frames, and takes no
//! lock.

mod anew;
mod around;
mod changes;
pub mod crew;
mod edges;
pub mod input;
mod order;
mod orders;
mod settle;
mod slices;
mod taking;
mod watch;
mod work_clock;

use super::apps::Apps;
use super::cpu::Cpu;
use super::ee::Desk;
use super::loader::Loader;
use super::ports::OpenPort;
use crate::core::reason::Reason;
use crate::driver::{Driven, Driver};
use crate::frame::WorkerId;
use crate::frame::{Frame, FramePool, PortId};
use crate::graph::taught::Classifying;
use crate::node::NodeConfig;
use crate::node::entry::EntryLimits;
use crate::node::paths::Round;
use crate::node::workers::Joint;
use crate::port::packet::AROUND;
use crate::sys::clock::Clock;
use crate::sys::poll::{Poll, Ready, Waker};
use around::{Around, Front, Place};
use crew::Link;
use input::Input;
pub use order::{Command, Order, Placing};
use slices::Slices;
use std::io;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use watch::Watchers;

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

/// Frames ready in the pool from the start.
const FRAMES_READY: usize = 512;

/// The worker of one node.
pub struct Worker {
    driver: Driver,
    around: Around,
    orders: Receiver<Order>,
    waker: Waker,
    poll: Poll,
    clock: Clock,
    /// What it showed when it was read last.
    now: u64,
    batch: Vec<Frame>,
    refused: Vec<Frame>,
    /// For how long drivers are polled when a frame has come, and until when that is, in nanoseconds.
    busy_poll: u64,
    busy_until: u64,
    cpu: Cpu,
    /// Nanoseconds in which packets were taken in since some ran last.
    received: u64,
    /// What its node is made of.
    making: anew::Making,
    /// How many frames it will have looked at when the batch in hand is done.
    taking: Option<u64>,
    /// Surveys under way.
    surveys: Slices,
    /// From which port it takes frames next, if an order says so.
    input: Option<Box<Input>>,
}

/// Which of the workers of a node one is, with what only that one has.
pub enum Seat {
    /// The first, which has the tables of the node.
    First(Box<FirstSeat>),
    /// Another one: its number.
    Further(WorkerId),
}

/// What only the first worker of a node has.
pub struct FirstSeat {
    /// The PLAN environment.
    pub plan: Box<crate::ee::plan::Config>,
    /// The applications' socket.
    pub apps: Apps,
    /// The loader.
    pub loader: Loader,
}

/// What a worker is made from.
pub struct Parts {
    /// The node.
    pub config: NodeConfig,
    /// Which worker of it this is.
    pub seat: Seat,
    /// The other workers.
    pub links: Vec<Link>,
    /// What all of them have in common, if there are several.
    pub joint: Option<Joint>,
    /// For how long drivers are polled when a frame has come, in microseconds.
    pub busy_poll_us: u32,
    /// What it gets of the CPU.
    pub cpu: Cpu,
    /// From which port it takes frames next.
    pub input: Option<Box<Input>>,
    /// What neighbours may use of it.
    pub entry: EntryLimits,
    /// Protocols that are taught.
    pub classifying: Classifying,
    /// Orders from other threads.
    pub orders: Receiver<Order>,
    /// What wakes it.
    pub waker: Waker,
    /// The node's clock.
    pub clock: Clock,
}

impl Worker {
    /// One without ports yet.
    pub fn new(parts: Parts) -> io::Result<Worker> {
        let id = match &parts.seat {
            Seat::First(_) => 0,
            Seat::Further(id) => *id,
        };
        let making = anew::Making::of(&parts, id);
        let Parts { config, seat, links, busy_poll_us, cpu, input, orders, waker, clock, .. } = parts;
        let poll = Poll::new()?;
        poll.add(&waker, WAKER)?;
        let largest = config.ports.iter().map(|port| port.mtu).max().unwrap_or(0);
        let pool = FramePool::new(crate::frame::FRAME.max(largest + AROUND), FRAMES_READY);
        let mut node = making.node(&cpu, clock);
        let place = match seat {
            Seat::First(seat) => {
                let FirstSeat { plan, apps, loader } = *seat;
                poll.add(apps.socket(), APPS)?;
                node.speak_plan(*plan);
                Place::First(Box::new(Front { apps, loader, opener: None }))
            }
            Seat::Further(_) => Place::Further,
        };
        let mut driver = Driver::new(node);
        driver.out.pool = pool;
        Ok(Worker {
            driver,
            around: Around {
                ports: Vec::new(),
                processes: Desk::default(),
                place,
                links,
                watchers: Watchers::default(),
            },
            orders,
            waker,
            poll,
            clock,
            now: 0,
            batch: Vec::new(),
            refused: Vec::new(),
            busy_poll: u64::from(busy_poll_us) * 1000,
            busy_until: 0,
            cpu,
            received: 0,
            making,
            taking: None,
            surveys: Slices::default(),
            input,
        })
    }

    /// What the node's clock shows, which is what it showed last for whoever needs it no better.
    #[inline]
    fn read(&mut self) -> u64 {
        self.now = self.clock.now();
        self.now
    }

    /// Works until it is told to stop.
    pub fn run(&mut self) -> io::Result<()> {
        self.cpu.begin(self.clock.now())?;
        let mut ready: Vec<Ready> = Vec::new();
        let (mut busy, mut polling) = (false, false);
        // What was ordered before it runs comes before all packets.
        if self.take_orders() {
            return Ok(());
        }
        loop {
            let now = self.read();
            let polled = polling;
            self.cpu.look_at_load(now, || self.driver.node.worked(now));
            polling = now < self.busy_until;
            self.poll_drivers(polled, polling);
            let wait = if busy || polling { 0 } else { self.patience(now) };
            self.await_some(wait, &mut ready)?;
            if wait > 0 || ready.is_empty() && !busy {
                let rested = self.read().saturating_sub(now);
                self.driver.node.rested(rested);
            }
            busy = false;
            // Before packets come in: who waits now has waited while processes worked.
            self.around.processes.charge(&mut self.driver.node, self.now);
            for (at, event) in ready.iter().enumerate() {
                if at > 0 {
                    self.read();
                }
                match event.token {
                    WAKER => {
                        if self.take_orders() {
                            return Ok(());
                        }
                    }
                    APPS => {
                        let now = self.clock.now();
                        self.around.place.front().into_iter().for_each(|front| front.apps.accept(now, &self.poll));
                    }
                    token if token >= PROCESSES => self.around.processes.mark(token - PROCESSES),
                    token if token >= FIRST_APP => self.serve_application(token)?,
                    token => busy |= self.serve_port((token - PORTS) as usize, event)?,
                }
            }
            busy |= self.take_in_order()?;
            busy |= self.take_handed();
            let mut now = self.now;
            let mut driven = self.driver.at(now);
            let more = self.around.processes.take(driven.node, &mut driven.turn, &self.poll);
            self.around.processes.notify_waiting();
            if now >= self.driver.node.next_timer() {
                self.do_due(now);
                // That was no packet's work.
                now = self.read();
            }
            if self.driver.node.has_work() {
                self.run_packets(now, busy)?;
            }
            // Processes that have more are no reason to run fewer packets a round.
            busy |= more;
            self.settle(now)?;
            if self.surveys.are_under_way() {
                self.survey();
            }
            if self.cpu.rest(now).is_some_and(|rest| self.rest(rest)) {
                return Ok(());
            }
        }
    }

    /// For how long it may wait for something to happen, in nanoseconds.
    #[inline]
    fn patience(&self, now: u64) -> u64 {
        if self.driver.node.has_work() || self.surveys.are_under_way() {
            return 0;
        }
        let paced = self.around.ports.iter().map(OpenPort::due).min().unwrap_or(u64::MAX);
        let timer = self.driver.node.next_timer().min(paced).saturating_sub(now);
        if self.around.processes.waits() { timer.min(AGAIN) } else { timer }
    }

    /// Lets drivers look for frames while they are to be polled; processes are listened to when they are not.
    #[inline]
    fn poll_drivers(&mut self, polled: bool, polling: bool) {
        if polling {
            self.around.ports.iter().for_each(OpenPort::poll_driver);
        }
        if polling || polled {
            self.around.processes.listen(!polling);
        }
    }

    /// Waits for frames and orders, for so many nanoseconds at most: meanwhile it need not come round.
    #[inline]
    fn await_some(&mut self, wait: u64, ready: &mut Vec<Ready>) -> io::Result<()> {
        if wait > 0 {
            self.cpu.rounds().rest();
        }
        self.poll.wait(wait, ready)?;
        self.cpu.rounds().work();
        Ok(())
    }

    /// Does what is due at `now`.
    fn do_due(&mut self, now: u64) {
        self.driver.turn(now, |node, turn| node.timer(turn));
        self.look_after_ports();
        let mut driven = self.driver.at(now);
        if let Some(front) = self.around.place.front() {
            front.apps.look_after(now, &self.poll, driven.node);
        }
        self.around.processes.look_after(driven.node, &mut driven.turn, &self.poll, PROCESSES);
    }

    /// Runs packets in the order of the path scheduler, at what they cost.
    fn run_packets(&mut self, mut now: u64, busy: bool) -> io::Result<()> {
        let mut round = Round::of(&self.driver.node, core::mem::take(&mut self.received), busy);
        let mut worked = self.driver.node.worked(now);
        loop {
            let Driven { node, mut turn } = self.driver.at(now);
            let Some(ran) = node.run_turn(&mut turn) else { return Ok(()) };
            if ran.is_urgent() {
                self.settle(now)?;
            }
            now = self.read();
            let before = std::mem::replace(&mut worked, self.driver.node.worked(now));
            let (packets, cost) = (ran.packets(), worked - before);
            self.driver.node.ran(ran, cost, now);
            if !round.goes_on(packets, cost) {
                return Ok(());
            }
        }
    }

    /// Sleeps until the share of the CPU is not used up any more; true if the worker is to stop.
    #[cold]
    fn rest(&mut self, mut rest: Duration) -> bool {
        loop {
            self.cpu.rounds().rest();
            std::thread::sleep(rest);
            self.cpu.rounds().work();
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
        for (at, port) in self.around.ports.iter_mut().enumerate() {
            self.driver.node.count_missed(PortId(at as u16), port.overflows());
            self.driver.node.count_drops(Reason::Oversized, port.cut_short().into());
            self.driver.node.set_port_classes(PortId(at as u16), port.classes());
            self.driver.node.set_port_policies(PortId(at as u16), port.policies());
        }
        if self.input.is_some() {
            self.tell_input();
        }
    }

    fn serve_application(&mut self, token: u64) -> io::Result<()> {
        let now = self.read();
        let mut driven = self.driver.at(now);
        if let Some(front) = self.around.place.front() {
            front.apps.receive(token, &self.poll, driven.node, &mut driven.turn);
        }
        // Now, so that what waits to be sent is bounded by what one application may bring.
        self.settle(now)
    }
}
