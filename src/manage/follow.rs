//! Follows the kernel's interfaces, routes and rules of policy routing, and tells both halves.

mod links;
mod routes;

use super::control::Handle;
use super::sockets::Again;
use super::worker::Order;
use crate::config::{NodeFile, Plan};
use crate::frame::Link;
use crate::kernel::{Asker, KernelHalf, Settings, Steering};
use crate::node::NodeConfig;
use crate::sys::netdev::Redirected;
use crate::sys::netlink::{self, Carrier, Rules};
use crate::sys::threads::{self, Duty};
use crate::topology::Neighbour;
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

/// One that others have something to tell too.
pub type Following = Arc<Mutex<Follower>>;

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
    pub fn follow(mut self) -> Result<Following> {
        if !self.routes && self.plans.iter().all(|plan| interface_of(plan) == 0) {
            return Ok(Arc::new(Mutex::new(self)));
        }
        let watch = netlink::Watch::new().context("cannot follow the kernel's routes")?;
        self.look()?;
        let following = Arc::new(Mutex::new(self));
        let looked = following.clone();
        threads::start("anode-routes", Duty::Routes, move || {
            while watch.wait().is_ok() {
                std::thread::sleep(GATHER);
                if looked.lock().unwrap_or_else(PoisonError::into_inner).look().is_err() {
                    return;
                }
            }
        })?;
        Ok(following)
    }

    /// Whether the routes of another configuration lead somewhere here, where these neighbours are.
    pub fn check(&self, file: &NodeFile, neighbours: Vec<Neighbour>) -> Result<()> {
        let config = NodeConfig { neighbours, ..self.config.clone() };
        file.fixed_routes(&config)?;
        Ok(())
    }

    /// From now on the node has this configuration, of as many ports, and these neighbours.
    pub fn renew(&mut self, file: NodeFile, neighbours: Vec<Neighbour>) -> Result<()> {
        self.config.neighbours = neighbours;
        for (port, of_file) in self.config.ports.iter_mut().zip(&file.ports) {
            if port.link == Link::Overlay {
                (port.ceiling, port.bits_per_second) = (of_file.ceiling()?, of_file.bits_per_second);
            }
        }
        self.file = file;
        if self.routes || self.plans.iter().any(|plan| interface_of(plan) != 0) {
            self.look()?;
        }
        if self.routes { Ok(()) } else { self.look_at_routes() }
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

    fn tell(
        &self,
        command: impl FnOnce(&mut crate::node::Node, &mut crate::node::Turn<'_>) + Send + 'static,
    ) -> Result<()> {
        self.handle.order(Order::Do(Box::new(command))).map_err(anyhow::Error::msg)
    }
}

/// The interface of a port, 0 if it has none.
fn interface_of(plan: &Plan) -> u32 {
    plan.opening.interface().map_or(0, |interface| interface.index)
}
