//! The kernel half's table of neighbours: those of the node, by number.

use super::half::{KernelHalf, State};
use crate::wire::Addr;
use std::io;

impl KernelHalf {
    /// Neighbours that were known to a process that has gone, with the port each is behind. They count as told.
    pub fn adopted_neighbours(&self) -> io::Result<Vec<(u32, Addr)>> {
        let mut found = self.maps.neighbours()?;
        found.sort_unstable_by_key(|(.., number)| *number);
        let mut state = self.state();
        for (addr, interface, _) in found {
            match state.ports.iter().find(|attached| attached.port.interface == interface) {
                Some(attached) => {
                    let known = (attached.port.number, addr);
                    state.neighbours.push(known);
                }
                None => self.maps.set_neighbour_place(addr, interface, None)?,
            }
        }
        Ok(state.neighbours.clone())
    }

    /// Tells who the neighbours are, each with the port it is behind, in the order of their numbers.
    pub fn set_neighbours(&self, now: Vec<(u32, Addr)>) -> io::Result<()> {
        let mut state = self.state();
        let before = core::mem::take(&mut state.neighbours);
        // Those gone first: two neighbours may share a place.
        for (port, addr) in before.iter().filter(|known| !now.contains(known)) {
            self.set_neighbour_place(&state, *port, *addr, None)?;
        }
        for (number, (port, addr)) in (0..).zip(&now) {
            self.maps.set_neighbour(number, *addr)?;
            self.set_neighbour_place(&state, *port, *addr, Some(number))?;
        }
        for number in now.len() as u32..state.told {
            self.maps.set_neighbour(number, Addr::UNSPECIFIED)?;
        }
        state.told = now.len() as u32;
        state.neighbours = now;
        self.renew(&mut state)
    }

    /// The neighbours of which capsules have come here since this was asked last, each with its port.
    pub fn heard(&self) -> io::Result<Vec<(u32, Addr)>> {
        let state = self.state();
        let mut heard = Vec::new();
        for (port, addr) in &state.neighbours {
            if let Some(interface) = state.interface(*port)
                && self.maps.take_heard(*addr, interface)?
            {
                heard.push((*port, *addr));
            }
        }
        Ok(heard)
    }

    fn set_neighbour_place(&self, state: &State, port: u32, addr: Addr, number: Option<u32>) -> io::Result<()> {
        state.interface(port).map_or(Ok(()), |interface| self.maps.set_neighbour_place(addr, interface, number))
    }
}
