//! How the ingress comes to stand before interfaces, and stays with a port when its interface changes.

use super::{Attached, KernelHalf, State};
use crate::contract::PORTS;
use crate::kernel::maps::PortEntry;
use crate::kernel::own;
use crate::kernel::pins::PinnedLink;
use crate::kernel::redirects::without_room;
use crate::sys::bpf::{Link, XdpMode};
use crate::sys::ethtool;
use std::io;

/// A link, how it stands, why not in the driver, and the program behind it.
type Stands = (Link, XdpMode, Option<String>, Option<String>);

impl KernelHalf {
    /// Puts the ingress before an interface, in its driver or else in the stack, or takes over what stands there of a
    /// process before this one, whose program serves on until all is settled. One that stands there has what is not the node's, or is
    /// left there.
    pub fn attach(&self, port: PortEntry) -> io::Result<XdpMode> {
        if port.interface >= PORTS {
            return Err(io::Error::other(format!(
                "interface index {} is beyond the {PORTS} that the kernel half knows",
                port.interface
            )));
        }
        let mut state = self.state();
        if self.maps.port_number(port.interface)? != Some(port.number) {
            // Sets of links go by numbers.
            self.forget_links(&mut state)?;
        }
        self.maps.set_port(&port, false)?;
        self.set_way_out(&state, port.interface)?;
        let attached = match self.stand(port.interface, &mut state) {
            Ok((link, mode, why, behind)) => {
                state.found.extend(behind.clone().map(|name| (port.interface, name)));
                let name = ethtool::name(port.interface).unwrap_or_default();
                let lost_before = without_room(&name);
                Attached { port, mode, why, behind, name, lost_before, link }
            }
            Err(error) => {
                self.maps.remove_port(port.interface)?;
                state.refused.retain(|(known, _)| *known != port.number);
                state.refused.push((port.number, error.to_string()));
                return Err(error);
            }
        };
        let mode = attached.mode;
        if let Some([seen, _]) = &state.seen
            && attached.link.target()?.1 == self.ingress.info()?.id
        {
            attached.link.update(seen)?;
        }
        // In the stack copies share their bytes.
        self.maps.set_port(&port, mode == XdpMode::Native)?;
        state.ports.push(attached);
        self.tell_ports(&state)?;
        self.renew(&mut state)?;
        Ok(mode)
    }

    /// The interface of a port has changed, or is another one. Says whether the ingress stands before it now: where it did not stand
    /// it comes only with another interface, if the port is to have it.
    pub fn follow(&self, port: PortEntry, comes: bool) -> io::Result<bool> {
        let mut state = self.state();
        let known = state.ports.iter_mut().find(|attached| attached.port.number == port.number);
        if let Some(attached) = known.filter(|attached| attached.port.interface == port.interface) {
            attached.port = port;
            self.tell_ports(&state)?;
            return self.renew(&mut state).map(|()| true);
        }
        drop(state);
        if !self.leave(port.number)? && !comes {
            return Ok(false);
        }
        self.attach(port)?;
        // Each is behind an interface.
        let neighbours = self.state().neighbours.clone();
        self.set_neighbours(neighbours).map(|()| true)
    }

    /// The interface of a port is gone; says whether the ingress stood before it.
    pub fn leave(&self, number: u32) -> io::Result<bool> {
        let mut state = self.state();
        let Some(at) = state.ports.iter().position(|attached| attached.port.number == number) else {
            return Ok(false);
        };
        let gone = state.ports.remove(at).port.interface;
        drop(state);
        self.maps.remove_port(gone)?;
        if let Some(pinned) = &self.pinned {
            let links = pinned.pins.links()?.into_iter().filter(|link| link.interface == gone);
            links.into_iter().try_for_each(PinnedLink::remove)?;
        }
        Ok(true)
    }

    fn stand(&self, interface: u32, state: &mut State) -> io::Result<Stands> {
        let (links, others) = state.standing.drain(..).partition(|pinned| pinned.interface == interface);
        state.standing = others;
        let links: Vec<PinnedLink> = links;
        for pinned in links {
            match pinned.link.target()? {
                (at, program) if at == interface => {
                    if state.settled && program != self.ingress.info()?.id {
                        pinned.link.update(&self.ingress)?;
                    }
                    return Ok((pinned.link, pinned.mode, None, state.found.get(&interface).cloned()));
                }
                // Its interface has gone, and another has the number now.
                _ => pinned.remove()?,
            }
        }
        let (link, mode, why, behind) = self.stand_anew(interface)?;
        if let Some(pinned) = &self.pinned {
            pinned.pins.keep_link(interface, mode, &link)?;
        }
        Ok((link, mode, why, behind))
    }

    fn stand_anew(&self, interface: u32) -> io::Result<Stands> {
        match self.put_ingress(interface, XdpMode::Native) {
            Ok((link, behind)) => Ok((link, XdpMode::Native, None, behind)),
            Err(error) if own::is_taken(&error) || error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(error) => {
                let why = format!("the driver takes no XDP program here: {error}");
                let (link, behind) = self.put_ingress(interface, XdpMode::Generic)?;
                Ok((link, XdpMode::Generic, Some(why), behind))
            }
        }
    }

    /// Puts the ingress before an interface, and before the program that stands there.
    fn put_ingress(&self, interface: u32, mode: XdpMode) -> io::Result<(Link, Option<String>)> {
        let pins = self.pinned.as_ref().map(|pinned| &pinned.pins);
        own::attach_before(&self.maps, pins, &self.ingress, interface, mode)
    }
}
