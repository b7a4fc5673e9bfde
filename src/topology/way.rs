//! Ways: the next hop, port and locality of a destination, found once and remembered.
//!
//! The routing table, the node's own addresses and its neighbours are each searched for a capsule's destination, some
//! of them twice. A [`Ways`] remembers the answers for recent destinations, each in one place by its address, until the
//! routes change. Two destinations in the same place displace each other and cost as much as without it.

use super::NextHop;
use crate::frame::{PeerId, PortId};
use crate::wire::Addr;
use std::sync::Arc;

/// Destinations remembered.
const WAYS_MAX: usize = 64;

/// What the way of a packet may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Where it goes.
    pub to: Addr,
    /// Where it is from; unspecified if that is open yet.
    pub from: Addr,
    /// The port by which it came; nothing: it begins here.
    pub port: Option<PortId>,
    /// Type of service, or traffic class.
    pub service: u8,
    /// ANEP right behind the IP header, without UDP.
    pub direct: bool,
}

impl Flow {
    /// That of the node's own packets.
    pub fn of_node(to: Addr) -> Flow {
        Flow { to, from: Addr::UNSPECIFIED, port: None, service: 0, direct: false }
    }
}

/// Who says where packets go when that depends on more than their destination: rules of policy routing, which only the kernel knows to
/// the last. It is asked on the packet path and must not wait.
pub trait Router: Send + Sync + core::fmt::Debug {
    /// Where packets of this flow go next.
    fn next_hop(&self, flow: &Flow) -> Option<NextHop>;
}

/// What a node knows of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The destination.
    pub to: Addr,
    /// Whether that is this node.
    pub here: bool,
    /// The node's address towards it: that of the outgoing port, or the first one of the family.
    pub own: Addr,
    /// The route to it, if there is one.
    pub next: Option<NextHop>,
    /// The overlay peer that is the next hop, [`PeerId::NONE`] if there is none.
    pub peer: PeerId,
}

impl Way {
    /// No way at all.
    pub(super) fn nowhere(to: Addr) -> Way {
        Way { to, here: false, own: Addr::UNSPECIFIED, next: None, peer: PeerId::NONE }
    }
}

/// Ways remembered.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    places: Box<[Option<Way>; WAYS_MAX]>,
}

impl Default for Ways {
    fn default() -> Ways {
        Ways { places: Box::new([None; WAYS_MAX]) }
    }
}

impl Ways {
    /// The place where the way to `to` is if it is remembered.
    #[inline]
    pub(super) fn place(&mut self, to: Addr) -> &mut Option<Way> {
        // The product's upper bits depend on all bits of the address.
        let wide = u128::from_be_bytes(to.0);
        let mixed = ((wide >> 64) as u64 ^ wide as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.places[(mixed >> (64 - WAYS_MAX.ilog2())) as usize]
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.places.fill(None);
    }
}

/// Ways where more than the destination decides, remembered until the routes change.
#[derive(Clone, Debug)]
pub(super) struct RuledWays {
    router: Arc<dyn Router>,
    places: Box<[Option<(Flow, Way)>; WAYS_MAX]>,
}

impl RuledWays {
    /// None yet.
    pub(super) fn new(router: Arc<dyn Router>) -> RuledWays {
        RuledWays { router, places: Box::new([None; WAYS_MAX]) }
    }

    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.places.fill(None);
    }

    /// The same for others.
    pub(super) fn shared(&self) -> Arc<dyn Router> {
        self.router.clone()
    }

    /// Who says where packets go.
    pub(super) fn router(&self) -> &dyn Router {
        &*self.router
    }

    /// The place where the way of `flow` is if it is remembered.
    pub(super) fn place(&mut self, flow: &Flow) -> &mut Option<(Flow, Way)> {
        let half = |addr: Addr| {
            let wide = u128::from_be_bytes(addr.0);
            (wide >> 64) as u64 ^ wide as u64
        };
        let rest = u64::from(flow.port.map_or(u16::MAX, |port| port.0)) << 8 | u64::from(flow.service);
        let mixed = half(flow.to) ^ half(flow.from).rotate_left(32) ^ rest.rotate_left(16);
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.places[(mixed >> (64 - WAYS_MAX.ilog2())) as usize]
    }
}
