//! A door: an incoming channel of a graph whose program is in the other half.

use super::channels::CarriedCut;
use crate::core::domain::DomainId;
use crate::nodeos::interface::InChanId;

/// Where the program of a graph is: in which of the halves that look at frames before the node, and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GraphSlot {
    /// Which half.
    pub half: usize,
    /// Its place.
    pub place: u32,
}

/// A channel whose packets go to a program.
#[derive(Debug)]
pub struct KernelDoor {
    pub(super) channel: InChanId,
    pub(super) domain: DomainId,
    pub(super) slot: GraphSlot,
    /// Nothing: the user half has them for now.
    pub(super) carried: Option<CarriedCut>,
}
