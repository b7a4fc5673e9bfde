//! Forward error correction: every K packets are followed by their XOR, from which a lost one is found again.

use crate::core::reason::Reason;
use crate::frame::{FRAME, Frame};
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GROUPS_MAX, GraphCx, Groups, INWARD, LIMITS, OUTWARD, Pushed};

const XOR_HEADER: usize = 6;

/// `xor(2…16)`.
pub const CLASS: EngineClass = EngineClass {
    name: "xor",
    doc: "Adds to K packets their sum, from which one that is lost is found again",
    make: Make::Module {
        argument: Some(2..=16),
        bytes: [SUM, (2 + GROUPS_MAX as u64) * SUM],
        make: |packets| Box::new(Xor::new(packets as u8)),
    },
};

/// Bytes of a sum. There is one of what is sent, one of each group, and one to spare.
const SUM: u64 = FRAME as u64;

/// Sums of packets.
struct Xor {
    packets: u8,
    group: u16,
    /// Of the group that is being sent.
    sum: Sum,
    open: Groups<Group>,
    /// Of groups that have gone: memory for the next.
    spare: Vec<Sum>,
}

struct Sum {
    count: u8,
    length: u16,
    /// Bytes of the longest.
    most: usize,
    bytes: Box<[u8]>,
}

struct Group {
    have: u32,
    sum: Sum,
}

impl Sum {
    fn new() -> Sum {
        Sum { count: 0, length: 0, most: 0, bytes: vec![0; FRAME].into_boxed_slice() }
    }

    fn clear(&mut self) {
        self.bytes[..self.most].fill(0);
        (self.count, self.length, self.most) = (0, 0, 0);
    }

    fn add(&mut self, length: u16, payload: &[u8]) {
        let payload = &payload[..payload.len().min(self.bytes.len())];
        self.bytes.iter_mut().zip(payload).for_each(|(sum, byte)| *sum ^= byte);
        self.most = self.most.max(payload.len());
        self.length ^= length;
        self.count += 1;
    }
}

impl Engine for Xor {
    fn push(&mut self, input: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        if input == OUTWARD { self.protect(frame, cx) } else { self.recover(frame, cx) }
    }
}

impl Xor {
    fn new(packets: u8) -> Xor {
        Xor { packets, group: 0, sum: Sum::new(), open: Groups::new(LIMITS), spare: Vec::new() }
    }

    fn header(&self, index: u8, length: u16) -> [u8; XOR_HEADER] {
        let ([a, b], [c, d]) = (self.group.to_be_bytes(), length.to_be_bytes());
        [a, b, index, self.packets, c, d]
    }

    fn protect(&mut self, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let length = frame.len();
        if length > FRAME - XOR_HEADER {
            return Pushed::Dropped(frame, Reason::TooBig);
        }
        let index = self.sum.count;
        let header = self.header(index, length as u16);
        self.sum.add(length as u16, frame.bytes());
        match frame.prepend(XOR_HEADER) {
            Some(room) => room.copy_from_slice(&header),
            None => return Pushed::Dropped(frame, Reason::TooBig),
        }
        cx.emit(OUTWARD, frame);
        if self.sum.count == self.packets {
            let mut sum = cx.pool.take();
            sum.fill(&self.sum.bytes[..self.sum.most]);
            let header = self.header(self.packets, self.sum.length);
            if let Some(room) = sum.prepend(XOR_HEADER) {
                room.copy_from_slice(&header);
                cx.emit(OUTWARD, sum);
            }
            self.sum.clear();
            self.group = self.group.wrapping_add(1);
        }
        Pushed::Kept
    }

    fn recover(&mut self, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let [a, b, index, packets, c, d, ..] = *frame.bytes() else {
            return Pushed::Dropped(frame, Reason::MalformedModule);
        };
        frame.strip(XOR_HEADER);
        let (number, length) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let is_sum = index == packets;
        if !(2..=16).contains(&packets) || index > packets || (!is_sum && usize::from(length) != frame.len()) {
            return Pushed::Dropped(frame, Reason::MalformedModule);
        }
        let Some(group) = self.group(cx, number) else { return Pushed::Dropped(frame, Reason::ReassemblyFull) };
        if group.have & 1 << index != 0 {
            // A second time.
            cx.pool.give(frame);
            return Pushed::Kept;
        }
        group.have |= 1 << index;
        group.sum.add(length, frame.bytes());
        if is_sum {
            cx.pool.give(frame)
        } else {
            cx.emit(INWARD, frame)
        }
        if group.sum.count == packets {
            group.complete(cx, packets);
        }
        Pushed::Kept
    }

    /// The group that a packet belongs to.
    fn group(&mut self, cx: &GraphCx<'_>, number: u16) -> Option<&mut Group> {
        let (key, Xor { open, spare, .. }) = ((cx.from, number), self);
        let at = match open.find(cx.now, &key) {
            Some(at) => at,
            None => {
                let mut sum = spare.pop().unwrap_or_else(Sum::new);
                sum.clear();
                open.begin(cx.now, (key, cx.from.0), 0, Group { have: 0, sum }, |group| spare.push(group.sum))?
            }
        };
        open.get_mut(at)
    }
}

impl Group {
    /// All but one are here: the one is the sum of the others, unless it is the sum itself. A finished group stays known for a while, so
    /// that its last packet does not begin it anew.
    fn complete(&mut self, cx: &mut GraphCx<'_>, packets: u8) {
        let lost = usize::from(self.sum.length);
        if self.have & 1 << packets != 0 && lost <= self.sum.most {
            let mut found = cx.pool.take();
            found.fill(&self.sum.bytes[..lost]);
            cx.emit(INWARD, found);
        }
        self.sum.clear();
        self.have = u32::MAX;
    }
}
