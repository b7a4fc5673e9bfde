//! AF_XDP sockets of an interface that was deleted and made again.
//!
//! A socket is bound to an interface by its number, so a new interface of the same name needs new sockets. They have
//! memory of their own, apart from the first common one: sockets that share memory are opened through one that is open
//! already, and those are with the worker. The memory of the old ones goes with them. Numbers of sockets, and with them
//! tickets and counters, stay.

use super::{Copying, Layout, QueueSocket, Report, Wanted, connect, explain, without};
use crate::config::{XdpFile, XdpMode};
use crate::sys::ethtool;
use crate::sys::xsk::XskSocket;
use std::sync::Arc;

/// Opens sockets anew.
pub struct Again {
    file: XdpFile,
    ports: Vec<Wanted>,
    /// Bytes of the largest MTU of a port with sockets.
    largest: usize,
    report: Arc<Report>,
}

impl Again {
    pub(super) fn new(file: XdpFile, ports: Vec<Wanted>, largest: usize, report: Arc<Report>) -> Again {
        Again { file, ports, largest, report }
    }

    /// The sockets of a port whose interface is another one now, before which its program stands already. Those of the one before must be
    /// closed. Nothing: it has none, and the log says why if it had some.
    pub fn open(&self, number: usize, interface: u32) -> Option<Vec<QueueSocket>> {
        let before = self.ports.iter().find(|port| port.number == number)?;
        match self.try_open(before, interface) {
            Ok(queues) => Some(queues),
            Err(why) => {
                self.report.renew((without(number, &before.name, before.queues, &why), None));
                None
            }
        }
    }

    fn try_open(&self, before: &Wanted, interface: u32) -> Result<Vec<QueueSocket>, String> {
        let name = ethtool::name(interface).map_err(|error| error.to_string())?;
        let queues = ethtool::queues(&name).map_err(|error| format!("its queues cannot be counted: {error}"))?;
        let sockets = before.sockets.min(queues);
        let senders = before.senders.min(sockets);
        let port = Wanted { interface, queues, sockets, senders, before: 0, ..before.clone() };
        let sockets = self.sockets(&port)?;
        let (queues, entry) = connect(&self.file, &port, sockets).map_err(|error| error.to_string())?;
        self.report.renew(entry);
        Ok(queues)
    }

    fn sockets(&self, port: &Wanted) -> Result<Vec<XskSocket>, String> {
        let frames = self.file.frames_per_queue;
        let open = |copying| {
            let layout = Layout::new(std::slice::from_ref(port), self.largest, frames)?;
            layout.open(port, 0, None, copying, self.file.busy_poll_us)
        };
        let done = match self.file.mode {
            XdpMode::Copy => open(Copying::Copy),
            XdpMode::ZeroCopy => open(Copying::ZeroCopy),
            XdpMode::Auto => open(Copying::ZeroCopy).or_else(|_| open(Copying::Copy)),
        };
        done.map_err(|error| explain(&error))
    }
}
