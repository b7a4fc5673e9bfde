//! Succession: a new process takes over the kernel half left by an earlier one, also by one of another version.
//!
//! A set of maps that fits this program is taken over as it is. One of other shapes, of another version of the program,
//! is not: a new set is made beside it, and the old one serves on, with its ingress, until all of the node is ready
//! ([`KernelHalf::settle`]). Then the new ingress takes its place at each interface in one step, and the old set goes.
//! What is worth keeping of it is inherited: when the node's clock began, which codes ran, and their soft state.

use super::half::{KernelHalf, Pinned};
use super::maps::{self, Maps};
use super::pins::{INGRESS, Pins, Set, state_of};
use crate::contract::node;
use crate::sys::bpf::{Map, MapKind, MapShape};
use crate::wire::Digest;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

/// The first version of the contract since which soft state means the same.
const SAME_STATE: u32 = 6;

/// What a kernel half begins with.
pub(super) struct Beginning {
    pub maps: Maps,
    /// Where they are pinned, or are to be.
    pub set: Option<Set>,
    pub is_new: bool,
    pub heritage: Heritage,
}

/// What a set of other shapes leaves.
#[derive(Debug, Default)]
pub(super) struct Heritage {
    /// When the node's clock began, in nanoseconds of the system's monotonic clock.
    pub origin: Option<u64>,
    /// The codes that ran, with their soft state if it means the same.
    pub codes: HashMap<Digest, Option<OwnedFd>>,
}

impl Beginning {
    /// The newest set that fits; else a new one, and what the newest one that was finished leaves.
    pub fn of(pins: Option<&Pins>) -> io::Result<Beginning> {
        let sets = pins.map_or(Ok(Vec::new()), Pins::sets)?;
        let heritage = sets.first().map(Heritage::of).transpose()?.unwrap_or_default();
        let fits = |set: Set| {
            let maps = Maps::adopt(|name| set.open(name)).ok()?;
            maps.node().ok()??;
            Some((set, maps))
        };
        if let Some((set, maps)) = sets.into_iter().find_map(fits) {
            return Ok(Beginning { maps, set: Some(set), is_new: false, heritage: Heritage::default() });
        }
        Ok(Beginning { maps: Maps::create()?, set: pins.map(Pins::create).transpose()?, is_new: true, heritage })
    }
}

impl Heritage {
    fn of(set: &Set) -> io::Result<Heritage> {
        let shape = MapShape { kind: MapKind::Array, key: 4, value: node::SIZE, entries: 1 };
        let map = set.open("node_map").and_then(|map| Map::adopt(map, shape)).ok();
        let known = map.map(|map| maps::said_of_node(&map)).transpose()?;
        let known = known.filter(|said| (SAME_STATE..=maps::VERSION).contains(&said.version));
        let state = |code: &Digest| known.and_then(|_| set.open(&state_of(code)).ok());
        let codes = set.states()?.map(|code| (code, state(&code))).collect();
        Ok(Heritage { origin: known.map(|said| said.origin), codes })
    }
}

/// Pins the maps of a new set. It counts once its ingress is pinned too.
pub(super) fn set_up(set: &Set, maps: &Maps) -> io::Result<()> {
    maps.lasting().try_for_each(|(name, map)| set.keep(name, map))
}

impl KernelHalf {
    /// All ports have been attached, and whoever takes what is not for the kernel half is there: where an ingress of a
    /// process before this one stands this one takes its place, and what older processes left and nobody took over
    /// goes.
    pub fn settle(&self) -> io::Result<()> {
        let Some(Pinned { pins, set }) = &self.pinned else { return Ok(()) };
        let mut state = self.state();
        // From now on it is whole: whatever ends this process, the next one finds it.
        set.keep(INGRESS, &self.ingress)?;
        let front = self.front(&state);
        let own = front.info()?.id;
        for attached in &state.ports {
            if attached.link.target()?.1 != own {
                attached.link.update(front)?;
            }
        }
        state.settled = true;
        state.standing.clear();
        let stands = |interface| state.ports.iter().any(|attached| attached.port.interface == interface);
        for gone in pins.links()?.into_iter().filter(|link| !stands(link.interface)) {
            self.maps.remove_port(gone.interface)?;
            gone.remove()?;
        }
        drop(state);
        self.raise_generation()?;
        pins.retain(set)
    }
}
