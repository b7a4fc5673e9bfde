//! Places in source text.
//!
//! Every syntax node, every expression of a checked program and every diagnostic says where it comes
//! from in bytes from the beginning of the text. What was never text (code from a packet) has
//! [`Span::NOWHERE`].

/// A range of bytes in a source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Span {
    /// The place of what was never text.
    pub const NOWHERE: Span = Span { start: 0, end: 0 };

    /// From the byte `start` up to, without, the byte `end`.
    pub fn new(start: usize, end: usize) -> Span {
        let clip = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { start: clip(start), end: clip(end) }
    }

    /// From the beginning of this to the end of the other.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }

    /// The text at this place; empty if the place is not in the text.
    pub fn text(self, source: &str) -> &str {
        source.get(self.start as usize..self.end as usize).unwrap_or("")
    }
}
