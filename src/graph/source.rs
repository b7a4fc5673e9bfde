//! What sources make: packets of the same bytes, counted.

use super::arguments::Data;
use super::engine::GraphCx;
use crate::frame::{FRAME, Frame};

/// What a source makes of which nobody has said what that is.
pub const RANDOM: &[u8] = b"These bytes say nothing. They fill a packet of sixty-four bytes, so.";

/// Packets of the same bytes.
pub struct PacketSource {
    bytes: Vec<u8>,
    /// How many there were.
    pub count: u64,
}

impl PacketSource {
    /// Packets of these bytes, repeated or cut to that length unless it is 0.
    pub fn new(data: Data, length: u16) -> PacketSource {
        let mut bytes = data.0;
        if length > 0 {
            bytes = bytes.iter().copied().cycle().take(length.into()).collect();
        }
        bytes.truncate(FRAME);
        PacketSource { bytes, count: 0 }
    }

    /// One more.
    #[inline]
    pub fn make(&mut self, cx: &mut GraphCx<'_>) -> Frame {
        let mut frame = cx.begin();
        frame.fill(&self.bytes);
        self.count += 1;
        frame
    }

    /// Handlers of sources.
    pub fn read(&self, handler: &str, active: bool) -> Option<String> {
        match handler {
            "count" => Some(self.count.to_string()),
            "active" => Some(active.to_string()),
            "length" => Some(self.bytes.len().to_string()),
            _ => None,
        }
    }

    /// The same for whoever writes.
    pub fn write(&mut self, handler: &str, value: &str, active: &mut bool) -> Option<Result<(), String>> {
        match handler {
            "reset" | "reset_counts" => self.count = 0,
            "active" => match value.trim().parse() {
                Ok(value) => *active = value,
                Err(_) => return Some(Err("true or false".to_owned())),
            },
            _ => return None,
        }
        Some(Ok(()))
    }
}
