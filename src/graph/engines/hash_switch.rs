//! An output for each value of some bytes.

use crate::frame::Frame;
use crate::graph::class::{EngineClass, Make};
use crate::graph::engine::{Engine, GraphCx, Pushed};

/// `HashSwitch`.
pub const CLASS: EngineClass = EngineClass {
    name: "HashSwitch",
    doc: "Sends packets with the same bytes to the same output. HashSwitch(OFFSET, LENGTH)",
    make: Make::with("1/-", "h/h", "x/x", |args| {
        let (offset, length) = (args.must("OFFSET"), args.must("LENGTH"));
        Some(Box::new(HashSwitch { offset: offset?, length: length? }))
    }),
};

struct HashSwitch {
    offset: u16,
    length: u16,
}

impl Engine for HashSwitch {
    fn push(&mut self, _: u16, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed {
        let from = usize::from(self.offset);
        let bytes = frame.bytes().get(from..from + usize::from(self.length)).unwrap_or_default();
        // The FNV-1a hash.
        let hash = bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        let outputs = u64::from(cx.outputs().max(1));
        Pushed::To(((hash ^ hash >> 32) % outputs) as u16, frame)
    }
}
