//! What a configuration is made of: quotes, data, comments, and single bytes.
//!
//! A configuration such as `"a, b", \<0800 45> /* why */` is read three times: where it ends, what stands in it for a variable,
//! and where its arguments end. All three must agree on what is quoted, so they take their pieces from here.

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One byte that means itself.
    Byte(u8),
    /// `"…"`: escapes and variables mean something in it.
    Double,
    /// `'…'`: everything means itself.
    Single,
    /// `\<…>`: bytes in hexadecimal.
    Data,
    /// `// …` up to the end of the line.
    Line,
    /// `/* … */`.
    Block,
    /// `#` at the beginning of a line: a line directive, up to its end.
    Directive,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What it is.
    pub kind: Kind,
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
    /// What it began with was ended.
    pub closed: bool,
}

/// The piece that begins at a byte of a text; none behind its end.
pub fn piece(text: &str, start: usize) -> Option<Piece> {
    let bytes = text.as_bytes();
    let first = *bytes.get(start)?;
    let second = bytes.get(start + 1).copied();
    // A part of a text does not begin a line: a file, which does, has its first directive from `directive`.
    let begins_line = || start.checked_sub(1).and_then(|at| bytes.get(at)).is_some_and(|c| matches!(c, b'\n' | b'\r'));
    let (kind, end, closed) = match (first, second) {
        (b'"', _) => ended(Kind::Double, quote(bytes, start + 1, b'"'), bytes),
        (b'\'', _) => ended(Kind::Single, quote(bytes, start + 1, b'\''), bytes),
        (b'\\', Some(b'<')) => ended(Kind::Data, data(bytes, start + 2), bytes),
        (b'/', Some(b'/')) => (Kind::Line, line_end(bytes, start), true),
        (b'/', Some(b'*')) => ended(Kind::Block, block(bytes, start + 2), bytes),
        (b'#', _) if begins_line() => return Some(directive(text, start)),
        _ => (Kind::Byte(first), start + 1, true),
    };
    Some(Piece { kind, start, end, closed })
}

/// The line directive that begins at a byte.
pub fn directive(text: &str, start: usize) -> Piece {
    Piece { kind: Kind::Directive, start, end: line_end(text.as_bytes(), start), closed: true }
}

/// All pieces of a text.
pub fn pieces(text: &str) -> impl Iterator<Item = Piece> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let found = piece(text, at)?;
        at = found.end;
        Some(found)
    })
}

fn ended(kind: Kind, end: Option<usize>, bytes: &[u8]) -> (Kind, usize, bool) {
    (kind, end.unwrap_or(bytes.len()), end.is_some())
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    rest.iter().position(|c| matches!(c, b'\n' | b'\r')).map_or(bytes.len(), |length| from + length)
}

/// The byte after `*/`.
fn block(bytes: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..).unwrap_or_default();
    rest.windows(2).position(|two| two == b"*/").map(|length| from + length + 2)
}

/// The byte after the quote that ends a string.
fn quote(bytes: &[u8], mut at: usize, end: u8) -> Option<usize> {
    loop {
        match *bytes.get(at)? {
            byte if byte == end => return Some(at + 1),
            b'\\' if end == b'"' && bytes.get(at + 1) == Some(&b'<') => at = data(bytes, at + 2)?,
            b'\\' if end == b'"' => at += 2,
            _ => at += 1,
        }
    }
}

/// The byte after the `>` that ends data; comments may stand in it.
fn data(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (b'>', _) => return Some(at + 1),
            (b'/', Some(b'/')) => at = line_end(bytes, at),
            (b'/', Some(b'*')) => at = block(bytes, at + 2)?,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(Kind, &str, bool)> {
        let rest = pieces(text).filter(|piece| !matches!(piece.kind, Kind::Byte(_)));
        rest.map(|piece| (piece.kind, &text[piece.start..piece.end], piece.closed)).collect()
    }

    #[test]
    fn pieces_hide_what_stands_in_them() {
        assert_eq!(kinds(r#"a "b\")" c"#), [(Kind::Double, r#""b\")""#, true)]);
        assert_eq!(kinds(r"'b\' c"), [(Kind::Single, r"'b\'", true)]);
        assert_eq!(kinds(r"\<08 /* > */ 00> x"), [(Kind::Data, r"\<08 /* > */ 00>", true)]);
        assert_eq!(kinds(r#""\<22">" x"#), [(Kind::Double, r#""\<22">""#, true)]);
        assert_eq!(kinds("a // b ' \" \nc"), [(Kind::Line, "// b ' \" ", true)]);
        assert_eq!(kinds("#\n# 1 \"x\ny # 2"), [(Kind::Directive, "# 1 \"x", true)]);
    }

    #[test]
    fn what_does_not_end_goes_to_the_end() {
        for text in ["\"abc", "'a", "/* a *", "\\<00", "\"a\\", "\"\\<00\"", "\\</* >"] {
            let found = kinds(text);
            assert!(matches!(found[..], [(_, all, false)] if all == text), "{text}: {found:?}");
        }
    }
}
