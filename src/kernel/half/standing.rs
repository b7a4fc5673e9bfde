//! How the ingress comes to stand before interfaces, and stays with a port when its interface changes.

use super::{Attached, KernelHalf};
use crate::contract::PORTS;
use crate::kernel::maps::PortEntry;
use crate::kernel::own;
use crate::kernel::pins::PinnedLink;
use crate::kernel::redirects::without_room;
use crate::sys::bpf::{Link, XdpMode};
use crate::sys::ethtool;
use std::io;

impl KernelHalf {
    /// Puts the ingress before an interface, in its driver or else in the stack, or takes over what stands there of a
    /// process before this one, whose program serves on until all is settled. Never takes another program's place.
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
        let attached = match self.stand(port.interface, state.settled) {
            Ok((link, mode, why)) => {
                let name = ethtool::name(port.interface).unwrap_or_default();
                let lost_before = without_room(&name);
                Attached { port, mode, why, name, lost_before, link }
            }
            Err(error) => {
                self.maps.remove_port(port.interface)?;
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

    /// The interface of a port has changed, or is another one. Says whether the ingress stands before it now; where it did not before
    /// it does not come.
    pub fn follow(&self, port: PortEntry) -> io::Result<bool> {
        let mut state = self.state();
        let Some(at) = state.ports.iter().position(|attached| attached.port.number == port.number) else {
            return Ok(false);
        };
        let before = state.ports[at].port.interface;
        if before == port.interface {
            state.ports[at].port = port;
            self.tell_ports(&state)?;
            return self.renew(&mut state).map(|()| true);
        }
        state.ports.remove(at);
        drop(state);
        self.maps.remove_port(before)?;
        if let Some(pinned) = &self.pinned {
            let links = pinned.pins.links()?.into_iter().filter(|link| link.interface == before);
            links.into_iter().try_for_each(PinnedLink::remove)?;
        }
        self.attach(port)?;
        // Each is behind an interface.
        let neighbours = self.state().neighbours.clone();
        self.set_neighbours(neighbours).map(|()| true)
    }

    fn stand(&self, interface: u32, settled: bool) -> io::Result<(Link, XdpMode, Option<String>)> {
        let links = self.pinned.as_ref().map_or(Ok(Vec::new()), |pinned| pinned.pins.links())?;
        for pinned in links.into_iter().filter(|pinned| pinned.interface == interface) {
            match pinned.link.target()? {
                (at, program) if at == interface => {
                    if settled && program != self.ingress.info()?.id {
                        pinned.link.update(&self.ingress)?;
                    }
                    return Ok((pinned.link, pinned.mode, None));
                }
                // Its interface has gone, and another has the number now.
                _ => pinned.remove()?,
            }
        }
        let (link, mode, why) = self.stand_anew(interface)?;
        if let Some(pinned) = &self.pinned {
            pinned.pins.keep_link(interface, mode, &link)?;
        }
        Ok((link, mode, why))
    }

    fn stand_anew(&self, interface: u32) -> io::Result<(Link, XdpMode, Option<String>)> {
        match own::attach(&self.ingress, interface, XdpMode::Native) {
            Ok(link) => Ok((link, XdpMode::Native, None)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => Err(io::Error::new(
                error.kind(),
                "another XDP program stands at the interface and is left there; see: ip link show",
            )),
            Err(error) => {
                let why = format!("the driver takes no XDP program here: {error}");
                Ok((own::attach(&self.ingress, interface, XdpMode::Generic)?, XdpMode::Generic, Some(why)))
            }
        }
    }
}
