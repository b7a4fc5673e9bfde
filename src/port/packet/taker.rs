//! The frame sources of a native port: rules, programs before the Linux stack, and sockets.
//!
//! Whoever opens these may wait: for the kernel's verifier, for drivers, for the broker. So they are opened by a thread
//! that moves no packets and handed to the port that receives by them.

use crate::broker;
use crate::classify::rule::Rule;
use crate::frame::PortId;
use crate::frame::WorkerId;
use crate::kernel::{Filters, Which};
use crate::sys::bpf::{Link, Program};
use crate::sys::discovery::DiscoverySocket;
use crate::sys::packet::{PacketSocket, Room};
use crate::wire::ethernet::ethertype;
use std::io;

/// `ETH_P_ALL`: frames of every Ethernet type.
const ALL: u16 = 3;

/// By what a port receives: as long as they are there, so is what stands before the Linux stack for them.
pub struct Sockets {
    /// The one that sends.
    pub(super) main: PacketSocket,
    pub(super) before: Before,
}

/// What stands before the Linux stack.
pub(super) enum Before {
    /// The guard.
    Guard { _link: Link },
    /// What the first worker has: this is another one's. Behind a program its frames have the type of what came up, too.
    First { program: bool },
    /// An XDP program of the node's.
    Program { arp: PacketSocket, discovery: Option<DiscoverySocket>, channels: Option<Channels> },
}

/// What takes packets of channels.
pub struct Channels {
    pub(super) socket: PacketSocket,
    _guard: Link,
}

/// What a port receives by otherwise from now on.
pub enum Change {
    /// Everything.
    Interface(Sockets),
    /// What takes packets of channels.
    Channels(Option<Channels>),
}

/// What takes frames of one interface.
pub struct Taker {
    filters: Filters,
    id: PortId,
    interface: u32,
    longest: usize,
    behind_program: bool,
    /// How many share the frames.
    workers: WorkerId,
    /// Whether there is what takes packets of channels alone.
    channels: bool,
}

impl Taker {
    /// For the port `id` on the interface with this index, and frames of up to `longest` bytes; behind an XDP program
    /// of the node's or not.
    pub(super) fn open(
        id: PortId,
        interface: u32,
        longest: usize,
        behind_program: bool,
        workers: WorkerId,
    ) -> io::Result<(Taker, Vec<Sockets>)> {
        let filters = Filters::create()?;
        let mut taker = Taker { filters, id, interface, longest, behind_program, workers, channels: false };
        let all = taker.sockets()?;
        Ok((taker, all))
    }

    /// The port.
    pub fn port(&self) -> PortId {
        self.id
    }

    /// The interface's index.
    pub fn interface(&self) -> u32 {
        self.interface
    }

    /// Whether packets of channels are taken.
    pub fn has_channels(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Takes frames of another interface instead; channels stay. What each worker has then.
    pub fn reopen(&mut self, interface: u32, behind_program: bool) -> io::Result<Vec<Change>> {
        (self.interface, self.behind_program, self.channels) = (interface, behind_program, false);
        let mut all = self.sockets()?;
        if self.has_channels()
            && let Some(Sockets { before: Before::Program { channels, .. }, .. }) = all.first_mut()
        {
            *channels = Some(self.channels()?);
            self.channels = true;
        }
        Ok(all.into_iter().map(Change::Interface).collect())
    }

    /// Takes packets of a channel too, or does not any more; `tell` is told if that takes other sockets than before. Of
    /// what is new nothing takes a frame until it knows a filter, so none is seen by guard or socket alone.
    pub fn take_for(&mut self, filter: &Rule, exists: bool, mut tell: impl FnMut(Change)) -> io::Result<()> {
        if filter.port.is_some_and(|port| port != self.id) {
            return Ok(());
        }
        if exists && self.behind_program && !self.channels {
            tell(Change::Channels(Some(self.channels()?)));
            self.channels = true;
        }
        let done = self.filters.change(filter, exists);
        if self.channels && self.filters.is_empty() {
            self.channels = false;
            tell(Change::Channels(None));
        }
        done
    }

    /// Takes nothing any more, and leaves all that comes to the Linux stack; what has come is still there to be received.
    pub fn stop(&mut self) -> io::Result<()> {
        self.filters.listen(false)
    }

    /// The sockets of each worker, the first with what stands before the Linux stack.
    fn sockets(&mut self) -> io::Result<Vec<Sockets>> {
        let (filters, interface, longest) = (&mut self.filters, self.interface, self.longest);
        let filter = filters.filter(Which::All)?;
        if self.behind_program {
            let arp = broker::packet(interface, ethertype::ARP, longest, Room::Little, Some(&filter), None)?;
            let discovery = broker::discovery(interface)?;
            let main = broker::packet(interface, ethertype::PASSED_UP, longest, Room::Much, None, None)?;
            let first = Sockets { main, before: Before::Program { arp, discovery, channels: None } };
            return self.with_others(first, ethertype::PASSED_UP, None);
        }
        // Both are there before either takes a frame: between the two a capsule would be lost, or doubled.
        filters.listen(false)?;
        let guard = filters.guard(interface, Which::All)?;
        let main = broker::packet(interface, ALL, longest, Room::Much, Some(&filter), None)?;
        let all = self.with_others(Sockets { main, before: Before::Guard { _link: guard } }, ALL, Some(&filter))?;
        self.filters.listen(true)?;
        Ok(all)
    }

    /// The sockets of the first worker, and those of the others, each with the frames of its receive queues.
    fn with_others(&self, first: Sockets, kind: u16, filter: Option<&Program>) -> io::Result<Vec<Sockets>> {
        let (interface, longest) = (self.interface, self.longest);
        let mut all = vec![first];
        for _ in 1..self.workers {
            let beside = all.first().map(|first| &first.main);
            let main = broker::packet(interface, kind, longest, Room::Much, filter, beside)?;
            all.push(Sockets { main, before: Before::First { program: self.behind_program } });
        }
        Ok(all)
    }

    fn channels(&self) -> io::Result<Channels> {
        let guard = self.filters.guard(self.interface, Which::Channels)?;
        let filter = self.filters.filter(Which::Channels)?;
        let socket = broker::packet(self.interface, ALL, self.longest, Room::Much, Some(&filter), None)?;
        Ok(Channels { socket, _guard: guard })
    }
}
