//! Compression by LZ4, a packet by itself; an incompressible one goes as it is.

use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, INWARD, OUTWARD, Pushed};
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};

/// `compress`.
pub const CLASS: EngineClass = EngineClass {
    name: "compress",
    doc: "Compresses payloads by LZ4, each by itself",
    make: Make::Module { argument: None, bytes: [TABLE; 2], make: |_| Box::<Compress>::default() },
};

/// Bytes of the compressor's table: 4,096 places in a packet.
const TABLE: u64 = 4096 * size_of::<u16>() as u64;

/// The compressor's memory.
#[derive(Default)]
struct Compress(CompressTable);

impl Engine for Compress {
    fn push(&mut self, input: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        if input == OUTWARD { pack(&mut self.0, frame, cx) } else { unpack(frame, cx) }
    }
}

fn pack(table: &mut CompressTable, mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
    let length = frame.len();
    let mut packed = cx.pool.take();
    let room = packed.room();
    // Only what ends up shorter is worth it.
    let done = match room.get_mut(3..length) {
        Some(room) => compress_into_with_table(frame.bytes(), room, table).ok(),
        None => None,
    };
    if let Some(count) = done {
        packed.received(3 + count);
        let bytes = packed.bytes_mut();
        bytes[0] = 1;
        bytes[1..3].copy_from_slice(&(length as u16).to_be_bytes());
        cx.pool.give(frame);
        return Pushed::To(OUTWARD, packed);
    }
    cx.pool.give(packed);
    match frame.prepend(1) {
        Some(room) => room[0] = 0,
        None => return Pushed::Dropped(frame, Reason::TooBig),
    }
    Pushed::To(OUTWARD, frame)
}

fn unpack(mut frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
    match *frame.bytes() {
        [0, ..] => {
            frame.strip(1);
            Pushed::To(INWARD, frame)
        }
        [1, high, low, ..] => {
            let length = usize::from(u16::from_be_bytes([high, low]));
            let mut whole = cx.pool.take();
            let done = whole.room().get_mut(..length).and_then(|room| decompress_into(&frame.bytes()[3..], room).ok());
            if done != Some(length) {
                cx.pool.give(whole);
                return Pushed::Dropped(frame, Reason::MalformedModule);
            }
            whole.received(length);
            (whole.port, whole.peer, whole.trace) = (frame.port, frame.peer, frame.trace);
            cx.pool.give(frame);
            Pushed::To(INWARD, whole)
        }
        _ => Pushed::Dropped(frame, Reason::MalformedModule),
    }
}
