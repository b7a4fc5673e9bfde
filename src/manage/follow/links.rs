//! The interfaces behind the node's ports: what they are now is told to both halves.
//!
//! A port is its interface by name. An interface that is deleted and made again is the port's again, with its new
//! number and addresses.

use super::{Follower, interface_of};
use crate::config::Plan;
use crate::frame::{Link, PortId};
use crate::manage::kernel;
use crate::manage::worker::Order;
use crate::port::NativeInterface;
use crate::sys::netdev::Redirected;
use crate::sys::netlink::Interface;
use crate::topology::Port;
use anyhow::Result;

impl Follower {
    /// Says whether a port has changed.
    pub(super) fn look_at_ports(&mut self, interfaces: &[Interface]) -> Result<bool> {
        let (mut changed, redirected) = (false, kernel::redirected());
        let before = core::mem::replace(&mut self.seen.redirected, redirected);
        if self.seen.links.is_empty() {
            self.seen.links = vec![None; self.plans.len()];
            self.seen.mtu_max = self.config.ports.iter().map(|port| port.mtu).max().unwrap_or(0);
        }
        for (at, now) in self.file.native_ports(interfaces).into_iter().enumerate() {
            let Some((mut port, plan)) = now else { continue };
            port.mtu = port.mtu.min(self.seen.mtu_max);
            let Some(&NativeInterface { index: interface, .. }) = plan.opening.interface() else { continue };
            let carrier = interfaces.iter().find(|found| found.index == interface).map(|found| found.carrier);
            let link_before = core::mem::replace(&mut self.seen.links[at], carrier);
            let is_another = port != self.config.ports[at] || interface_of(&plan) != interface_of(&self.plans[at]);
            let arrives = |said: &Redirected| said.get(&interface).copied();
            if is_another || arrives(&before) != arrives(&self.seen.redirected) {
                let first = before.is_empty();
                self.change_port(at, port, plan, !first)?;
            }
            changed |= is_another;
            if link_before.is_some() && link_before != carrier {
                tracing::info!(event = "link", port = self.config.ports[at].name, "the link of a port was down, or is");
            }
            if !is_another && link_before.is_some() && link_before != carrier {
                self.tell(move |node, _| node.link_was_down(PortId(at as u16)))?;
            }
        }
        Ok(changed)
    }

    /// A port is not any more what it was.
    fn change_port(&mut self, at: usize, port: Port, plan: Plan, aloud: bool) -> Result<()> {
        let (id, Link::Ethernet { mac, .. }) = (PortId(at as u16), port.link) else { return Ok(()) };
        let (interface, before) = (interface_of(&plan), interface_of(&self.plans[at]));
        let entry = kernel::entry(at as u32, interface, mac, &port, &self.seen.redirected);
        let half = self.half.as_deref().map_or(Ok(false), |half| half.follow(entry));
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
        if interface != before {
            if program {
                kernel::leave_tags(&self.settings, interface);
            }
            self.handle.order(Order::Reopen { port: id, interface, program }).map_err(anyhow::Error::msg)?;
            if program && aloud {
                self.reopen_sockets(id, interface)?;
            }
        }
        // Link addresses behind it are asked for anew then.
        if is_another { self.tell(move |node, _| node.set_port(id, port)) } else { Ok(()) }
    }

    /// AF_XDP sockets come back when those of the interface before are closed.
    fn reopen_sockets(&self, port: PortId, interface: u32) -> Result<()> {
        let Some(again) = &self.again else { return Ok(()) };
        self.handle.settle().map_err(anyhow::Error::msg)?;
        match again.open(usize::from(port.0), interface) {
            Some(sockets) => self.handle.order(Order::Sockets { port, sockets }).map_err(anyhow::Error::msg),
            None => Ok(()),
        }
    }
}
