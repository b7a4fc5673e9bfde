//! Redirected frames that would not arrive: avoided beforehand, and counted if lost.
//!
//! A driver says whether its interface takes redirected frames, and the watcher of the host tells it here
//! ([`super::PortEntry`]). If not, programs find no way and the user half sends. Frames can still be lost, because
//! something changed a moment ago or the other end is full. Refusals of the kernel pass a tracepoint
//! (`bpf/refused.bpf.c`); frames without room in the driver are among its own statistics.

use super::half::{KernelHalf, State};
use super::maps::PortEntry;
use super::own;
use crate::broker::Place;
use crate::contract::refused;
use crate::sys::bpf::{Link, Map, MapKind, MapShape, XdpMode};
use crate::sys::ethtool;
use std::io;
use std::os::fd::AsFd;

pub(super) static REFUSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/refused.bpf.o"));

/// The map.
pub(super) const LAYOUT: (&str, MapShape) =
    ("refused_map", MapShape { kind: MapKind::Array, key: 4, value: refused::SIZE, entries: 1 });

/// Counts redirects by a map that the kernel refuses, as long as it is there.
#[derive(Debug)]
pub(super) struct Refused {
    counter: Map,
    _link: Link,
}

impl Refused {
    /// Begins to count those by `map`.
    pub fn count(map: &Map) -> io::Result<Refused> {
        let counter = own::map(LAYOUT.0, LAYOUT.1)?;
        let program = own::load("refused", |_| Ok(counter.as_fd()))?;
        let mut value = [0; refused::SIZE];
        refused::MAP.put(&mut value, u64::from(map.id()?).to_ne_bytes());
        counter.set(&[0; 4], &value)?;
        Ok(Refused { _link: own::attach_at(&program, 0, Place::Refusals)?, counter })
    }

    /// Frames so far.
    pub fn frames(&self) -> u64 {
        let mut value = [0; refused::SIZE];
        match self.counter.get(&[0; 4], &mut value) {
            Ok(_) => u64::from_ne_bytes(refused::FRAMES.of(&value)),
            Err(_) => 0,
        }
    }
}

/// What a driver says of redirected frames that it had no room for; 0 if it says nothing.
pub(super) fn without_room(interface: &str) -> u64 {
    let counts = ethtool::statistics(interface).unwrap_or_default();
    counts.iter().filter(|(name, _)| is_of_redirects(name)).map(|(_, count)| count).sum()
}

/// Drivers name such statistics as they like: `tx_queue_0_xdp_xmit_errors` (veth), `tx0_xdp_tx_drops` (virtio), `tx_xdp_full` (mlx5).
fn is_of_redirects(name: &str) -> bool {
    let has = |part: &str| name.contains(part);
    has("xdp") && (has("xmit") || name.starts_with("tx")) && (has("err") || has("drop") || has("full"))
}

impl KernelHalf {
    /// Tells programs by which interfaces they may redirect. Where all programs stand in the stack a redirect is an ordinary frame.
    pub(super) fn tell_ports(&self, state: &State) -> io::Result<()> {
        let in_driver = state.ports.iter().any(|attached| attached.mode == XdpMode::Native);
        state.ports.iter().map(|attached| attached.port).try_for_each(|port| {
            let redirected = if in_driver { port.redirected } else { u32::MAX };
            self.maps.change_port(&PortEntry { redirected, ..port })
        })
    }

    /// Frames that were redirected and did not arrive, as far as this host can tell.
    pub(super) fn undelivered(&self, state: &State) -> u64 {
        let refused = self.refused.as_ref().map_or(0, Refused::frames);
        let lost = state.ports.iter().map(|attached| without_room(&attached.name).saturating_sub(attached.lost_before));
        refused + lost.sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::is_of_redirects;

    #[test]
    fn statistics_of_redirects_are_known_by_their_names() {
        for name in ["tx_queue_0_xdp_xmit_errors", "tx0_xdp_tx_drops", "tx_xdp_full", "tx_xdp_err"] {
            assert!(is_of_redirects(name), "{name}");
        }
        for name in ["rx_queue_0_xdp_drops", "tx_queue_0_xdp_xmit", "rx_queue_0_xdp_tx_errors", "tx_dropped"] {
            assert!(!is_of_redirects(name), "{name}");
        }
    }
}
