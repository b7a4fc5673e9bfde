//! Lines of an environment for the node's log: a bounded number a second, and the count of the others.

use crate::core::bucket::TokenBucket;

/// Lines a second that one environment may put into the node's log.
const LINES_PER_SECOND: u64 = 10;

/// The lines of one environment.
pub(super) struct Lines {
    bucket: TokenBucket,
    /// Lines left out since the log has said so last.
    lost: u64,
}

impl Lines {
    pub fn new() -> Lines {
        Lines { bucket: TokenBucket::new(LINES_PER_SECOND, LINES_PER_SECOND), lost: 0 }
    }

    /// Whether a line has room at `now`, in nanoseconds; one that has none is counted.
    pub fn take(&mut self, now: u64) -> bool {
        let room = self.bucket.take(now, 1);
        self.lost += u64::from(!room);
        room
    }

    /// How many lines were left out, if that has not been said and there is room for it.
    pub fn left_out(&mut self, now: u64) -> Option<u64> {
        (self.lost > 0 && self.bucket.take(now, 1)).then(|| core::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_had_no_room_are_counted_and_said_once() {
        let mut lines = Lines::new();
        let taken = (0..100).filter(|_| lines.take(0)).count() as u64;
        assert_eq!((taken, lines.left_out(0)), (LINES_PER_SECOND, None), "that needs a line too");
        assert_eq!((lines.left_out(1_000_000_000), lines.left_out(1_000_000_000)), (Some(100 - taken), None));
    }
}
