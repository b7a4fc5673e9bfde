//! A packet as the rules of one way see it: the values of their columns. Example: source and destination port, two numbers.

/// Pieces of headers that the rules of one way look at.
pub(super) const COLUMNS_MAX: usize = 64;
/// No entry, nothing more.
pub(super) const NONE: u32 = u32::MAX;

/// The values of all columns in a packet.
pub(super) struct Values {
    pub(super) values: [u32; COLUMNS_MAX],
    /// A bit for each that the packet has not.
    pub(super) absent: u64,
}
