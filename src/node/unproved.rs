//! Packets without a proof on a port that demands one, or with an unknown key: counted, and logged once for each
//! source.
//!
//! The two causes have a memory each: one invented packet in a neighbour's name must not keep the log from saying that
//! the neighbour has another key.

use super::Cx;
use super::ceilings::Said;
use super::output::Turn;
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::wire::proof::Repr;
use crate::wire::{Addr, anep};

/// Of whom the log has said so.
#[derive(Default)]
pub(super) struct Unproved {
    without: Said,
    unknown: Said,
}

impl Cx {
    /// A packet is not let in, perhaps since its sender could not be found out. Of that, once of a source the log says
    /// that it proves nothing to a port that demands proofs, or has a key that the port does not know: a counter does
    /// not say who is meant.
    #[cold]
    pub(super) fn turn_away(&mut self, turn: &mut Turn<'_>, frame: Frame, reason: Reason) {
        if reason == Reason::Unauthenticated {
            self.note_unproved(turn.now, &frame);
        }
        if let Some(gauge) = self.core.gauge(frame.port) {
            gauge.turned_away += 1;
        }
        self.drop(turn, frame, reason);
    }

    /// A packet counts as that of somebody unknown: by its key, or since it has none.
    #[cold]
    pub(super) fn note_unproved(&mut self, now: u64, frame: &Frame) {
        let key =
            anep::Packet::new_checked(frame.bytes()).ok().and_then(|packet| Repr::of(&packet)).map(|proof| proof.key);
        let Some(proofs) = self.control.proofs.as_deref_mut() else { return };
        if let Some(gauge) = self.core.gauge(frame.port).filter(|_| key.is_some()) {
            gauge.unknown_keys += 1;
        }
        let topology = &self.core.topology;
        let peer = topology.neighbours.of_peer(frame.port, frame.peer).map(|(_, known)| known.addr);
        // On a link everybody may say anything; there a key is a source.
        let source = peer.unwrap_or_else(|| Addr(u128::from(key.unwrap_or(0)).to_be_bytes()));
        let demanded = proofs.demands(frame.port).mac;
        let said = if key.is_some() { &mut proofs.unproved.unknown } else { &mut proofs.unproved.without };
        if !said.is_news(now, (frame.port, source)) {
            return;
        }
        let port = topology.port(frame.port).map_or("?", |port| &port.name);
        let neighbour = peer.map_or_else(|| "somebody on the link".to_owned(), |addr| format!("neighbour {addr}"));
        let counts = if demanded { "" } else { "; what it sends counts as anybody's" };
        match key {
            Some(key) => {
                tracing::warn!(node = self.core.name, "{neighbour}: key {key:08x} is not one of port {port}'s{counts}")
            }
            None => {
                tracing::warn!(
                    node = self.core.name,
                    "{neighbour}: what it sends has no proof, which port {port} demands"
                )
            }
        }
    }
}
