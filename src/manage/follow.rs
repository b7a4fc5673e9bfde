//! Follows what the kernel knows of routes and rules of policy routing, and tells both halves.

use super::config::{NodeFile, Opening, Plan};
use super::control::Handle;
use super::netlink::{self, Rules};
use super::worker::Order;
use super::{kernel, worker};
use crate::kernel::{Asker, KernelHalf, RuledRoutes};
use crate::node::NodeConfig;
use crate::topology::{Router, Routes};
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
    /// The node's file.
    pub file: NodeFile,
    /// The node.
    pub config: NodeConfig,
    /// Its ports.
    pub plans: Vec<Plan>,
    /// The way to it.
    pub handle: Handle,
    /// Its kernel half.
    pub half: Option<Arc<KernelHalf>>,
    /// For the status.
    pub report: Arc<Report>,
    /// What asks the kernel, if there was a reason to.
    pub asker: Option<Arc<Asker>>,
}

impl Follower {
    /// Tells all there is now, and then what changes as long as the node lives.
    pub fn follow(mut self) -> Result<()> {
        let watch = netlink::Watch::new().context("cannot follow the kernel's routes")?;
        self.look()?;
        std::thread::Builder::new().name("anode-routes".into()).spawn(move || {
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
        let read = || Ok::<_, anyhow::Error>((self.file.routes(&self.config, &self.plans)?, netlink::rules()?));
        let (routes, rules) = match read() {
            Ok((routes, rules)) => (Arc::new(routes), rules),
            Err(error) => {
                tracing::warn!(%error, "routes not followed");
                return Ok(());
            }
        };
        if self.report.renew(rules) {
            tell(rules);
        }
        let ruled = rules.obeyed > 0;
        if let Some(half) = self.half.as_deref()
            && let Err(error) = kernel::set_routes(half, &self.config, &routes, ruled)
        {
            tracing::error!(%error, "the kernel half is not told of new routes");
        }
        let router = if ruled { self.router(&routes) } else { None };
        let command: worker::Command = Box::new(move |node, _| node.set_routes(routes, router));
        self.handle.order(Order::Do(command)).map_err(anyhow::Error::msg)
    }

    /// Who is asked in the place of the routes.
    fn router(&mut self, main: &Arc<Routes>) -> Option<Arc<dyn Router>> {
        if self.asker.is_none() {
            match Asker::open() {
                Ok(asker) => self.asker = Some(Arc::new(asker)),
                Err(error) => {
                    tracing::warn!(%error, "the kernel cannot be asked: packets go by the main tables alone");
                    return None;
                }
            }
        }
        let interface = |plan: &Plan| match plan.opening {
            Opening::Packet { interface, .. } => interface,
            Opening::Udp(..) => 0,
        };
        Some(Arc::new(RuledRoutes {
            asker: self.asker.clone()?,
            interfaces: self.plans.iter().map(interface).collect(),
            fixed: self.file.fixed_routes(&self.config).ok()?,
            main: main.clone(),
        }))
    }
}

fn tell(Rules { obeyed, not_obeyed }: Rules) {
    if obeyed > 0 {
        tracing::info!(rules = obeyed, "rules of policy routing decide: the kernel is asked for the way of each flow");
    }
    if not_obeyed > 0 {
        tracing::warn!(rules = not_obeyed, "rules for marked packets are not obeyed: nothing of the node's is marked");
    }
}
