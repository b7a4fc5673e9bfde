//! Replicas of frames: the way out of packets whose code sends children.
//!
//! A broadcast to a set of links makes replicas of one frame; each set has a map of its own, made when a packet wants
//! it. A program behind each entry makes each replica a packet (`bpf/egress.bpf.c`). The kernel has one such program
//! for all frames that wait for an interface, whatever map they came by. So while there is code that sends, it stands
//! behind the way out of all packets. While somebody captures another one stands in its place, which does the same and
//! tells of each copy ([`super::watch`]).

use super::half::KernelHalf;
use super::half::State;
use super::layout::SETS;
use super::maps::Maps;
use crate::contract::{LINK_BITS, LINKS, SENDS};
use crate::sys::bpf::Map;
use crate::wire::Digest;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::AsFd;

/// The name under which the program is pinned while it stands behind the ways out.
pub(super) const PIN: &str = "egress";

/// Who sends, and by which sets of links.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Whether the program stands behind the ways out.
    on: bool,
    senders: HashSet<Digest>,
    /// Oldest first.
    sets: VecDeque<Links>,
}

/// A set of links.
#[derive(Debug)]
struct Links {
    name: u64,
    /// The map of the kernel's, open so that what stands behind its entries can change (at most [`SETS`] are); and the interfaces in it.
    set: Map,
    interfaces: Vec<u32>,
}

impl Copies {
    /// Those of codes that a process before this one has left, if it was on: any of them may send.
    pub fn adopted(on: bool, codes: impl Iterator<Item = Digest>) -> Copies {
        let senders: HashSet<Digest> = if on { codes.collect() } else { HashSet::new() };
        Copies { on: !senders.is_empty(), senders, sets: VecDeque::new() }
    }
}

impl KernelHalf {
    /// Code sends, or does not, from now on. It must not run yet, or not any more.
    pub(super) fn set_sender(&self, name: &Digest, sends: bool) -> io::Result<()> {
        let mut state = self.state();
        let changed = if sends { state.copies.senders.insert(*name) } else { state.copies.senders.remove(name) };
        match (changed, sends, state.copies.on, state.copies.senders.is_empty()) {
            (true, true, false, _) => self.turn_on(&mut state),
            (true, false, true, true) => self.turn_off(&mut state),
            _ => Ok(()),
        }
    }

    fn turn_on(&self, state: &mut State) -> io::Result<()> {
        state.copies.on = true;
        self.set_ways_out(state)?;
        if let Some(pinned) = &self.pinned {
            pinned.set.keep(PIN, &self.egress)?;
        }
        // Frames that wait for an interface without the program behind them leave first.
        self.maps.wait()
    }

    fn turn_off(&self, state: &mut State) -> io::Result<()> {
        // Copies that are on their way leave first.
        self.maps.wait()?;
        state.copies.on = false;
        self.forget_links(state)?;
        self.set_ways_out(state)?;
        self.pinned.as_ref().map_or(Ok(()), |pinned| pinned.set.forget(PIN))
    }

    fn set_ways_out(&self, state: &State) -> io::Result<()> {
        state.interfaces().try_for_each(|interface| self.set_way_out(state, interface))
    }

    /// Lets capsules leave by an interface.
    pub(super) fn set_way_out(&self, state: &State, interface: u32) -> io::Result<()> {
        self.maps.set_way_out(interface, state.copies.on.then(|| self.behind(state).as_fd()))
    }

    /// What stands behind the ways out of copies has changed: puts it there. Where it cannot stand, the links are forgotten: packets want
    /// them anew.
    pub(super) fn turn_ways_out(&self, state: &mut State) -> io::Result<()> {
        if !state.copies.on {
            return Ok(());
        }
        let is_gone = |error: &io::Error| error.raw_os_error() == Some(libc::EINVAL);
        for interface in state.interfaces() {
            match self.set_way_out(state, interface) {
                // Nothing leaves by an interface that has gone.
                Err(error) if is_gone(&error) => {}
                done => done?,
            }
        }
        let mut sets = core::mem::take(&mut state.copies.sets);
        let behind = self.behind(state).as_fd();
        let turned = |links: &Links| Maps::fill_links(&links.set, &links.interfaces, behind);
        let lost: Vec<u64> = sets.iter().filter(|links| turned(links).is_err()).map(|links| links.name).collect();
        sets.retain(|links| !lost.contains(&links.name));
        state.copies.sets = sets;
        lost.into_iter().try_for_each(|name| self.maps.remove_links(name))
    }

    /// Forgets all sets of links: packets want them anew.
    pub(super) fn forget_links(&self, state: &mut State) -> io::Result<()> {
        state.copies.sets.clear();
        self.maps.links()?.into_iter().try_for_each(|name| self.maps.remove_links(name))
    }

    /// Packets want to leave by these links: lets them. The oldest set gives way if there are too many.
    pub fn add_links(&self, name: u64) -> io::Result<()> {
        let mut state = self.state();
        if !state.copies.on || state.copies.sets.iter().any(|links| links.name == name) {
            return Ok(());
        }
        let none = || io::Error::other(format!("no such links: {name:x}"));
        let mut interfaces = Vec::new();
        for port in 0..LINKS {
            let count = name >> (port * LINK_BITS) & ((1 << LINK_BITS) - 1);
            if count > 0 {
                let interface = state.interface(port).ok_or_else(none)?;
                interfaces.extend((0..count).map(|_| interface));
            }
        }
        if interfaces.is_empty() || interfaces.len() > SENDS as usize || name >> (LINKS * LINK_BITS) != 0 {
            return Err(none());
        }
        if state.copies.sets.len() as u32 + 1 >= SETS
            && let Some(oldest) = state.copies.sets.pop_front()
        {
            self.maps.remove_links(oldest.name)?;
        }
        let set = self.maps.set_links(name, &interfaces, self.behind(&state).as_fd())?;
        state.copies.sets.push_back(Links { name, set, interfaces });
        Ok(())
    }
}
