//! What extensions ask about links and ways. Example: of `ways.set 10.2.0.0 16 10.0.0.2 0` the first worker says whether 10.0.0.2 is behind
//! port 0, and whoever follows routes tells it to both halves.

use super::control::Handle;
use super::follow::BroughtRoutes;
use crate::code::extension::built_in::KnowsNetwork;
use crate::code::extension::given::{FAILED, NO_SUCH_HOST};
use crate::frame::PortId;
use crate::topology::NextHop;
use crate::wire::ethernet::Mac;
use crate::wire::{Addr, Prefix};
use std::sync::Arc;

/// The node's links and ways, for whoever keeps its extensions.
pub struct NodeNetwork {
    /// A way to the workers.
    pub handle: Handle,
    /// The routes that extensions set.
    pub routes: Arc<BroughtRoutes>,
}

impl KnowsNetwork for NodeNetwork {
    fn neighbour(&self, at: usize) -> Option<(Addr, PortId)> {
        self.handle.with_node(move |node, _| node.neighbour(at)).ok()?
    }

    fn link_address(&self, port: PortId, of: Addr) -> Option<Mac> {
        self.handle.with_node(move |node, turn| node.link_address(turn.now, port, of)).ok()?
    }

    fn next_hop(&self, to: Addr) -> Option<(Addr, PortId)> {
        let way = self.handle.with_node(move |node, _| node.way_to(to)).ok()?;
        let next = way.next.filter(|_| !way.here)?;
        Some((if next.via.is_unspecified() { to } else { next.via }, next.port))
    }

    fn set_way(&self, whose: &str, to: Prefix, via: Addr, port: PortId) -> Result<(), i32> {
        let is_there = self.handle.with_node(move |node, _| node.is_behind(port, via) && !node.is_host_here(to));
        if !is_there.map_err(|_| FAILED)? || to.is_v4() != via.is_v4() {
            return Err(NO_SUCH_HOST);
        }
        self.routes.set(whose, to, NextHop { port, via })
    }

    fn remove_way(&self, whose: &str, to: Prefix) -> Result<(), i32> {
        self.routes.remove(whose, to)
    }

    fn withdraw(&self, whose: &str) {
        self.routes.withdraw(whose);
    }
}
