//! The log of mobile code (`an_log(7, visits)`, and where it trapped): the last lines, in a ring of fixed size.

use crate::wire::Digest;
use serde::ser::SerializeStruct as _;
use std::collections::VecDeque;

/// Lines kept; older ones are overwritten.
const LINES_MAX: usize = 256;

/// Where a run of code ended without a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Why, in words.
    pub kind: &'static str,
    /// The function's index in the module, and the byte from where its body begins; nothing: that is not known.
    pub place: Option<(u32, u32)>,
}

impl serde::Serialize for Trap {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (function, byte) = self.place.unzip();
        let mut fields = serializer.serialize_struct("Trap", 3)?;
        fields.serialize_field("kind", self.kind)?;
        fields.serialize_field("function", &function)?;
        fields.serialize_field("byte", &byte)?;
        fields.end()
    }
}

/// One line: a number chosen by the code's author and a value; or a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// When, in nanoseconds of the node's clock.
    pub at: u64,
    /// The code that wrote it: its name says so even when it has gone.
    pub code: Digest,
    /// Its meaning, chosen by the code's author.
    pub tag: u32,
    /// The value.
    pub value: u64,
    /// The trap, if it is a line about one: tag and value are zero.
    pub trap: Option<Trap>,
}

/// The last lines of all code of one node.
pub struct Log {
    lines: VecDeque<Line>,
    /// Lines that were overwritten.
    gone: u64,
}

impl Default for Log {
    fn default() -> Log {
        Log { lines: VecDeque::with_capacity(LINES_MAX), gone: 0 }
    }
}

impl Log {
    /// Adds a line, in the place of the oldest when the ring is full.
    pub fn write(&mut self, line: Line) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.gone += 1;
        }
        self.lines.push_back(line);
    }

    /// The lines kept, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// The number of the first line kept: so many have been overwritten.
    pub fn first(&self) -> u64 {
        self.gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_line_gives_way() {
        let mut log = Log::default();
        for value in 0..LINES_MAX as u64 + 3 {
            log.write(Line { at: 0, code: Digest([0; 32]), tag: 1, value, trap: None });
        }
        assert_eq!(log.lines().next().unwrap().value, 3);
        assert_eq!((log.lines().count(), log.first()), (LINES_MAX, 3));
    }
}
