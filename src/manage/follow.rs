//! Follows the kernel's interfaces, routes and rules of policy routing, and tells both halves.
//!
//! A port is its interface by name. An interface that is deleted and made again is the port's again, with its new
//! number and addresses.

use super::control::Handle;
use super::kernel;
use super::sockets::Again;
use super::worker::Order;
use crate::config::{NodeFile, Plan};
use crate::frame::{Link, PortId};
use crate::kernel::{Asker, KernelHalf, RuledRoutes, Settings, Steering};
use crate::node::NodeConfig;
use crate::port::NativeInterface;
use crate::sys::netdev::Redirected;
use crate::sys::netlink::{self, Carrier, Interface, Rules};
use crate::sys::threads::{self, Duty};
use crate::topology::{Port, Router, Routes};
use anyhow::{Context, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Changes of the kernel's tables are gathered for this long before they are read.
const GATHER: Duration = Duration::from_millis(20);

/// The rules that the host has, for the status.
#[derive(Debug, Default)]
pub struct Report(Mutex<Rules>);

impl Report {
    /// Those of the last look.
    pub fn rules(&self) -> Rules {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes down those of this look; says whether they are others.
    fn renew(&self, rules: Rules) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::replace(&mut *last, rules) != rules
    }
}

/// Who is told of what.
pub struct Follower {
    file: NodeFile,
    /// The node and its ports, as they were told last.
    config: NodeConfig,
    plans: Vec<Plan>,
    handle: Handle,
    half: Option<Arc<KernelHalf>>,
    /// What stands before its ports beside that.
    steering: Option<Arc<Steering>>,
    settings: Arc<Settings>,
    /// Opens AF_XDP sockets anew, if there are some.
    again: Option<Again>,
    /// Whether the kernel's routes are the node's; for the status.
    routes: bool,
    report: Arc<Report>,
    seen: Seen,
}

/// What a look at the host has found.
#[derive(Default)]
struct Seen {
    /// Bytes of the largest packet of any port when the node started: its buffers are for that.
    mtu_max: usize,
    /// The link of each port; nothing: not looked at yet.
    links: Vec<Option<Carrier>>,
    /// What redirects to each port lead to, as its programs were told last.
    redirected: Redirected,
    /// What asks the kernel, if there was a reason to.
    asker: Option<Arc<Asker>>,
}

impl Follower {
    /// One that tells a node and what is before its ports; with a report if the kernel's routes are the node's.
    pub fn new(
        file: NodeFile,
        (config, plans): (NodeConfig, Vec<Plan>),
        handle: Handle,
        (half, steering, again): (Option<Arc<KernelHalf>>, Option<Arc<Steering>>, Option<Again>),
        settings: Arc<Settings>,
        report: Option<Arc<Report>>,
    ) -> Follower {
        let (routes, report, seen) = (report.is_some(), report.unwrap_or_default(), Seen::default());
        Follower { file, config, plans, handle, half, steering, settings, again, routes, report, seen }
    }

    /// Tells all there is now, and then what changes as long as the node lives.
    pub fn follow(mut self) -> Result<()> {
        if !self.routes && self.plans.iter().all(|plan| interface_of(plan) == 0) {
            return Ok(());
        }
        let watch = netlink::Watch::new().context("cannot follow the kernel's routes")?;
        self.look()?;
        threads::start("anode-routes", Duty::Routes, move || {
            while watch.wait().is_ok() {
                std::thread::sleep(GATHER);
                if self.look().is_err() {
                    return;
                }
            }
        })?;
        Ok(())
    }

    /// Reads everything anew. An error: the node is gone.
    fn look(&mut self) -> Result<()> {
        let changed = match netlink::interfaces() {
            Ok(interfaces) => self.look_at_ports(&interfaces)?,
            Err(error) => {
                tracing::warn!(%error, "interfaces not followed");
                false
            }
        };
        if changed || self.routes { self.look_at_routes() } else { Ok(()) }
    }

    /// Says whether a port has changed.
    fn look_at_ports(&mut self, interfaces: &[Interface]) -> Result<bool> {
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
            tracing::warn!(port = port.name, %error, "no program of the node's stands before this port any more");
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

    fn tell(
        &self,
        command: impl FnOnce(&mut crate::node::Node, &mut crate::node::Turn<'_>) + Send + 'static,
    ) -> Result<()> {
        self.handle.order(Order::Do(Box::new(command))).map_err(anyhow::Error::msg)
    }

    fn look_at_routes(&mut self) -> Result<()> {
        let read = || {
            let rules = if self.routes { netlink::rules()? } else { Rules::default() };
            Ok::<_, anyhow::Error>((self.file.routes(&self.config, &self.plans)?, rules))
        };
        let (routes, rules) = match read() {
            Ok((routes, rules)) => (Arc::new(routes), rules),
            Err(error) => {
                tracing::warn!(%error, "routes not followed");
                return Ok(());
            }
        };
        if self.report.renew(rules) {
            say(rules);
        }
        let ruled = rules.obeyed > 0;
        if let Some(half) = self.half.as_deref()
            && let Err(error) = kernel::set_routes(half, &self.config, &routes, ruled)
        {
            tracing::error!(%error, "the kernel half is not told of new routes");
        }
        let router = if ruled { self.router(&routes) } else { None };
        self.tell(move |node, _| node.set_routes(routes, router))
    }

    /// Who is asked in the place of the routes.
    fn router(&mut self, main: &Arc<Routes>) -> Option<Arc<dyn Router>> {
        if self.seen.asker.is_none() {
            match Asker::open() {
                Ok(asker) => self.seen.asker = Some(Arc::new(asker)),
                Err(error) => {
                    tracing::warn!(%error, "the kernel cannot be asked: packets go by the main tables alone");
                    return None;
                }
            }
        }
        Some(Arc::new(RuledRoutes {
            asker: self.seen.asker.clone()?,
            interfaces: self.plans.iter().map(interface_of).collect(),
            fixed: self.file.fixed_routes(&self.config).ok()?,
            main: main.clone(),
        }))
    }
}

/// The interface of a port, 0 if it has none.
fn interface_of(plan: &Plan) -> u32 {
    plan.opening.interface().map_or(0, |interface| interface.index)
}

fn say(Rules { obeyed, not_obeyed }: Rules) {
    if obeyed > 0 {
        tracing::info!(rules = obeyed, "rules of policy routing decide: the kernel is asked for the way of each flow");
    }
    if not_obeyed > 0 {
        tracing::warn!(rules = not_obeyed, "rules for marked packets are not obeyed: nothing of the node's is marked");
    }
}
