//! The frame sources of a native port: rules, programs before the Linux stack, and sockets.
//!
//! Whoever opens these may wait: for the kernel's verifier, for drivers, for the broker. So they are opened by a thread
//! that moves no packets and handed to the port that receives by them.

use crate::broker;
use crate::classify::filter::Watch;
use crate::classify::foreign::ForeignFlow;
use crate::classify::rule::Layer;
use crate::frame::PortId;
use crate::frame::WorkerId;
use crate::kernel::{Filters, ForeignFlows, Which};
use crate::sys::bpf::{Link, Program};
use crate::sys::discovery::DiscoverySocket;
use crate::sys::packet::{PacketSocket, Room};
use crate::wire::ethernet::ethertype;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

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
    /// Everything; nothing: its interface is not there, and it waits for it.
    Interface(Option<Sockets>),
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
    /// What knows of no channels, where no program of the node's stands before and none has come yet.
    plain: Option<Plain>,
    rooms: Rooms,
}

/// How many frames may wait in each socket of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Rooms {
    /// Those of what comes up, or of all that comes where no program of the node's stands.
    pub passed_up: Room,
    /// That of channels.
    pub channels: Room,
}

/// Guard and sockets once more, whose programs are changed when the first channel comes: those that know of channels take
/// the kernel's verifier long.
struct Plain {
    guard: Link,
    sockets: Vec<OwnedFd>,
}

impl Taker {
    /// For the port `id` on the interface with this index, which is 0 if it is not there yet, and frames of up to `longest`
    /// bytes; behind an XDP program of the node's or not.
    pub(super) fn open(
        id: PortId,
        interface: u32,
        longest: usize,
        behind_program: bool,
        (workers, rooms): (WorkerId, Rooms),
    ) -> io::Result<(Taker, Vec<Option<Sockets>>)> {
        let filters = Filters::create()?;
        let (channels, plain) = (false, None);
        let mut taker = Taker { filters, id, interface, longest, behind_program, workers, channels, plain, rooms };
        let all = taker.sockets_or_none()?;
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

    /// Flows of the port that are foreign: no rule over taught protocols can hold for them.
    pub fn foreign(&self) -> &Arc<ForeignFlows> {
        self.filters.foreign()
    }

    /// No rule over taught protocols can hold for this flow.
    pub fn learn(&self, flow: &ForeignFlow) -> io::Result<()> {
        self.filters.learn(flow)
    }

    /// Whether packets of channels are taken.
    pub fn has_channels(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Takes frames of another interface instead, or of none if its index is 0; channels stay. What each worker has then.
    /// Frames have up to `longest` bytes, or as many as before.
    pub fn reopen(&mut self, interface: u32, behind_program: bool, longest: usize) -> io::Result<Vec<Change>> {
        self.longest = self.longest.max(longest);
        // There may be no AF_XDP sockets any more.
        self.rooms.passed_up = self.rooms.channels;
        (self.interface, self.behind_program, self.channels) = (interface, behind_program, false);
        self.plain = None;
        let mut all = self.sockets_or_none()?;
        if self.has_channels()
            && let Some(Some(Sockets { before: Before::Program { channels, .. }, .. })) = all.first_mut()
        {
            *channels = Some(self.channels()?);
            self.channels = true;
        }
        Ok(all.into_iter().map(Change::Interface).collect())
    }

    /// Takes packets of a channel too, or does not any more; `tell` is told if that takes other sockets than before. Of
    /// what is new nothing takes a frame until it knows a filter, so none is seen by guard or socket alone.
    pub fn take_for(&mut self, watch: &Watch, exists: bool, mut tell: impl FnMut(Change)) -> io::Result<()> {
        let filter = &watch.rule;
        if filter.port.is_some_and(|port| port != self.id) {
            return Ok(());
        }
        if exists && self.behind_program && !self.channels && self.interface != 0 {
            tell(Change::Channels(Some(self.channels()?)));
            self.channels = true;
        }
        if exists && filter.layer != Layer::Anep {
            self.know_channels()?;
        }
        let done = self.filters.change(watch, exists);
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

    /// The sockets of each worker, or none while the interface is not there.
    fn sockets_or_none(&mut self) -> io::Result<Vec<Option<Sockets>>> {
        match self.interface {
            0 => Ok((0..self.workers).map(|_| None).collect()),
            _ => Ok(self.sockets()?.into_iter().map(Some).collect()),
        }
    }

    /// The sockets of each worker, the first with what stands before the Linux stack.
    fn sockets(&mut self) -> io::Result<Vec<Sockets>> {
        let (filters, interface, longest, room) =
            (&mut self.filters, self.interface, self.longest, self.rooms.passed_up);
        if self.behind_program {
            let filter = filters.filter(Which::Own)?;
            let arp = broker::packet(interface, ethertype::ARP, longest, Room::Little, Some(&filter), None)?;
            let discovery = broker::discovery(interface)?;
            let main = broker::packet(interface, ethertype::PASSED_UP, longest, room, None, None)?;
            let first = Sockets { main, before: Before::Program { arp, discovery, channels: None } };
            return self.with_others(first, ethertype::PASSED_UP, None);
        }
        // Both are there before either takes a frame: between the two a capsule would be lost, or doubled.
        filters.listen(false)?;
        let which = if filters.is_empty() { Which::Own } else { Which::All };
        let filter = filters.filter(which)?;
        let guard = filters.guard_at(interface, which)?;
        let again = guard.try_clone()?;
        let main = broker::packet(interface, ALL, longest, room, Some(&filter), None)?;
        let all = self.with_others(Sockets { main, before: Before::Guard { _link: guard } }, ALL, Some(&filter))?;
        self.filters.listen(true)?;
        if which == Which::Own {
            let sockets = all.iter().map(|it| it.main.as_fd().try_clone_to_owned()).collect::<io::Result<_>>()?;
            self.plain = Some(Plain { guard: again, sockets });
        }
        Ok(all)
    }

    /// Has guard and sockets know of channels from now on. There are none that they could see differently yet.
    fn know_channels(&mut self) -> io::Result<()> {
        let Some(Plain { guard, sockets }) = &self.plain else { return Ok(()) };
        guard.update(&self.filters.guard(Which::All)?)?;
        let filter = self.filters.filter(Which::All)?;
        sockets.iter().try_for_each(|socket| PacketSocket::set_filter(socket.as_fd(), &filter))?;
        self.plain = None;
        Ok(())
    }

    /// The sockets of the first worker, and those of the others, each with the frames of its receive queues.
    fn with_others(&self, first: Sockets, kind: u16, filter: Option<&Program>) -> io::Result<Vec<Sockets>> {
        let (interface, longest) = (self.interface, self.longest);
        let mut all = vec![first];
        for _ in 1..self.workers {
            let beside = all.first().map(|first| &first.main);
            let main = broker::packet(interface, kind, longest, self.rooms.passed_up, filter, beside)?;
            all.push(Sockets { main, before: Before::First { program: self.behind_program } });
        }
        Ok(all)
    }

    fn channels(&self) -> io::Result<Channels> {
        let guard = self.filters.guard_at(self.interface, Which::Channels)?;
        let filter = self.filters.filter(Which::Channels)?;
        let socket = broker::packet(self.interface, ALL, self.longest, self.rooms.channels, Some(&filter), None)?;
        Ok(Channels { socket, _guard: guard })
    }
}
