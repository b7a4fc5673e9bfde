//! The kernel's routes and rules of policy routing: what they are now is told to both halves.

use super::{Follower, interface_of};
use crate::kernel::{Asker, RuledRoutes};
use crate::manage::kernel;
use crate::sys::netlink::{self, Rules};
use crate::topology::{Router, Routes};
use anyhow::Result;
use std::sync::Arc;

impl Follower {
    pub(super) fn look_at_routes(&mut self) -> Result<()> {
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

fn say(Rules { obeyed, not_obeyed }: Rules) {
    if obeyed > 0 {
        tracing::info!(
            event = "route",
            rules = obeyed,
            "rules of policy routing decide: the kernel is asked for the way of each flow"
        );
    }
    if not_obeyed > 0 {
        tracing::warn!(
            event = "route",
            rules = not_obeyed,
            "rules for marked packets are not obeyed: nothing of the node's is marked"
        );
    }
}
