//! The worker before its first packet and after its last one.
//!
//! The codes of an earlier process are prepared before a port is open. Meanwhile the Linux stack, or the kernel half of
//! before, forwards packets. At the end, frames taken from the stack are the node's to finish: its ports take no more,
//! and frames in their sockets still go their way.

use super::{Order, PORTS, Worker};
use crate::config::Plan;
use crate::frame::PortId;
use crate::frame::WorkerId;
use crate::graph::half::ChannelHalf;
use crate::kernel::Settings;
use crate::link::meter::LinkMeter;
use crate::manage::extensions::Policies;
use crate::manage::extensions::{Service, offer};
use crate::manage::kernel::Left;
use crate::manage::ports::{ForeignPorts, OpenPort, Opener, close_all, open_all};
use crate::node::graphs::{BroughtClasses, PreparedGraph};
use crate::node::proofs::Guard;
use crate::port::BeforeStack;
use crate::topology::Port;
use crate::wire::ethernet::Mac;
use crate::wire::revocation::Repr;
use crate::wire::{Addr, Digest};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// For how long codes are prepared before ports open, and for how long what sockets hold may take, in nanoseconds.
const PREPARE: u64 = 5_000_000_000;
const DRAIN: u64 = 500_000_000;

/// Between two looks for orders while ports are waited for.
const LOOK: Duration = Duration::from_millis(1);

impl Worker {
    /// These ports say hello from now on, once in so many tenths of a second, and these graphs run; ports are open.
    pub fn begin(&mut self, (hellos, graphs): (Vec<(usize, u16)>, Vec<PreparedGraph>)) -> Result<(), String> {
        let now = self.clock.now();
        let ports = hellos.iter().filter_map(|(at, interval)| Some((u16::try_from(*at).ok()?, *interval)));
        ports.for_each(|(at, interval)| self.driver.node.say_hello(now, PortId(at), interval));
        let runs = !graphs.is_empty();
        for graph in graphs {
            if !graph.away().is_empty() {
                self.driver.turn(now, |node, turn| node.await_graph(turn, graph));
                continue;
            }
            // Others run, and the node does.
            let spec = graph.spec().clone();
            self.driver.turn(now, |node, turn| {
                if let Err(why) = node.run_graph(turn, graph, None) {
                    node.refuse_graph(turn, spec, why);
                }
            });
        }
        self.settle(now).map_err(|error| error.to_string())?;
        if runs {
            self.await_ports();
        }
        Ok(())
    }

    /// PLAN programs see these calls of extensions from the start.
    pub fn offer(&mut self, services: Vec<Service>) -> Result<(), String> {
        offer(&mut self.driver.node, services).map_err(|why| format!("[[extension]]: {why}"))
    }

    /// Neighbours' parts have what extensions bring.
    pub fn bring(&mut self, classes: BroughtClasses) {
        self.driver.node.set_brought(classes);
    }

    /// Waits until the ports take what there are channels for: what a graph takes goes to nobody else once the node is up. Only those
    /// who open sockets give orders yet.
    fn await_ports(&mut self) {
        let (done, answer) = channel();
        let asked = self.around.place.opener().is_some_and(|opener| opener.settle(done).is_none());
        let until = Instant::now() + Duration::from_nanos(PREPARE);
        while asked && answer.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            self.take_orders();
            if Instant::now() > until {
                return tracing::warn!("ports do not take yet what graphs are to have");
            }
        }
    }

    /// Whom ports let in, and what neighbours are told of what was taken back, before any packet is taken.
    pub fn set_guard(&mut self, guard: Guard, told: Vec<Repr>) {
        self.driver.node.set_guard(self.clock.now(), guard);
        self.driver.node.remember_revocations(told);
    }

    /// The same of a worker that is not the first.
    pub fn leave_guard(&mut self, guard: &Guard) {
        self.driver.node.leave_guard(guard);
    }

    /// What says what waits on the links of its ports, as far as something does.
    pub fn set_meters(&mut self, meters: Vec<Option<LinkMeter>>) {
        let by_its_clock = |meter: Option<LinkMeter>| meter.map(|meter| meter.by(&self.clock));
        self.driver.node.set_meters(meters.into_iter().map(by_its_clock).collect());
    }

    /// Takes over what a node before this one has left, and prepares codes, before any packet is taken.
    pub fn prepare(&mut self, left: Left) -> io::Result<()> {
        let begun = self.clock.now();
        self.driver.turn(begun, |node, turn| node.take_over(turn, left.neighbours, left.codes));
        let mut ready = Vec::new();
        loop {
            // Nobody can have ordered it to stop yet.
            self.take_orders();
            let now = self.clock.now();
            // What is due goes by ports, so it waits for them if nothing else does.
            if !self.driver.node.awaits_no_code() && now >= self.driver.node.next_timer() {
                self.driver.turn(now, |node, turn| node.timer(turn));
            }
            self.settle(now)?;
            let awaits_code = !self.driver.node.awaits_no_code();
            if !awaits_code && self.driver.node.awaits_no_link(&left.inherited) {
                return Ok(());
            }
            if now >= begun + PREPARE {
                tracing::warn!("codes that ran before are not ready yet: packets come all the same");
                return Ok(());
            }
            let due = if awaits_code { self.driver.node.next_timer() } else { u64::MAX };
            self.poll.wait(due.min(begun + PREPARE).saturating_sub(now), &mut ready)?;
        }
    }

    /// Opens the ports of all workers, for packets of up to the largest MTU of any; what is opened for them later comes by
    /// `orders`. Those of the other workers are given, by worker.
    pub(in crate::manage) fn open(
        &mut self,
        ports: &[Port],
        (ways, policies): (Vec<(Plan, BeforeStack)>, Policies),
        settings: &Arc<Settings>,
        orders: Sender<Order>,
    ) -> io::Result<Vec<Vec<OpenPort>>> {
        let others = self.around.links.len();
        let mut of_others: Vec<Vec<OpenPort>> = (0..others).map(|_| Vec::new()).collect();
        let largest = ports.iter().map(|port| port.mtu).max().unwrap_or(0);
        let mut takers = Vec::new();
        let names = ports.iter().map(|port| port.name.clone()).collect();
        for (all, taker) in open_all(names, ways, (largest, others as WorkerId + 1, policies))? {
            let mut all = all.into_iter();
            self.take_ports(all.by_ref().take(1))?;
            of_others.iter_mut().zip(all).for_each(|(other, port)| other.push(port));
            takers.extend(taker);
        }
        let opener = Opener::start(takers, settings, (orders, self.waker.clone()))?;
        if let Some(front) = self.around.place.front() {
            front.opener = Some(opener);
        }
        Ok(of_others)
    }

    /// The tables of foreign flows of its ports.
    pub(in crate::manage) fn foreign(&mut self) -> Option<Arc<ForeignPorts>> {
        self.around.place.opener().map(|opener| opener.foreign())
    }

    /// Ends it: its ports are closed last, and several at once.
    pub(in crate::manage) fn close(mut self) {
        let ports = std::mem::take(&mut self.around.ports);
        // The poll has their sockets once more.
        drop(self);
        close_all(ports);
    }

    /// These are its next ports.
    pub(in crate::manage) fn take_ports(&mut self, ports: impl Iterator<Item = OpenPort>) -> io::Result<()> {
        for port in ports {
            port.wait_for(&mut self.poll, PORTS + self.around.ports.len() as u64)?;
            self.around.ports.push(port);
        }
        Ok(())
    }

    /// Takes over which link addresses behind its ports the host's stack knows: what has waited in sockets goes at once.
    pub fn seed_links(&mut self, list: &[(PortId, Addr, Mac)]) {
        self.driver.node.seed_links(self.clock.now(), list);
    }

    /// What looks at frames of channels before the node does.
    pub fn set_channel_halves(&mut self, halves: Vec<Box<dyn ChannelHalf>>) {
        self.driver.node.set_channel_halves(halves);
    }

    /// Codes that have run lately, the last one first.
    pub fn recent_codes(&self) -> Vec<Digest> {
        self.driver.node.recent_codes()
    }

    /// No worker takes packets of the Linux stack any more; what sockets hold is still there to be received. Only the first one can.
    pub fn take_no_more(&mut self) -> io::Result<()> {
        self.around.place.opener().map_or(Ok(()), Opener::stop)
    }

    /// Lets packets that sockets hold go their way.
    pub fn drain(&mut self) -> io::Result<()> {
        let begun = self.clock.now();
        loop {
            let mut more = false;
            for at in 0..self.around.ports.len() {
                if self.around.ports[at].blocked {
                    self.send(at, self.now)?;
                }
                more |= self.take_batches(at)?;
            }
            self.take_orders();
            let now = self.clock.now();
            more |= self.take_handed();
            if now >= self.driver.node.next_timer() {
                self.driver.turn(now, |node, turn| node.timer(turn));
            }
            if self.driver.node.has_work() {
                self.run_packets(now, false)?;
            }
            self.settle(now)?;
            let waits = self.driver.node.has_work()
                || !self.driver.node.awaits_no_code()
                || self.around.ports.iter().any(|port| port.blocked || port.due() < u64::MAX);
            if (!more && !waits) || now >= begun + DRAIN {
                return Ok(());
            }
            if !more {
                self.poll.wait(DRAIN / 100, &mut Vec::new())?;
            }
        }
    }
}
