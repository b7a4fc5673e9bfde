//! Observers of a simulation: they see every frame at the edge of a node, byte by byte.
//!
//! The history ([`super::trace`]) tells what nodes did with packets. A tap sees their input and output, and so any
//! other difference between two runs. Tests make digests of both, and check invariants on nodes' output.

use super::Simulation;
use crate::node::{Node, Turn};

/// A frame at the edge of a place in the network.
#[derive(Clone, Copy, Debug)]
pub struct Tapped<'a> {
    /// When, in nanoseconds of virtual time.
    pub at: u64,
    /// The place.
    pub node: usize,
    /// The port there.
    pub port: u16,
    /// Whether it leaves the place, rather than arrives.
    pub leaves: bool,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// An observer.
pub type Tap = Box<dyn FnMut(Tapped<'_>)>;

impl Simulation {
    /// Shows every frame at the edge of any place from now on.
    pub fn tap(&mut self, tap: Tap) {
        self.world.tap = Some(tap);
    }

    /// A call into a node that is up, as its management would make it, and all that comes of it.
    pub fn with_node<R>(&mut self, node: usize, work: impl FnOnce(&mut Node, &mut Turn<'_>) -> R) -> Option<R> {
        self.turn(node, work)
    }
}
