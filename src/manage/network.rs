//! What extensions ask about links and ways. Example: `ways.next 10.2.0.1` is asked of the first worker.
//!
//! A route that `ways.set` has set is told to both halves by whoever follows routes.

use super::control::Handle;
use super::follow::BroughtRoutes;
use crate::code::extension::built_in::{KnowsNetwork, NO_SUCH_HOST, REFUSED};
use crate::frame::PortId;
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
        let is_there = self.handle.with_node(move |node, _| node.is_behind(port, via)).map_err(|_| REFUSED)?;
        if !is_there || to.is_v4() != via.is_v4() {
            return Err(NO_SUCH_HOST);
        }
        self.routes.set(whose, to, via)
    }

    fn remove_way(&self, whose: &str, to: Prefix) -> Result<(), i32> {
        self.routes.remove(whose, to)
    }

    fn withdraw(&self, whose: &str) {
        self.routes.withdraw(whose);
    }
}
