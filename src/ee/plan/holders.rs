//! Holders of places in tables that programs fill: each has a share of its own ([`crate::frame::shares::Shares`]).

use super::ANYONE;
use crate::frame::Payer;

/// Who holds a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Holder {
    /// A principal whose signature counts.
    Principal(usize),
    /// Nobody in particular, of the packets that this one pays for: a neighbour, or all strangers of a port. What a
    /// packet leaves to be done later is its too.
    Behind(Payer),
}

impl Holder {
    /// Applications of this node.
    #[cfg(test)]
    pub const HERE: Holder = Holder::Behind(Payer::NOBODY);

    /// Who holds what a packet keeps that is a principal's, and that this one pays for.
    pub fn of(principal: usize, payer: Payer) -> Holder {
        if principal == ANYONE { Holder::Behind(payer) } else { Holder::Principal(principal) }
    }
}
