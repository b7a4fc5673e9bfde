//! Fragments: what is too long goes in pieces, and is put together again within a second.

use super::{Groups, LIMITS, Lost, Stage};
use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::frame::assembly::Pieces;

const PIECE_HEADER: usize = 4;

/// Pieces of packets.
pub struct Fragment {
    most: usize,
    next: u16,
    open: Groups<Packet>,
    lost: Lost,
}

/// A packet of which some pieces are here.
struct Packet {
    pieces: Pieces,
    /// Bytes of all pieces but the last, once one has come.
    piece: usize,
    /// Bytes of the last one.
    length: usize,
    buffer: Frame,
}

impl Fragment {
    pub(super) fn new(most: usize) -> Fragment {
        Fragment { most, next: 0, open: Groups::new(LIMITS), lost: Lost::default() }
    }

    pub(super) fn pieces(&self) -> u64 {
        self.open.bodies().map(|packet| u64::from(packet.pieces.here())).sum()
    }

    pub(super) fn lost(&mut self) -> Lost {
        core::mem::take(&mut self.lost)
    }

    pub(super) fn send(&mut self, stage: &mut Stage<'_>, frame: Frame) -> Result<(), (Frame, Reason)> {
        let count = frame.len().div_ceil(self.most).max(1);
        if count > usize::from(u8::MAX) {
            return Err((frame, Reason::TooBig));
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        for index in 0..count {
            let from = index * self.most;
            let piece = &frame.bytes()[from..frame.len().min(from + self.most)];
            let mut part = stage.pool.take();
            part.fill(piece);
            if let Some(room) = part.prepend(PIECE_HEADER) {
                let [high, low] = number.to_be_bytes();
                room.copy_from_slice(&[high, low, index as u8, count as u8]);
            }
            part.trace = frame.trace;
            stage.out.push(part);
        }
        stage.pool.give(frame);
        Ok(())
    }

    pub(super) fn receive(&mut self, stage: &mut Stage<'_>, mut frame: Frame) -> Result<(), (Frame, Reason)> {
        let [high, low, index, count, ..] = *frame.bytes() else { return Err((frame, Reason::MalformedModule)) };
        frame.strip(PIECE_HEADER);
        let (number, length) = (u16::from_be_bytes([high, low]), frame.len());
        if index >= count || (length == 0 && count > 1) {
            return Err((frame, Reason::MalformedModule));
        }
        if count == 1 {
            stage.out.push(frame);
            return Ok(());
        }
        let packet = self.packet(stage, number, count);
        let Some((at, packet)) = packet else { return Err((frame, Reason::ReassemblyFull)) };
        // All but the last are of one length; the last one is at most that long.
        let last = index == count - 1;
        let unequal = !last && packet.piece != 0 && packet.piece != length;
        if packet.pieces.count() != count || packet.pieces.has(index) || unequal {
            return Err((frame, Reason::MalformedModule));
        }
        *(if last { &mut packet.length } else { &mut packet.piece }) = length;
        // The last piece can come first: it waits at the far end until the others say where it belongs.
        let room = packet.buffer.room_kept();
        let start = if last { room.len().checked_sub(length) } else { Some(usize::from(index) * length) };
        match start.and_then(|start| room.get_mut(start..start + length)) {
            Some(room) => room.copy_from_slice(frame.bytes()),
            None => return Err((frame, Reason::ModuleTooBig)),
        }
        packet.pieces.note(index);
        let is_whole = packet.pieces.are_whole();
        stage.pool.give(frame);
        if !is_whole {
            return Ok(());
        }
        self.open.take(at).map_or(Ok(()), |packet| packet.complete(stage))
    }

    /// The packet that a piece belongs to, and its place.
    fn packet(&mut self, stage: &mut Stage<'_>, number: u16, count: u8) -> Option<(usize, &mut Packet)> {
        let key = (stage.from, number);
        let at = match self.open.find(stage.now, &key) {
            Some(at) => at,
            None => {
                let mut buffer = stage.pool.take();
                buffer.clear();
                let packet = Packet { pieces: Pieces::new(count), piece: 0, length: 0, buffer };
                let Fragment { open, lost: Lost { late, full }, .. } = self;
                let mut end = |packet: Packet, lost: &mut u64| {
                    *lost += u64::from(packet.pieces.here());
                    stage.pool.give(packet.buffer);
                };
                open.expire(stage.now, |packet| end(packet, late));
                open.begin(stage.now, (key, stage.from.0), 0, packet, |packet| end(packet, full))?
            }
        };
        Some((at, self.open.get_mut(at)?))
    }
}

impl Packet {
    /// All pieces are here.
    fn complete(self, stage: &mut Stage<'_>) -> Result<(), (Frame, Reason)> {
        let Packet { pieces, piece, length, mut buffer } = self;
        let before = usize::from(pieces.count() - 1) * piece;
        let room = buffer.room_kept();
        let end = room.len();
        // The last piece was put at the far end, out of the way of the others, or they do not fit.
        if length > piece || before + length > end {
            return Err((buffer, Reason::ModuleTooBig));
        }
        room.copy_within(end - length..end, before);
        buffer.received(before + length);
        stage.out.push(buffer);
        Ok(())
    }
}
