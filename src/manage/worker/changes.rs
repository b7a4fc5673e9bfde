//! Changes of ports' sockets: the worker wishes, the [`Opener`](crate::manage::ports::Opener) opens, the worker takes
//! the open sockets.

use super::{PORTS, Worker};
use crate::frame::PortId;
use crate::port::packet::Change;
use crate::port::xdp::QueueSocket;

impl Worker {
    /// A port has another interface. Until its sockets are open it has none there.
    #[cold]
    pub(super) fn reopen(&mut self, id: PortId, interface: u32, program: bool) {
        let at = usize::from(id.0);
        let (Some(port), Some(opener)) = (self.around.ports.get_mut(at), &self.around.opener) else { return };
        opener.reopen(id, interface, program);
        if let Err(error) = port.leave_interface(&mut self.poll, PORTS + at as u64) {
            tracing::error!(port = at, %error, "sockets of a port are not waited for");
        }
    }

    /// Something is open for a port.
    #[cold]
    pub(super) fn change(&mut self, id: PortId, change: Change) {
        let at = usize::from(id.0);
        let (Some(port), Some(opener)) = (self.around.ports.get_mut(at), &self.around.opener) else { return };
        match port.change(change, &mut self.poll, PORTS + at as u64) {
            Ok(before) => before.into_iter().for_each(|before| opener.close(before)),
            Err(error) => tracing::error!(port = at, %error, "sockets of a port are not waited for"),
        }
    }

    /// AF_XDP sockets are open for a port.
    #[cold]
    pub(super) fn take_sockets(&mut self, id: PortId, sockets: Vec<QueueSocket>) {
        let at = usize::from(id.0);
        let Some(port) = self.around.ports.get_mut(at) else { return };
        if let Err(error) = port.take_sockets(sockets, &mut self.poll, PORTS + at as u64) {
            tracing::error!(port = at, %error, "AF_XDP sockets of a port are not waited for");
        }
    }
}
