//! The load of a port: its counters, and the queue length that mobile code can ask for.

use std::sync::Arc;

/// The time over which load is averaged, in nanoseconds.
const WINDOW: u64 = 100_000_000;

/// What a class of a port's discipline has done so far, and what waits there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Packets that left.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that found the queue full.
    pub full: u64,
    /// Packets that were dropped early.
    pub early: u64,
    /// Packets that wait.
    pub waiting: u64,
}

/// What an order or an admission of an extension has done so far in a port's discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyCounts {
    /// Its extension and class, with its arguments.
    pub name: Arc<str>,
    /// How often it was called.
    pub calls: u64,
    /// How often it gave nothing, or what was of no use.
    pub failed: u64,
    /// Fuel that it took.
    pub fuel: u64,
}

/// What a worker has taken in of a port, where an order says of which port it takes the next batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// The port's part beside the others, and its priority; nothing: an extension says.
    pub part: Option<(u32, u8)>,
    /// How often it was its turn: batches.
    pub batches: u64,
    /// Frames in these.
    pub frames: u64,
    /// How often it was its turn because the order of an extension had failed.
    pub failed: u64,
}

/// Counters of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Gauge {
    /// Frames that came in.
    pub received: u64,
    /// Bytes that came in.
    pub received_bytes: u64,
    /// Frames that were not for an active node; the Linux stack takes care of them.
    pub not_ours: u64,
    /// Of these, those of which nobody asked whether their flow is foreign, since the kernel was told of so many lately.
    #[serde(skip)]
    pub foreign_refused: u64,
    /// Frames that an environment, a channel or the resolver has taken, or that were passed on.
    #[serde(skip)]
    pub taken: u64,
    /// Frames dropped before that.
    #[serde(skip)]
    pub turned_away: u64,
    /// Frames the system has thrown away because the node did not take them in time.
    pub missed: u64,
    /// Packets whose resource bound was above the port's ceiling and was cut to it.
    pub clamped: u64,
    /// Packets whose proof is of a key that the port does not know.
    pub unknown_keys: u64,
    /// Frames handed to the port.
    pub sent: u64,
    /// Frames handed to the port that it did not take.
    pub refused: u64,
    /// Bytes handed to the port.
    pub sent_bytes: u64,
    /// Frames that have left, as the port last said.
    #[serde(skip)]
    pub left: u64,
    /// Frames that wait there, if it has said so.
    #[serde(skip)]
    pub queued: Option<u32>,
    /// Bytes waiting in the port's output queue, as the port last said.
    pub queued_bytes: u32,
    /// Classes of the port's discipline, as it last said.
    #[serde(skip)]
    pub classes: Vec<(Box<str>, ClassCounts)>,
    /// What extensions decide there: for which class, or for the port itself, which has no name.
    #[serde(skip)]
    pub policies: Vec<(Box<str>, PolicyCounts)>,
    /// What was taken in of it by an order of ports, as the worker last said.
    #[serde(skip)]
    pub input: Option<InputCounts>,
    /// Share of the port's capacity used in the last full window of 100 ms, in thousandths.
    pub load_permille: u32,
    #[serde(skip)]
    window: u64,
    #[serde(skip)]
    window_bytes: u64,
}

impl Gauge {
    /// Frames that have left: what the port says of its own; without that, all that it has not given back.
    pub fn gone(&self) -> u64 {
        if self.queued.is_some() { self.left } else { self.sent.wrapping_sub(self.refused) }
    }

    /// Frames that came in and are in no counter, and frames that went out, of which so many are not with the port yet.
    pub fn unaccounted(&self, on_their_way: u64) -> [i64; 2] {
        let ends = self.not_ours.wrapping_add(self.taken).wrapping_add(self.turned_away);
        let handed = self.sent.wrapping_sub(self.refused);
        let there =
            self.queued.map_or(handed, |queued| self.left.wrapping_add(queued.into()).wrapping_add(on_their_way));
        [self.received.wrapping_sub(ends) as i64, handed.wrapping_sub(there) as i64]
    }

    /// Counts a frame that goes out at `now` (nanoseconds) on a port of the given capacity.
    #[inline]
    pub fn count_sent(&mut self, now: u64, bytes: usize, bits_per_second: u64) {
        self.sent += 1;
        self.sent_bytes += bytes as u64;
        self.roll(now, bits_per_second);
        self.window_bytes += bytes as u64;
    }

    /// The load at `now`, in thousandths; 0 when the capacity is unknown.
    pub fn load(&mut self, now: u64, bits_per_second: u64) -> u32 {
        self.roll(now, bits_per_second);
        self.load_permille
    }

    #[inline]
    fn roll(&mut self, now: u64, bits_per_second: u64) {
        let window = now / WINDOW;
        if window == self.window {
            return;
        }
        // Only the window that has just ended says something about now.
        let bits = if window == self.window + 1 { self.window_bytes * 8 } else { 0 };
        let capacity = bits_per_second / (1_000_000_000 / WINDOW);
        self.load_permille = (bits * 1000).checked_div(capacity).unwrap_or(0).min(1000) as u32;
        self.window = window;
        self.window_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_that_of_the_last_full_window() {
        let mut gauge = Gauge::default();
        gauge.count_sent(0, 125_000, 100_000_000);
        assert_eq!(gauge.load(50_000_000, 100_000_000), 0);
        assert_eq!(gauge.load(150_000_000, 100_000_000), 100);
        assert_eq!(gauge.load(350_000_000, 100_000_000), 0);
        assert_eq!(gauge.sent_bytes, 125_000);
    }

    #[test]
    fn what_came_in_and_what_went_out_are_compared_each_by_itself() {
        let gauge = Gauge {
            received: 9,
            not_ours: 2,
            taken: 4,
            turned_away: 3,
            sent: 8,
            refused: 1,
            left: 4,
            queued: Some(2),
            ..Gauge::default()
        };
        assert_eq!(gauge.unaccounted(1), [0, 0]);
        assert_eq!(Gauge { received: 10, left: 5, ..gauge.clone() }.unaccounted(1), [1, -1]);
        assert_eq!(gauge.unaccounted(0), [0, 1]);
        assert_eq!(Gauge { queued: None, ..gauge }.unaccounted(0), [0, 0], "all that it has not given back has left");
    }
}
