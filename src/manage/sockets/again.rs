//! AF_XDP sockets of an interface that was deleted and made again, or that comes later than the node.
//!
//! A socket is bound to an interface by its number, so a new interface of the same name needs new sockets. They have
//! memory of their own, apart from the first common one: sockets that share memory are opened through one that is open
//! already, and those are with the worker. The memory of the old ones goes with them. Numbers of sockets, and with them
//! tickets and counters, stay. A port that has waited, or whose interface has more queues now, gets the next ones that are free.

use super::{
    Copying, Layout, QueueSocket, Report, SOCKETS, Wanted, alone, check_mtu, connect, explain, waiting, without,
};
use crate::config::{XdpFile, XdpMode};
use crate::frame::WorkerId;
use crate::kernel::{KernelHalf, Steering};
use crate::sys::ethtool;
use crate::sys::xsk::XskSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens sockets anew.
pub struct Again {
    file: XdpFile,
    run_dir: PathBuf,
    ports: Vec<Wanted>,
    /// Number and name of ports whose interfaces have not been there yet.
    waiting: Vec<(usize, String)>,
    workers: WorkerId,
    /// What takes frames there: the kernel half where it stands, else a program for this alone.
    half: Option<Arc<KernelHalf>>,
    own: Option<Arc<Steering>>,
    report: Arc<Report>,
}

impl Again {
    pub(super) fn new(
        (file, run_dir): (XdpFile, &Path),
        (ports, waiting): (Vec<Wanted>, Vec<(usize, String)>),
        workers: WorkerId,
        (half, own): (Option<Arc<KernelHalf>>, Option<Arc<Steering>>),
        report: Arc<Report>,
    ) -> Again {
        Again { file, run_dir: run_dir.to_owned(), ports, waiting, workers, half, own, report }
    }

    /// What takes frames to sockets where no kernel half does, made if there is none yet; nothing: the log says why.
    pub fn steering(&mut self) -> Option<Arc<Steering>> {
        if self.own.is_none() {
            let made = alone(&self.run_dir)
                .and_then(|own| own.listen().map(|()| own).map_err(|error| error.to_string()))
                .inspect_err(|why| tracing::warn!(why, "no AF_XDP but behind the kernel half"));
            self.own = made.ok();
        }
        self.own.clone()
    }

    /// One more port is to have sockets, as soon as its interface is there.
    pub fn expect(&mut self, number: usize, name: &str) {
        self.waiting.push((number, name.to_owned()));
        self.report.add((waiting(number), None));
    }

    /// A port is there no more.
    pub fn forget(&mut self, number: usize) {
        self.ports.retain(|port| port.number != number);
        self.waiting.retain(|(waiting, _)| *waiting != number);
        self.report.remove(number);
    }

    /// The first of as many free numbers of sockets as there are in a row, up to `most`; and how many those are.
    fn free(&self, most: u32) -> (u32, u32) {
        let ends = self.ports.iter().map(|port| port.first + port.sockets);
        let room = |first: &u32| {
            let next = self.ports.iter().filter(|port| port.first + port.sockets > *first).map(|port| port.first).min();
            next.unwrap_or(SOCKETS).saturating_sub(*first).min(most)
        };
        let places = std::iter::once(0).chain(ends).map(|first| (first, room(&first)));
        places.max_by_key(|(first, room)| (*room, std::cmp::Reverse(*first))).unwrap_or_default()
    }

    /// The interface of a port is gone, with its sockets.
    pub fn leave(&self, number: usize) {
        self.report.renew((waiting(number), None));
    }

    /// The sockets of a port whose interface is another one now, before which its program stands already. Those of the one before must be
    /// closed. Packets have up to `mtu` bytes. Nothing: it has none, and the log says why if it was to have some.
    pub fn open(&mut self, number: usize, interface: u32, mtu: usize) -> Option<Vec<QueueSocket>> {
        let at = self.ports.iter().position(|port| port.number == number);
        let waited = self.waiting.iter().find(|(waiting, _)| *waiting == number).map(|(_, name)| name);
        let name = at.map(|at| &self.ports[at].name).or(waited)?.clone();
        let opened = self.wanted(at, number, &name, (interface, mtu)).and_then(|port| {
            let queues = self.try_open(&port, mtu)?;
            match at {
                None => self.ports.push(port),
                Some(at) if port.sockets > self.ports[at].sockets => self.ports[at] = port,
                Some(_) => {}
            }
            Ok(queues)
        });
        match opened {
            Ok(queues) => Some(queues),
            Err(why) => {
                self.report.renew((without(number, &name, 0, &why), None));
                None
            }
        }
    }

    /// What a port is to have, that was the one at `at` if it had some before.
    fn wanted(
        &self,
        at: Option<usize>,
        number: usize,
        name: &str,
        (interface, mtu): (u32, usize),
    ) -> Result<Wanted, String> {
        check_mtu(mtu)?;
        let device = ethtool::name(interface).map_err(|error| error.to_string())?;
        let queues = ethtool::queues(&device).map_err(|error| format!("its queues cannot be counted: {error}"))?;
        let behind = self.half.as_ref().filter(|half| half.interface(number as u32) == Some(interface));
        let steering = match (behind, &self.own) {
            (Some(half), _) => Arc::new(Steering::of(half.clone()).map_err(|error| error.to_string())?),
            (None, Some(own)) => own.clone(),
            (None, None) => return Err("no program takes frames there".into()),
        };
        let (first, sockets) = match at.map(|at| &self.ports[at]) {
            Some(before) if queues.min(self.file.queues_max) <= before.sockets => {
                (before.first, before.sockets.min(queues))
            }
            Some(before) => match self.free(queues.min(self.file.queues_max)) {
                (first, sockets) if sockets > before.sockets => (first, sockets),
                _ => (before.first, before.sockets),
            },
            None => self.free(queues.min(self.file.queues_max)),
        };
        let senders = sockets.min(self.workers.into());
        Ok(Wanted { number, name: name.into(), interface, steering, queues, sockets, senders, first, before: 0 })
    }

    fn try_open(&self, port: &Wanted, mtu: usize) -> Result<Vec<QueueSocket>, String> {
        let sockets = self.sockets(port, mtu)?;
        let (queues, entry) = connect(&self.file, port, sockets).map_err(|error| error.to_string())?;
        self.report.renew(entry);
        Ok(queues)
    }

    fn sockets(&self, port: &Wanted, mtu: usize) -> Result<Vec<XskSocket>, String> {
        let frames = self.file.frames_per_queue;
        let open = |copying| {
            let layout = Layout::new(std::slice::from_ref(port), mtu, frames)?;
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
