//! Fragments: what is too long goes in pieces, and is put together again within a second.

use super::{GROUPS_MAX, PATIENCE, Stage, make_room};
use crate::core::reason::Reason;
use crate::frame::Frame;

const PIECE_HEADER: usize = 4;

/// Pieces of packets.
pub struct Fragment {
    most: usize,
    next: u16,
    open: Vec<Pieces>,
}

struct Pieces {
    from: u64,
    number: u16,
    since: u64,
    count: u8,
    have: [u64; 4],
    /// Octets of all pieces but the last, of which there are `count - 1`.
    piece: usize,
    length: usize,
    buffer: Frame,
}

impl Fragment {
    pub(super) fn new(most: usize) -> Fragment {
        Fragment { most, next: 0, open: Vec::with_capacity(GROUPS_MAX) }
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
        let [high, low, index, count, ..] = *frame.bytes() else { return Err((frame, Reason::Malformed)) };
        frame.strip(PIECE_HEADER);
        let (number, length) = (u16::from_be_bytes([high, low]), frame.len());
        if index >= count || (length == 0 && count > 1) {
            return Err((frame, Reason::Malformed));
        }
        if count == 1 {
            stage.out.push(frame);
            return Ok(());
        }
        let at = self.group(stage, number, count);
        let pieces = &mut self.open[at];
        let last = index == count - 1;
        let bit = 1 << (index % 64);
        let seen = pieces.have[usize::from(index / 64)] & bit != 0;
        // All but the last are of one length; the last one is at most that long.
        let piece = if last { pieces.piece } else { length };
        let wrong = pieces.count != count || (pieces.piece != 0 && piece != pieces.piece && !last);
        if wrong || seen {
            return Err((frame, Reason::Malformed));
        }
        if !last {
            pieces.piece = length;
        }
        // The last piece can come first: it waits at the far end until the others say where it belongs.
        let room = pieces.buffer.room_kept();
        let start = if last { room.len().checked_sub(length) } else { Some(usize::from(index) * length) };
        match start.and_then(|start| room.get_mut(start..start + length)) {
            Some(room) => room.copy_from_slice(frame.bytes()),
            None => return Err((frame, Reason::TooBig)),
        }
        if last {
            pieces.length = length;
        }
        pieces.have[usize::from(index / 64)] |= bit;
        let have: u32 = pieces.have.iter().map(|word| word.count_ones()).sum();
        stage.pool.give(frame);
        if have == u32::from(count) {
            return self.complete(stage, at);
        }
        Ok(())
    }

    fn complete(&mut self, stage: &mut Stage<'_>, at: usize) -> Result<(), (Frame, Reason)> {
        let Pieces { mut buffer, piece, length, count, .. } = self.open.swap_remove(at);
        let before = usize::from(count - 1) * piece;
        let room = buffer.room_kept();
        let end = room.len();
        // The last piece was put at the far end, out of the way of the others, or they do not fit.
        if length > piece || before + length > end {
            return Err((buffer, Reason::TooBig));
        }
        room.copy_within(end - length..end, before);
        buffer.received(before + length);
        stage.out.push(buffer);
        Ok(())
    }

    /// The group that a piece belongs to.
    fn group(&mut self, stage: &mut Stage<'_>, number: u16, count: u8) -> usize {
        let (now, from) = (stage.now, stage.from);
        let same = |group: &Pieces| (group.from, group.number) == (from, number) && now < group.since + PATIENCE;
        if let Some(at) = self.open.iter().position(same) {
            return at;
        }
        let pool = &mut *stage.pool;
        make_room(&mut self.open, |group| group.since, now, |group| pool.give(group.buffer));
        let mut buffer = stage.pool.take();
        buffer.clear();
        self.open.push(Pieces { from, number, since: now, count, have: [0; 4], piece: 0, length: 0, buffer });
        self.open.len() - 1
    }
}
