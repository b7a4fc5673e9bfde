//! One direction of a link of the simulation: where it leads, and the model that says what becomes of its frames.

use super::network::{Carries, Line};
use crate::frame::{PeerId, PortId};
use crate::link::LinkModel;

/// One direction of a link.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    /// The node at the end.
    pub(super) to: u32,
    /// Its port there.
    pub(super) to_port: PortId,
    /// The peer that frames come from there.
    pub(super) to_peer: PeerId,
    /// What becomes of frames on it.
    pub(super) model: LinkModel,
}

impl Direction {
    pub(super) fn new(to: usize, to_port: usize, line: &Line) -> Direction {
        Direction {
            to: to as u32,
            to_port: PortId(to_port as u16),
            to_peer: if line.carries == Carries::Overlay { PeerId(0) } else { PeerId::NONE },
            model: LinkModel::new(&line.quality()),
        }
    }
}
