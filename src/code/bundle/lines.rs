//! Line tables: the source line of each instruction of a program. Example: instruction 17 comes from `ping.c:9`.
//!
//! ```text
//! "ANL1" | files(8) | for each: length(8) name
//! for wasm, then for bpf: rows(16) | for each: place file line       numbers in LEB128, the file one byte
//! ```
//!
//! Places are byte offsets in a module and indices of instructions in a program, lines count from 1; of each the
//! difference to the row before is written, of lines in zigzag. A table travels beside a bundle in its file and is no part of its
//! name: it is for people who read a refusal, and nothing else believes it. Whatever comes in is untrusted: the parser is total,
//! and names of files have no control characters. One table has one spelling.

use super::{Error, Kind};

/// Bytes of a table, at most.
pub const LINES_MAX: usize = 65_536;

/// Bytes of a file's name, and files, at most.
const NAME_MAX: usize = 128;
const FILES_MAX: usize = 64;

const MAGIC: &[u8; 4] = b"ANL1";

/// From some place in a program on, which line it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Byte in a module, or instruction of a bpf program.
    pub at: u32,
    /// Which of the files.
    pub file: u8,
    /// The line, from 1; 0: none is known.
    pub line: u32,
}

/// The table of one bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    files: Vec<String>,
    /// For wasm and for bpf, by place.
    rows: [Vec<Row>; 2],
}

impl Lines {
    /// Adds what is known of a representation: places, each with file and line, in any order.
    pub fn add(&mut self, kind: Kind, mut places: Vec<(u32, String, u32)>) {
        let Some(rows) = index(kind) else { return };
        // Of several for one place the last one counts.
        places.reverse();
        places.sort_by_key(|(at, ..)| *at);
        places.dedup_by_key(|(at, ..)| *at);
        for (at, name, line) in places {
            let Some(file) = self.file(&name) else { continue };
            let row = Row { at, file, line };
            let rows = &mut self.rows[rows];
            if rows.last().is_none_or(|last| (last.file, last.line) != (row.file, row.line)) && rows.len() < 65_535 {
                rows.push(row);
            }
        }
    }

    /// The number of a file; nothing if there are too many.
    fn file(&mut self, name: &str) -> Option<u8> {
        let name = crate::clean::shown(name).to_string();
        let mut end = name.len().min(NAME_MAX);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        let name = &name[..end];
        if let Some(known) = self.files.iter().position(|file| file == name) {
            return u8::try_from(known).ok();
        }
        if self.files.len() == FILES_MAX {
            return None;
        }
        self.files.push(name.to_owned());
        u8::try_from(self.files.len() - 1).ok()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(Vec::is_empty)
    }

    /// File and line of a place, as `prog.c:17`.
    pub fn find(&self, kind: Kind, at: usize) -> Option<String> {
        let rows = &self.rows[index(kind)?];
        let row = rows[..rows.partition_point(|row| row.at as usize <= at)].last()?;
        let file = self.files.get(usize::from(row.file))?;
        (row.line > 0).then(|| format!("{file}:{}", row.line))
    }

    /// Encodes the table; nothing if it is longer than [`LINES_MAX`].
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = MAGIC.to_vec();
        out.push(self.files.len() as u8);
        for file in &self.files {
            out.push(file.len() as u8);
            out.extend_from_slice(file.as_bytes());
        }
        for rows in &self.rows {
            out.extend_from_slice(&(rows.len() as u16).to_be_bytes());
            let mut before = Row { at: 0, file: 0, line: 0 };
            for row in rows {
                leb128(&mut out, row.at - before.at);
                out.push(row.file);
                let step = row.line.wrapping_sub(before.line) as i32;
                leb128(&mut out, (step << 1 ^ step >> 31) as u32);
                before = *row;
            }
        }
        (out.len() <= LINES_MAX).then_some(out)
    }

    /// Decodes a table; total.
    pub fn parse(bytes: &[u8]) -> Result<Lines, Error> {
        let wrong = Error::Lines;
        if bytes.len() > LINES_MAX {
            return Err(wrong);
        }
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(wrong.clone())?;
        let count = byte(&mut rest).ok_or(wrong.clone())?;
        if usize::from(count) > FILES_MAX {
            return Err(wrong);
        }
        let files = (0..count).map(|_| name(&mut rest)).collect::<Option<Vec<_>>>().ok_or(wrong.clone())?;
        let mut rows = [Vec::new(), Vec::new()];
        for list in &mut rows {
            *list = read_rows(&mut rest, count).ok_or(wrong.clone())?;
        }
        let lines = Lines { files, rows };
        // Whatever says the same in other bytes, or nothing, is refused: numbers written longer, for one.
        let one_spelling = rest.is_empty() && !lines.is_empty() && lines.encode().as_deref() == Some(bytes);
        if one_spelling { Ok(lines) } else { Err(wrong) }
    }
}

/// Which list of rows is that of a kind.
fn index(kind: Kind) -> Option<usize> {
    match kind {
        Kind::Wasm => Some(0),
        Kind::Bpf => Some(1),
        Kind::Native => None,
    }
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(*first)
}

fn name(rest: &mut &[u8]) -> Option<String> {
    let length = usize::from(byte(rest)?);
    let (name, after) = rest.split_at_checked(length).filter(|_| length <= NAME_MAX)?;
    *rest = after;
    core::str::from_utf8(name).ok().filter(|name| !name.chars().any(char::is_control)).map(str::to_owned)
}

/// The rows of one representation: places go up, and files exist.
fn read_rows(rest: &mut &[u8], files: u8) -> Option<Vec<Row>> {
    let count = u16::from_be_bytes([byte(rest)?, byte(rest)?]);
    let mut rows: Vec<Row> = Vec::new();
    for _ in 0..count {
        let before = rows.last().copied().unwrap_or(Row { at: 0, file: 0, line: 0 });
        let at = before.at.checked_add(read(rest)?)?;
        let file = byte(rest).filter(|file| *file < files)?;
        let zigzag = read(rest)?;
        let step = (zigzag >> 1) as i32 ^ -((zigzag & 1) as i32);
        if !rows.is_empty() && at == before.at {
            return None;
        }
        rows.push(Row { at, file, line: before.line.wrapping_add(step as u32) });
    }
    Some(rows)
}

/// Writes an unsigned number in LEB128.
pub fn leb128(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn read(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0;
    for shift in [0, 7, 14, 21, 28] {
        let next = byte(rest)?;
        if shift == 28 && next > 15 {
            return None;
        }
        value |= u32::from(next & 0x7f) << shift;
        if next < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Lines {
        let mut lines = Lines::default();
        let rows = [(0, "a.c", 7), (3, "a.c", 7), (4, "anode/capsule.h", 300), (9, "a.c", 2), (12, "a.c", 0)];
        lines.add(Kind::Bpf, rows.map(|(at, file, line)| (at, file.to_owned(), line)).to_vec());
        lines.add(Kind::Wasm, vec![(70_000, "a.c".into(), u32::MAX), (5, "b\x1b[31m.c".into(), 1)]);
        lines
    }

    #[test]
    fn a_place_has_the_line_of_the_row_before_it() {
        let find = |kind, at| table().find(kind, at);
        assert_eq!([0, 3, 5].map(|at| find(Kind::Bpf, at).unwrap()), ["a.c:7", "a.c:7", "anode/capsule.h:300"]);
        assert_eq!((find(Kind::Bpf, 11).unwrap(), find(Kind::Bpf, 12)), ("a.c:2".into(), None));
        assert_eq!((find(Kind::Wasm, 4), find(Kind::Wasm, 6).unwrap()), (None, "b\\u001b[31m.c:1".into()));
        assert_eq!(find(Kind::Native, 0), None);
    }

    #[test]
    fn a_table_survives_its_encoding_and_no_bytes_break_the_parser() {
        let (table, bytes) = (table(), table().encode().unwrap());
        assert_eq!(Lines::parse(&bytes), Ok(table));
        assert!((0..bytes.len()).all(|end| Lines::parse(&bytes[..end]).is_err()));
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut other = bytes.clone();
                other[at] ^= flip;
                if let Ok(lines) = Lines::parse(&other) {
                    assert_eq!(lines.encode().unwrap(), other, "byte {at}");
                }
            }
        }
    }
}
