//! Records from the kernel half: the sends and log lines of code that has run there, carried out here.

/// The place of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The record's place.
    pub record: u32,
    /// The number of its packet, among those that have had the place.
    pub number: u64,
}

/// The records of the other half. What is not there any more is nothing: who is too late has lost it.
pub trait SharedRecords: Send + Sync + core::fmt::Debug {
    /// A child that the code has sent: its bound, and its window as it was then, as long as `window`.
    fn send(&self, written: Written, at: usize, window: &mut [u8]) -> Option<u32>;

    /// A line for the log: tag and value.
    fn line(&self, written: Written, at: usize) -> Option<(u32, u64)>;

    /// All is done: another packet may have the record.
    fn done(&self, written: Written);
}
