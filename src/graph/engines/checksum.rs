//! Checksums: CRC-32 behind the payload. What was damaged on its way is dropped.

use crate::core::reason::Reason;
use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, INWARD, OUTWARD, Pushed};

const LENGTH: usize = 4;

/// `checksum`.
pub const CLASS: EngineClass = EngineClass {
    name: "checksum",
    doc: "A CRC-32 behind the payload; what was damaged is dropped",
    make: Make::Module { argument: None, bytes: [0; 2], make: |_| Box::new(Checksum) },
};

struct Checksum;

impl Engine for Checksum {
    fn push(&mut self, input: u16, frame: Frame, _: &mut GraphCx<'_>) -> Pushed {
        if input == OUTWARD { seal(frame) } else { open(frame) }
    }
}

fn seal(mut frame: Frame) -> Pushed {
    let sum = crc32fast::hash(frame.bytes());
    match frame.append(LENGTH) {
        Some(room) => room.copy_from_slice(&sum.to_be_bytes()),
        None => return Pushed::Dropped(frame, Reason::TooBig),
    }
    Pushed::To(OUTWARD, frame)
}

fn open(mut frame: Frame) -> Pushed {
    let Some((payload, sum)) = frame.bytes().split_last_chunk::<LENGTH>() else {
        return Pushed::Dropped(frame, Reason::MalformedModule);
    };
    if crc32fast::hash(payload).to_be_bytes() != *sum {
        return Pushed::Dropped(frame, Reason::ModuleChecksum);
    }
    frame.truncate(frame.len() - LENGTH);
    Pushed::To(INWARD, frame)
}
