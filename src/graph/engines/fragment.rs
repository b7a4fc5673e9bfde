//! Fragments: a long payload goes in pieces, and is put together again within a second.

use crate::core::reason::Reason;
use crate::frame::assembly::Pieces;
use crate::frame::{BUFFER, Frame};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GROUPS_MAX, GraphCx, Groups, INWARD, LIMITS, OUTWARD, Pushed};

const PIECE_HEADER: usize = 4;

/// `fragment(64…1400)`.
pub const CLASS: EngineClass = EngineClass {
    name: "fragment",
    doc: "Sends long payloads in pieces, and puts them together",
    make: Make::Module {
        argument: Some(64..=1400),
        bytes: [0, GROUPS_MAX as u64 * BUFFER],
        make: |most| Box::new(Fragment::new(most)),
    },
};

/// Pieces of packets.
struct Fragment {
    most: usize,
    next: u16,
    open: Groups<Packet>,
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

impl Engine for Fragment {
    fn push(&mut self, input: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        if input == OUTWARD { self.cut(frame, cx) } else { self.put_together(frame, cx) }
    }

    fn held(&self) -> u64 {
        self.open.bodies().map(|packet| u64::from(packet.pieces.here())).sum()
    }
}

impl Fragment {
    fn new(most: usize) -> Fragment {
        Fragment { most, next: 0, open: Groups::new(LIMITS) }
    }

    fn cut(&mut self, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let count = frame.len().div_ceil(self.most).max(1);
        if count > usize::from(u8::MAX) {
            return Pushed::Dropped(frame, Reason::TooBig);
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        for index in 0..count {
            let from = index * self.most;
            let piece = &frame.bytes()[from..frame.len().min(from + self.most)];
            let mut part = cx.pool.take();
            part.fill(piece);
            if let Some(room) = part.prepend(PIECE_HEADER) {
                let [high, low] = number.to_be_bytes();
                room.copy_from_slice(&[high, low, index as u8, count as u8]);
            }
            part.trace = frame.trace;
            cx.emit(OUTWARD, part);
        }
        cx.pool.give(frame);
        Pushed::Kept
    }

    fn put_together(&mut self, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let [high, low, index, count, ..] = *frame.bytes() else {
            return Pushed::Dropped(frame, Reason::MalformedModule);
        };
        frame.strip(PIECE_HEADER);
        let (number, length) = (u16::from_be_bytes([high, low]), frame.len());
        if index >= count || (length == 0 && count > 1) {
            return Pushed::Dropped(frame, Reason::MalformedModule);
        }
        if count == 1 {
            return Pushed::To(INWARD, frame);
        }
        let packet = self.packet(cx, number, count);
        let Some((at, packet)) = packet else { return Pushed::Dropped(frame, Reason::ReassemblyFull) };
        // All but the last are of one length; the last one is at most that long.
        let last = index == count - 1;
        let unequal = !last && packet.piece != 0 && packet.piece != length;
        if packet.pieces.count() != count || packet.pieces.has(index) || unequal {
            return Pushed::Dropped(frame, Reason::MalformedModule);
        }
        *(if last { &mut packet.length } else { &mut packet.piece }) = length;
        // The last piece can come first: it waits at the far end until the others say where it belongs.
        let room = packet.buffer.room_kept();
        let start = if last { room.len().checked_sub(length) } else { Some(usize::from(index) * length) };
        match start.and_then(|start| room.get_mut(start..start + length)) {
            Some(room) => room.copy_from_slice(frame.bytes()),
            None => return Pushed::Dropped(frame, Reason::ModuleTooBig),
        }
        packet.pieces.note(index);
        let is_whole = packet.pieces.are_whole();
        cx.pool.give(frame);
        if !is_whole {
            return Pushed::Kept;
        }
        self.open.take(at).map_or(Pushed::Kept, Packet::complete)
    }

    /// The packet that a piece belongs to, and its place.
    fn packet(&mut self, cx: &mut GraphCx<'_>, number: u16, count: u8) -> Option<(usize, &mut Packet)> {
        let key = (cx.from, number);
        let at = match self.open.find(cx.now, &key) {
            Some(at) => at,
            None => {
                let mut buffer = cx.pool.take();
                buffer.clear();
                let packet = Packet { pieces: Pieces::new(count), piece: 0, length: 0, buffer };
                let (now, payer, mut late, mut full) = (cx.now, cx.from.0, 0, 0);
                let mut end = |packet: Packet, lost: &mut u64| {
                    *lost += u64::from(packet.pieces.here());
                    cx.pool.give(packet.buffer);
                };
                self.open.expire(now, |packet| end(packet, &mut late));
                let place = self.open.begin(now, (key, payer), 0, packet, |packet| end(packet, &mut full));
                cx.lose(Reason::ReassemblyTimeout, late);
                cx.lose(Reason::ReassemblyFull, full);
                place?
            }
        };
        Some((at, self.open.get_mut(at)?))
    }
}

impl Packet {
    /// All pieces are here.
    fn complete(self) -> Pushed {
        let Packet { pieces, piece, length, mut buffer } = self;
        let before = usize::from(pieces.count() - 1) * piece;
        let room = buffer.room_kept();
        let end = room.len();
        // The last piece was put at the far end, out of the way of the others, or they do not fit.
        if length > piece || before + length > end {
            return Pushed::Dropped(buffer, Reason::ModuleTooBig);
        }
        room.copy_within(end - length..end, before);
        buffer.received(before + length);
        Pushed::To(INWARD, buffer)
    }
}
