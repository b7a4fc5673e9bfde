//! Ports that come and go by another configuration, as whoever follows interfaces sees them.
//!
//! One that comes waits first, as one does whose interface is not there: then it is looked for, found, and served in the
//! same way as any that comes later (`links`). One that goes has nothing before its interface any more when its sockets
//! are closed.

use super::{Follower, SeenPort, interface_of};
use crate::config::NodeFile;
use crate::config::places::Move;
use crate::frame::PortId;
use crate::port::{NativeInterface, Opening};
use crate::sys::ethtool;
use anyhow::Result;

impl Follower {
    /// Ports at these places go, or are opened otherwise: nothing takes frames for them any more. An error: the node is gone.
    pub fn leave(&mut self, moves: &[Move]) -> Result<()> {
        let mut names = Vec::new();
        for moved in moves.iter().filter(|moved| moved.opens) {
            let at = usize::from(moved.port.0);
            let Some(Opening::Native(_)) = self.plans.get(at).map(|plan| &plan.opening) else { continue };
            let before = interface_of(&self.plans[at]);
            if before != 0 {
                names.extend(ethtool::name(before));
                self.stand_back(at, before)?;
            }
            if let Opening::Native(interface) = &mut self.plans[at].opening {
                interface.index = 0;
            }
            self.links.remove(moved.port);
            if let Some(again) = &mut self.again {
                again.forget(at);
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        self.wait_for_workers()?;
        if let Err(error) = self.settings.give_back(|_, of| names.iter().any(|name| name == of)) {
            tracing::warn!(%error, "an interface that is no port any more keeps settings of the node's: ethtool -k shows them");
        }
        Ok(())
    }

    /// What these places have in another configuration: native ports wait.
    pub(super) fn enter(&mut self, file: &NodeFile, moves: &[Move]) -> Result<()> {
        if moves.is_empty() {
            return Ok(());
        }
        self.begin();
        for moved in moves {
            let (at, (port, plan)) = (usize::from(moved.port.0), file.waiting(moved.port)?);
            let native = plan.opening.interface().copied();
            if at >= self.plans.len() {
                self.seen.ports.push(SeenPort::new(port.mtu));
                self.config.ports.push(port);
                self.plans.push(plan);
            } else if moved.opens {
                self.seen.ports[at] = SeenPort::new(port.mtu);
                (self.config.ports[at], self.plans[at]) = (port, plan);
            } else if native.is_none() {
                self.config.ports[at] = port;
            }
            if let (true, Some(native)) = (moved.opens, native) {
                self.expect(moved.port, file, native);
            }
        }
        Ok(())
    }

    /// A native port waits for its interface.
    fn expect(&mut self, port: PortId, file: &NodeFile, native: NativeInterface) {
        let at = usize::from(port.0);
        let Some(interface) = file.ports[at].packet.as_ref() else { return };
        self.links.add(port, interface, false);
        if let (true, Some(again)) = (native.xdp, &mut self.again) {
            again.expect(at, &self.config.ports[at].name);
        }
    }
}
