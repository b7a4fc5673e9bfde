//! The interfaces behind the node's ports: what they are now is told to both halves.
//!
//! A port is its interface by name. An interface that is deleted and made again is the port's again, with its new
//! number and addresses; one that is not there yet is waited for (`interfaces`).

use super::interfaces::State;
use super::queues::Ask;
use super::{Follower, SeenPort, interface_of};
use crate::config::Plan;
use crate::frame::{Link, PortId};
use crate::manage::kernel;
use crate::manage::sockets::Again;
use crate::manage::worker::Order;
use crate::port::NativeInterface;
use crate::sys::ethtool;
use crate::sys::netdev::Redirected;
use crate::sys::netlink::{Carrier, Interface};
use crate::topology::Port;
use anyhow::Result;
use std::time::Instant;

/// Bytes of the largest packet to which a port may grow while the node runs, if none was larger at its start: frames are as long.
const GROWS_TO: usize = 9216;

/// The link of a port is another than it was at the look before.
fn say_link(port: &str, before: Option<Carrier>, now: Option<Carrier>) {
    let [before, up] = [before, now].map(|carrier| carrier.is_some_and(|carrier| carrier.up));
    let said = match (before, up) {
        (true, true) => "the link of a port was down for a moment",
        (false, true) => "the link of a port is up",
        (true, false) => "the link of a port is down",
        (false, false) => "the link of a port was up for a moment",
    };
    tracing::info!(event = "link", port, up, "{said}");
}

impl Follower {
    /// Says whether a port has changed.
    pub(super) fn look_at_ports(&mut self, interfaces: &[Interface]) -> Result<bool> {
        let (mut changed, redirected) = (false, kernel::redirected(&self.plans));
        let before = core::mem::replace(&mut self.seen.redirected, redirected);
        self.seen.due = None;
        let first = self.seen.ports.is_empty();
        self.begin();
        for (at, now) in self.file.native_ports(interfaces).into_iter().enumerate() {
            let Some((mut port, mut plan)) = now else { continue };
            self.limit_mtu(at, &mut port);
            let carrier_of =
                |index: u32| interfaces.iter().find(|found| found.index == index).map(|found| found.carrier);
            let switched = self.choose(at, &mut plan);
            let link = self.seen.ports[at].link;
            let bounced = link.is_some() && link != carrier_of(interface_of(&plan));
            if interface_of(&plan) == interface_of(&self.plans[at]) && self.has_new_queues(at, &plan, bounced) {
                self.leave_for_now(at)?;
            }
            let before_it = interface_of(&self.plans[at]);
            let id = PortId(at as u16);
            self.hold(at, &mut port, &mut plan);
            let interface = interface_of(&plan);
            let carrier = carrier_of(interface);
            self.links.carries(id, carrier);
            let link_before = core::mem::replace(&mut self.seen.ports[at].link, carrier);
            let is_another = port != self.config.ports[at] || interface != before_it;
            if interface != before_it {
                // It is opened with the queues of now.
                self.has_new_queues(at, &plan, false);
            }
            let arrives = |said: &Redirected| said.get(&interface).copied();
            if is_another || arrives(&before) != arrives(&self.seen.redirected) {
                self.change_port(at, port, plan.clone(), !first)?;
            }
            if switched && interface == before_it {
                self.switch(at, plan)?;
            }
            changed |= is_another || switched;
            if link_before.is_some() && link_before != carrier {
                say_link(&self.config.ports[at].name, link_before, carrier);
            }
            if !is_another && link_before.is_some() && link_before != carrier {
                self.handle.with_each(move |node, _| node.link_was_down(id)).map_err(anyhow::Error::msg)?;
            }
        }
        self.begin_to_weigh();
        Ok(changed)
    }

    /// What is known before the first look.
    pub(super) fn begin(&mut self) {
        if !self.seen.ports.is_empty() {
            return;
        }
        let largest = self.config.ports.iter().map(|port| port.mtu).max().unwrap_or(0);
        self.seen.together = self.choices.together();
        let seen = |at| SeenPort { choice: self.choices.take(at), ..SeenPort::new(largest) };
        self.seen.ports = (0..self.plans.len()).map(seen).collect();
        self.seen.mtu_max = largest.max(GROWS_TO);
        for (at, (file, plan)) in self.file.ports.iter().zip(&self.plans).enumerate() {
            if let Some(name) = &file.packet {
                self.links.add(PortId(at as u16), name, interface_of(plan) != 0);
            }
        }
    }

    /// Whether the interface of a port with a program before it, or AF_XDP sockets, has receive queues that are new; its driver is asked
    /// if it is time to.
    fn has_new_queues(&mut self, at: usize, plan: &Plan, bounced: bool) -> bool {
        let with_program = |interface: &&NativeInterface| (interface.xdp || interface.kernel) && interface.index != 0;
        let Some(interface) = plan.opening.interface().filter(with_program).map(|interface| interface.index) else {
            return false;
        };
        let (queues, now) = (&mut self.seen.ports[at].queues, Instant::now());
        match queues.ask(interface, bounced, now) {
            Ask::Now => {}
            Ask::Not => return false,
            Ask::Then(then) => {
                self.seen.due = Some(self.seen.due.map_or(then, |due| due.min(then)));
                return false;
            }
        }
        let Ok(name) = ethtool::name(interface) else { return false };
        ethtool::queues(&name).is_ok_and(|found| queues.has_new(interface, found, now, || ethtool::is_veth(&name)))
    }

    /// A port leaves its interface, to come back at once: a driver may not run a program at queues that have come since it was put
    /// there (veth of Linux 6.18 does not), and sockets are those of the queues before.
    fn leave_for_now(&mut self, at: usize) -> Result<()> {
        let (_, waiting) = self.file.waiting(PortId(at as u16))?;
        let (port, queues) = (&self.config.ports[at].name, self.seen.ports[at].queues.known());
        tracing::info!(event = "link", port, queues, "an interface has new receive queues: its port is opened anew");
        self.stand_back(at, interface_of(&self.plans[at]))?;
        self.plans[at] = waiting;
        Ok(())
    }

    /// The interface of a port may have come too often: then it is as if it were away. One that is away has the largest packet it had.
    fn hold(&mut self, at: usize, port: &mut Port, plan: &mut Plan) {
        let (interface, before, id) = (interface_of(plan), interface_of(&self.plans[at]), PortId(at as u16));
        let mut state = State::Away;
        if interface != 0 && interface != before {
            match self.seen.ports[at].patience.open(Instant::now()) {
                Ok(()) => self.links.turn(id, State::There),
                Err(then) => {
                    self.seen.due = Some(self.seen.due.map_or(then, |due| due.min(then)));
                    // What ran before ran with this: it is a port of the file.
                    if let Ok((away, waiting)) = self.file.waiting(id) {
                        (*port, *plan, state) = (Port { name: port.name.clone(), ..away }, waiting, State::Held);
                    }
                }
            }
        }
        if interface_of(plan) == 0 {
            port.mtu = self.config.ports[at].mtu;
            self.links.turn(id, state);
        }
    }

    /// Nothing of the node's stands before the interface of a port any more, and no socket is there.
    pub(super) fn stand_back(&mut self, at: usize, before: u32) -> Result<()> {
        let (id, name) = (PortId(at as u16), &self.config.ports[at].name);
        let half = self.half.as_deref().map_or(Ok(false), |half| half.leave(at as u32));
        if let Err(error) = half.and_then(|_| self.steering.as_ref().map_or(Ok(()), |steering| steering.leave(before)))
        {
            tracing::warn!(port = name, %error, "programs still know an interface that is gone");
        }
        if let Some(again) = &self.again {
            again.leave(at);
        }
        let mtu = self.config.ports[at].mtu;
        self.handle.order(Order::Reopen { port: id, interface: 0, program: false, mtu }).map_err(anyhow::Error::msg)
    }

    /// Packets grow no further than the node's memory is for.
    fn limit_mtu(&self, at: usize, port: &mut Port) {
        let most = self.seen.mtu_max;
        if port.mtu > most {
            if self.config.ports[at].mtu != most {
                tracing::warn!(
                    event = "link",
                    port = port.name,
                    mtu = port.mtu,
                    "larger packets than {most} bytes need a start anew"
                );
            }
            port.mtu = most;
        }
    }

    /// Has the sockets of a port opened anew if they are for shorter packets; says whether they have to be.
    fn make_room(&mut self, at: usize, mtu: usize, is_another: bool) -> Result<bool> {
        if mtu <= self.seen.ports[at].room {
            return Ok(is_another);
        }
        self.seen.ports[at].room = mtu;
        if !is_another {
            let name = &self.config.ports[at].name;
            tracing::info!(event = "link", port = name, mtu, "a port is opened anew for larger packets");
            // Those that there are go first: two would have the same frames.
            let order = Order::Reopen { port: PortId(at as u16), interface: 0, program: false, mtu };
            self.handle.order(order).map_err(anyhow::Error::msg)?;
            self.wait_for_workers()?;
        }
        Ok(true)
    }

    /// A port is not any more what it was.
    fn change_port(&mut self, at: usize, port: Port, plan: Plan, aloud: bool) -> Result<()> {
        let (id, Link::Ethernet { mac, .. }) = (PortId(at as u16), port.link) else { return Ok(()) };
        let (interface, before) = (interface_of(&plan), interface_of(&self.plans[at]));
        if interface == 0 {
            if before != 0 {
                tracing::info!(event = "link", port = port.name, "the interface of a port is gone: it waits");
                self.stand_back(at, before)?;
            }
            (self.config.ports[at], self.plans[at]) = (port.clone(), plan);
            return self.tell(move |node, _| node.set_port(id, port));
        }
        let entry = kernel::entry(at as u32, interface, mac, &port, &self.seen.redirected);
        let comes = interface != before && plan.opening.interface().is_some_and(|interface| interface.kernel);
        let half = self.half.as_deref().map_or(Ok(false), |half| half.follow(entry, comes));
        if let (Some(NativeInterface { xdp: true, .. }), Ok(false), None) =
            (plan.opening.interface(), &half, &self.steering)
        {
            self.steering = self.again.as_mut().and_then(Again::steering);
        }
        let program = half.and_then(|stands| match (plan.opening.interface(), &self.steering) {
            (Some(NativeInterface { xdp: true, .. }), Some(steering)) if !stands => steering.follow(&entry, before),
            _ => Ok(stands),
        });
        let program = program.unwrap_or_else(|error| {
            tracing::warn!(event = "link", port = port.name, %error, "no program of the node's stands before this port any more");
            false
        });
        if program && aloud {
            kernel::say_redirected(&port.name, &entry);
        }
        let is_another = port != self.config.ports[at] || interface != before;
        self.config.ports[at] = port.clone();
        self.plans[at] = plan;
        if self.make_room(at, port.mtu, interface != before)? {
            if program {
                kernel::leave_tags(&self.settings, interface);
            }
            let order = Order::Reopen { port: id, interface, program, mtu: port.mtu };
            self.handle.order(order).map_err(anyhow::Error::msg)?;
            if program && aloud {
                self.reopen_sockets(id, interface, port.mtu)?;
            }
        }
        // Link addresses behind it are asked for anew then.
        if is_another { self.tell(move |node, _| node.set_port(id, port)) } else { Ok(()) }
    }

    /// AF_XDP sockets come back when those of the interface before are closed.
    fn reopen_sockets(&mut self, port: PortId, interface: u32, mtu: usize) -> Result<()> {
        if self.again.is_some() {
            self.wait_for_workers()?;
        }
        let Some(again) = &mut self.again else { return Ok(()) };
        match again.open(usize::from(port.0), interface, mtu) {
            Some(sockets) => self.handle.order(Order::Sockets { port, sockets }).map_err(anyhow::Error::msg),
            None => Ok(()),
        }
    }
}
