//! What a link is asked to be like, in each of its directions: rate, queue, delay, jitter, loss, doubling, reordering.
//!
//! Files of labs and of simulations have the same keys. [`LinkQuality::check`] refuses what no link can be.

use core::fmt;
use serde::{Deserialize, Serialize};

/// Bytes that wait for a link of limited rate, unless its file says otherwise.
pub const QUEUE_BYTES: u32 = 256 << 10;

/// For how long frames are held back at most that others may overtake, unless the file says otherwise, in milliseconds.
pub const REORDER_MS: f64 = 10.0;

/// What a link is like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkQuality {
    /// Time from end to end, in milliseconds.
    pub delay_ms: f64,
    /// By how much that differs at most, to either side, in milliseconds; frames stay in order.
    pub jitter_ms: f64,
    /// Capacity in Mbit/s; 0 when nothing ever waits.
    pub rate_mbit: f64,
    /// Bytes that can wait for a link of limited capacity; more are dropped.
    pub queue_bytes: u32,
    /// Frames that can wait for it; 0 when only bytes count.
    pub queue_packets: u32,
    /// Share of frames that are lost, 0 to 1.
    pub loss: f64,
    /// Share of frames that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// Share of frames that are held back and may be overtaken, 0 to 1.
    pub reorder: f64,
    /// For how long at most they are held back, in milliseconds.
    pub reorder_ms: f64,
}

impl Default for LinkQuality {
    fn default() -> LinkQuality {
        LinkQuality {
            delay_ms: 0.0,
            jitter_ms: 0.0,
            rate_mbit: 0.0,
            queue_bytes: QUEUE_BYTES,
            queue_packets: 0,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_ms: REORDER_MS,
        }
    }
}

/// A number that no link can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unfit {
    /// Which one.
    pub field: &'static str,
    /// What was given.
    pub found: f64,
    /// What is possible.
    pub expected: &'static str,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.field, self.found)
    }
}

const SHARE: &str = "a share from 0 to 1";
const TIME: &str = "milliseconds from 0 to 3600000";

impl LinkQuality {
    /// Says which number is out of range, if one is.
    pub fn check(&self) -> Result<(), Unfit> {
        let fields = [
            ("loss", self.loss, 1.0, SHARE),
            ("duplicate", self.duplicate, 1.0, SHARE),
            ("reorder", self.reorder, 1.0, SHARE),
            ("delay_ms", self.delay_ms, 3.6e6, TIME),
            ("reorder_ms", self.reorder_ms, 3.6e6, TIME),
            ("rate_mbit", self.rate_mbit, 1e6, "Mbit/s from 0 (no limit) to 1000000"),
            ("jitter_ms", self.jitter_ms, self.delay_ms, "milliseconds from 0 to delay_ms"),
        ];
        let wrong = fields.into_iter().find(|(_, found, most, _)| !(0.0..=*most).contains(found));
        wrong.map_or(Ok(()), |(field, found, _, expected)| Err(Unfit { field, found, expected }))
    }

    /// Whether frames on it differ from those on a wire without end.
    pub fn is_shaped(&self) -> bool {
        [self.delay_ms, self.rate_mbit, self.loss, self.duplicate, self.reorder].iter().any(|number| *number > 0.0)
    }

    /// Its capacity.
    pub fn bits_per_second(&self) -> u64 {
        (self.rate_mbit * 1e6) as u64
    }

    /// How often a frame is under way at most.
    pub fn copies(&self) -> u64 {
        if self.duplicate > 0.0 { 2 } else { 1 }
    }

    /// Bytes that its capacity, delay and queue can have under way in one direction, with copies; none if the capacity has no limit.
    pub fn bytes_under_way(&self) -> Option<u64> {
        let travel_ms = self.delay_ms + self.jitter_ms + if self.reorder > 0.0 { self.reorder_ms } else { 0.0 };
        let once = || u64::from(self.queue_bytes) + (self.rate_mbit * travel_ms * 125.0) as u64;
        (self.rate_mbit > 0.0).then(|| once() * self.copies())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_link_can_be_is_refused_by_name() {
        assert_eq!(LinkQuality::default().check(), Ok(()));
        let plain = LinkQuality::default();
        for (quality, name) in [
            (LinkQuality { loss: 1.01, ..plain }, "loss = 1.01"),
            (LinkQuality { loss: f64::NAN, ..plain }, "loss = NaN"),
            (LinkQuality { duplicate: -0.5, ..plain }, "duplicate = -0.5"),
            (LinkQuality { delay_ms: 1.0, jitter_ms: 2.0, ..plain }, "jitter_ms = 2"),
            (LinkQuality { rate_mbit: f64::INFINITY, ..plain }, "rate_mbit = inf"),
        ] {
            assert_eq!(quality.check().unwrap_err().to_string(), name);
        }
    }

    #[test]
    fn what_is_under_way_is_the_queue_and_what_travels() {
        let quality = LinkQuality { rate_mbit: 8.0, delay_ms: 10.0, queue_bytes: 1000, ..LinkQuality::default() };
        assert_eq!(quality.bytes_under_way(), Some(11_000));
        assert_eq!(
            LinkQuality { duplicate: 0.1, ..quality }.bytes_under_way(),
            Some(22_000),
            "each may be there twice"
        );
        assert_eq!(LinkQuality::default().bytes_under_way(), None);
    }
}
