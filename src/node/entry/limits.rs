//! Limits of neighbours at the entrance, the clock that measures them, and their counts.

/// Bytes a second of a neighbour behind a port without a stated capacity: half of 10 Gbit/s.
const BYTES_PER_SECOND: u64 = 625_000_000;

/// The limits of a neighbour while others are there too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLimits {
    /// Of a worker, in thousandths.
    pub permille: u32,
    /// Worker time at once, in microseconds.
    pub burst_us: u32,
    /// Bytes a second; 0: half of its port's capacity.
    pub bytes_per_second: u64,
}

/// Bytes a second that a neighbour has beside others, where so many are set for all (0: none) and its port has a capacity (0: unknown).
pub fn bytes_beside_others(set: u64, bits_per_second: u64) -> u64 {
    match (set, bits_per_second) {
        (0, 0) => BYTES_PER_SECOND,
        (0, bits) => bits / 16,
        (set, _) => set,
    }
}

impl Default for EntryLimits {
    fn default() -> EntryLimits {
        EntryLimits { permille: 500, burst_us: 5_000, bytes_per_second: 0 }
    }
}

/// By which a worker's work is measured: nanoseconds in which its thread did something. Neither rest counts, nor what
/// others had of its CPU meanwhile.
pub trait WorkClock: Send {
    /// The work so far; never goes back.
    fn read(&mut self) -> u64;

    /// The same when the node's clock shows this, and now.
    fn at(&mut self, now: u64) -> u64;

    /// The worker has rested for so long.
    fn rested(&mut self, nanoseconds: u64);

    /// The time of others on its CPU so far while it had work.
    fn lost(&self) -> u64;
}

/// Counts of a neighbour's frames, or of those of a port's strangers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct EntryCounts {
    /// Nanoseconds of the worker, or steps.
    pub worker_ns: u64,
    /// Frames refused at entry.
    pub refused: u64,
    /// Codes that it had brought and that had to give way, since it had most in the full table.
    pub displaced: u64,
}
