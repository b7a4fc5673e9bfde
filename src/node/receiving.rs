//! Who has sent a received frame, who pays for it, and whether it is let in.

use super::Cx;
use super::batch::Seen;
use super::environment::PacketKind;
use super::output::{EventKind, Turn};
use crate::abi::NONE;
use crate::classify::Class;
use crate::code::fetch::Source;
use crate::core::reason::Reason;
use crate::frame::{Frame, PeerId, PortId};
use crate::topology::Neighbour;
use crate::wire::{Addr, anep};
use core::ops::Range;

/// A packet that has been let in and begins its frame.
pub(super) struct Admitted {
    pub kind: PacketKind,
    /// Bytes of its ANEP header, if it has one.
    pub header: usize,
    /// Whether a node drops it to which its kind means nothing.
    pub discard: bool,
}

/// What an ANEP header says, read once.
struct AnepHead {
    /// Where it begins in its frame.
    start: usize,
    kind: u16,
    /// Its bytes, and those of the whole packet.
    header: usize,
    length: usize,
    discard: bool,
}

impl AnepHead {
    #[inline(always)]
    fn read(bytes: &[u8], range: Range<usize>) -> Option<AnepHead> {
        let start = range.start;
        let packet = anep::Packet::new_checked(bytes.get(range)?).ok()?;
        let (kind, discard) = (packet.type_id(), packet.discard_if_unknown());
        Some(AnepHead { start, kind, header: packet.header_len(), length: packet.bytes().len(), discard })
    }
}

impl Cx {
    #[inline(always)]
    pub(super) fn count_received(&mut self, frame: &Frame) {
        if let Some(gauge) = self.core.gauge(frame.port) {
            gauge.received += 1;
            gauge.received_bytes += frame.len() as u64;
        }
    }

    /// A frame that came in by a port has found whoever does something with it.
    #[inline(always)]
    pub(super) fn count_taken(&mut self, port: PortId) {
        if let Some(gauge) = self.core.gauge(port) {
            gauge.taken += 1;
        }
    }

    /// A frame has come in that is neither a packet of an environment nor a channel's.
    #[inline(always)]
    pub(super) fn take_in_other(&mut self, turn: &mut Turn<'_>, mut frame: Frame, seen: &Seen) {
        frame.authenticated = false;
        match seen {
            Seen::Class(Err(_)) if self.order.entry.admit(&mut frame, turn.now, self.order.paths.waiting()) => {
                self.turn_away(turn, frame, Reason::MalformedPacket);
            }
            Seen::Class(Err(_)) => self.turn_away(turn, frame, Reason::EntryShare),
            Seen::Nowhere => {
                self.core.ledger.unseen += 1;
                self.drop(turn, frame, Reason::NoPort);
            }
            Seen::Class(Ok(Class::NotOurs(Some(_)))) if self.graphs.channels.demux.is_crowded() => {
                // The kernel may have been in doubt whose it is: it need not be any more.
                self.tell_foreign(turn, &frame);
                self.leave_alone(turn, frame);
            }
            _ => self.leave_alone(turn, frame),
        }
    }

    /// A frame has come up from the kernel half. It cannot be refused: its code has run.
    #[inline]
    pub(super) fn let_in_punt(&mut self, frame: &mut Frame) -> Admitted {
        frame.authenticated = false;
        self.order.entry.note(frame);
        Admitted { kind: PacketKind::Punt, header: 0, discard: true }
    }

    /// A frame is the Linux stack's, which has it already.
    pub(super) fn leave_alone(&mut self, turn: &mut Turn<'_>, frame: Frame) {
        if let Some(gauge) = self.core.gauge(frame.port) {
            gauge.not_ours += 1;
        }
        // Whoever sent it is nobody's to charge, and least of all of those before it.
        self.order.entry.end_run(turn.now);
        self.pay(turn.now);
        turn.out.pool.give(frame);
    }

    /// Lets an ANEP packet in, if its sender has a share left for it and the port's ceiling room. Who has sent it is found
    /// out before anybody is charged: a forged proof is at the expense of the port's strangers.
    #[inline(always)]
    pub(super) fn let_in(
        &mut self,
        turn: &mut Turn<'_>,
        frame: &mut Frame,
        range: Range<usize>,
    ) -> Result<Admitted, Reason> {
        let (now, port) = (turn.now, frame.port);
        // What another node has found out about the frame says nothing here.
        frame.authenticated = false;
        let mut head = AnepHead::read(frame.bytes(), range);
        let proved = if self.control.proofs.is_some() { self.find_sender(now, frame, &mut head) } else { Ok(()) };
        if !self.order.entry.admit(frame, now, self.order.paths.waiting()) {
            return Err(Reason::EntryShare);
        }
        proved?;
        if self.core.ingress[usize::from(port.0)].as_mut().is_some_and(|ceiling| !ceiling.take(now, 1)) {
            return Err(Reason::IngressRate);
        }
        turn.out.event(frame.trace, EventKind::Received(port));
        let Some(AnepHead { start, kind, header, length, discard }) = head else { return Err(Reason::MalformedAnep) };
        frame.truncate(start + length);
        frame.strip(start);
        if header > anep::HEADER && !options_are_good(frame, header) {
            return Err(Reason::MalformedAnep);
        }
        self.graphs.channels.count_came(kind, length);
        Ok(Admitted { kind: PacketKind::Anep(kind), header, discard })
    }

    /// Finds out who has sent an ANEP packet, as far as the sender proves it: it begins its frame then, without the proof.
    fn find_sender(&mut self, now: u64, frame: &mut Frame, head: &mut Option<AnepHead>) -> Result<(), Reason> {
        let head = head.as_mut().ok_or(Reason::MalformedAnep)?;
        frame.truncate(head.start + head.length);
        frame.strip(head.start);
        head.start = 0;
        let proof = self.authenticate(now, frame, head.header)?;
        (head.header, head.length) = (head.header - proof, head.length - proof);
        Ok(())
    }

    /// Who sent a frame, and its index among the neighbours: the peer of an overlay port, or the
    /// previous node of a native capsule. Nothing if that is a stranger.
    #[inline(always)]
    pub(super) fn source_of(&mut self, now: u64, frame: &Frame, previous: Addr, native: bool) -> Option<(Source, u32)> {
        let is_first = !self.is_further();
        let core = &mut self.core;
        let port = frame.port;
        if !native {
            let (index, known) = core.topology.neighbours.of_peer(port, frame.peer)?;
            return Some((Source { port, peer: frame.peer, addr: known.addr }, index));
        }
        if frame.authenticated && frame.sender != previous {
            return None;
        }
        // A native previous hop is learned when it is on the link: only then can it be asked.
        let source = Source { port, peer: PeerId::NONE, addr: previous };
        let known = match core.topology.neighbours.index(port, previous) {
            Some(index) => {
                core.topology.neighbours.hear(index, now);
                Some(index)
            }
            None if is_first && core.topology.port(port).is_some_and(|port| port.on_link(previous)) => {
                say_neighbour(&core.name, previous);
                core.topology.neighbours.learn(Neighbour { addr: previous, port, peer: PeerId::NONE }, now)
            }
            None => None,
        };
        Some((source, known.unwrap_or(NONE)))
    }
}

/// A neighbour has shown itself.
#[cold]
pub(super) fn say_neighbour(node: &str, addr: Addr) {
    tracing::info!(event = "neighbour", node, %addr, "a neighbour has shown itself");
}

impl Cx {
    /// Whether a sender that is not known as a neighbour is one to be learned: it is on the link.
    #[cold]
    pub(super) fn may_be_neighbour(&self, source: &Source) -> bool {
        self.core.topology.port(source.port).is_some_and(|port| port.on_link(source.addr))
    }
}

/// Whether the options behind an ANEP header leave the packet to us: its sum is right, and none that is unknown wants it
/// discarded. It begins its frame.
#[cold]
fn options_are_good(frame: &Frame, header: usize) -> bool {
    let packet = anep::Packet::again(frame.bytes(), header);
    packet.is_some_and(|packet| packet.verify_checksum() && !packet.unknown_option_discards())
}
