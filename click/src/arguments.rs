//! Arguments of an element: its configuration, split at commas.
//!
//! `Queue(10, "a, b", RATE 5)` has three arguments: `10`, `"a, b"` and `RATE 5`. A comma in quotes or in `\<…>` splits nothing, one in
//! parentheses does. Space around an argument goes, and so does an empty last one. Quotes stay: what they mean is the class's
//! business, for which [`bytes`], [`words`] and [`Argument::keyword`] are here.

use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::syntax::scan::{Kind, piece, pieces};
use crate::text::Text;
use core::ops::Range;

/// One argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// What the class reads: without comments, variables replaced.
    pub text: String,
    /// Where that was written.
    pub span: Span,
    /// Where it is used: the variable in a compound whose value it is, else the same place.
    pub used: Span,
}

impl Argument {
    /// What a class finds wrong with it: at the place where it was written, and where it is used if that is another one.
    pub fn wrong(&self, message: impl Into<String>, label: impl Into<String>) -> Diagnostic {
        let what = Diagnostic::new(self.span, message, label);
        if self.used == self.span { what } else { what.other(self.used, "used here") }
    }

    /// An argument given by a keyword, `RATE 5`: the keyword and what follows it. Keywords are in capitals.
    pub fn keyword(&self) -> Option<(&str, &str)> {
        let capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let end = self.text.find(|c| !capital(c)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        let right = word.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
        let ends = rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace());
        (right && ends).then_some((word, rest.trim()))
    }
}

/// Where the arguments of a text begin and end, without the space around them.
pub(crate) fn ranges(text: &str) -> Vec<Range<usize>> {
    let (mut found, mut start) = (Vec::new(), 0);
    for piece in pieces(text) {
        if piece.kind == Kind::Byte(b',') {
            found.push(trimmed(text, start..piece.start));
            start = piece.end;
        }
    }
    let last = trimmed(text, start..text.len());
    if !last.is_empty() {
        found.push(last);
    }
    found
}

/// Without space and comments at both ends.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = text.get(range.clone()).unwrap_or("");
    let (mut first, mut last) = (None, 0);
    for piece in pieces(part) {
        let matters = match piece.kind {
            Kind::Byte(byte) => !byte.is_ascii_whitespace() && byte != 0x0b,
            Kind::Line | Kind::Block => false,
            // The beginning of a part is not the beginning of a line.
            _ => true,
        };
        if matters {
            first = first.or(Some(piece.start));
            last = piece.end;
        }
    }
    first.map_or(range.start..range.start, |first| range.start + first..range.start + last)
}

/// A part of a text without its comments, each of which is a space.
fn uncommented(part: &str) -> String {
    let (mut text, mut from) = (String::new(), 0);
    for piece in pieces(part).filter(|piece| matches!(piece.kind, Kind::Line | Kind::Block)) {
        text += part.get(from..piece.start).unwrap_or("");
        text.push(' ');
        from = piece.end;
    }
    text + part.get(from..).unwrap_or("")
}

pub(crate) fn parts(text: &Text) -> Vec<(Range<usize>, Argument)> {
    let argument = |range: Range<usize>| {
        let part = text.as_str().get(range.clone()).unwrap_or("");
        let (span, used) = (text.span(range.clone()), text.used(range.clone()));
        (range, Argument { text: uncommented(part), span, used })
    };
    ranges(text.as_str()).into_iter().map(argument).collect()
}

/// Arguments of a plain text, without places.
pub fn split(text: &str) -> Vec<String> {
    ranges(text).into_iter().map(|range| uncommented(text.get(range).unwrap_or(""))).collect()
}

/// The words of an argument: split at space that is in no quotes.
pub fn words(argument: &str) -> Vec<&str> {
    let (mut words, mut start) = (Vec::new(), None);
    for piece in pieces(argument) {
        let space = match piece.kind {
            Kind::Byte(byte) => byte.is_ascii_whitespace() || byte == 0x0b,
            kind => matches!(kind, Kind::Line | Kind::Block),
        };
        match (space, start) {
            (false, None) => start = Some(piece.start),
            (true, Some(from)) => {
                words.extend(argument.get(from..piece.start));
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.and_then(|from| argument.get(from..)));
    words
}

/// The bytes that an argument or word stands for: without quotes, with the bytes of `\<…>` and of escapes in double quotes.
/// None if a quote does not end or data is not in pairs of hexadecimal digits.
pub fn bytes(word: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut at) = (Vec::new(), 0);
    while let Some(found) = piece(word, at) {
        let inner = |before: usize| word.get(found.start + before..found.end - 1);
        match found.kind {
            _ if !found.closed => return None,
            Kind::Single => bytes.extend(inner(1)?.bytes()),
            Kind::Double => escaped(inner(1)?, &mut bytes)?,
            Kind::Data => data(inner(2)?, &mut bytes)?,
            _ => bytes.extend(word.as_bytes().get(found.start..found.end)?),
        }
        at = found.end;
    }
    Some(bytes)
}

/// The inside of a string in double quotes.
fn escaped(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let all = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = all.get(at) {
        if byte != b'\\' {
            bytes.push(byte);
            at += 1;
            continue;
        }
        let length = match *all.get(at + 1)? {
            b'<' => {
                let found = piece(text, at)?;
                data(text.get(at + 2..found.end - 1)?, bytes)?;
                found.end - at
            }
            b'x' => {
                let digits = all.get(at + 2..)?.iter().take_while(|c| c.is_ascii_hexdigit()).count();
                let last = text.get(at + 2..at + 2 + digits)?;
                let last = last.get(last.len().saturating_sub(2)..)?;
                bytes.push(u8::from_str_radix(last, 16).ok()?);
                2 + digits
            }
            b'0'..=b'7' => {
                let digits = all.get(at + 1..)?.iter().take(3).take_while(|c| (b'0'..=b'7').contains(c)).count();
                let number = u16::from_str_radix(text.get(at + 1..at + 1 + digits)?, 8).ok()?;
                bytes.push((number & 0xff) as u8);
                1 + digits
            }
            b'\r' if all.get(at + 2) == Some(&b'\n') => 3,
            b'\n' | b'\r' => 2,
            other => {
                bytes.push(plain(other));
                2
            }
        };
        at += length;
    }
    Some(())
}

/// What a letter behind a backslash stands for.
fn plain(letter: u8) -> u8 {
    match letter {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        other => other,
    }
}

/// The inside of `\<…>`.
fn data(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    let mut half = None;
    for piece in pieces(text) {
        match (piece.kind, half) {
            (Kind::Line | Kind::Block, _) => {}
            (Kind::Byte(c), _) if c.is_ascii_whitespace() => {}
            (Kind::Byte(c), None) => half = Some(char::from(c).to_digit(16)?),
            (Kind::Byte(c), Some(high)) => {
                bytes.push((high << 4 | char::from(c).to_digit(16)?) as u8);
                half = None;
            }
            _ => return None,
        }
    }
    half.is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_split_where_they_mean_themselves() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            (" /* none */ ", &[]),
            ("a, b ,c", &["a", "b", "c"]),
            ("a,,b,", &["a", "", "b"]),
            (",", &[""]),
            (r#""a, b", 'c, d', \<2c /*,*/ 2c>"#, &[r#""a, b""#, "'c, d'", r"\<2c /*,*/ 2c>"]),
            ("f(a, b)", &["f(a", "b)"]),
            ("a // x, y\n b, c/* , */d", &["a  \n b", "c d"]),
        ];
        for (text, expected) in cases {
            assert_eq!(split(text), *expected, "{text}");
        }
    }

    #[test]
    fn words_are_split_at_space() {
        assert_eq!(words("  a \"b c\"d\t'e f' "), ["a", "\"b c\"d", "'e f'"]);
        assert!(words(" ").is_empty());
    }

    #[test]
    fn a_keyword_is_in_capitals_and_stands_first() {
        let argument = |text: &str| Argument { text: text.into(), span: Span::NOWHERE, used: Span::NOWHERE };
        assert_eq!(argument("RATE  5 k").keyword(), Some(("RATE", "5 k")));
        assert_eq!(argument("STOP").keyword(), Some(("STOP", "")));
        for none in ["rate 5", "5", "", "RATE5x", "\"A\" b", "10 A"] {
            assert_eq!(argument(none).keyword(), None, "{none}");
        }
    }

    #[test]
    fn quotes_escapes_and_data_are_bytes() {
        let cases: &[(&str, Option<&[u8]>)] = &[
            ("a", Some(b"a")),
            (r#"a"b c"'d'"#, Some(b"ab cd")),
            (r#""\n\t\\\"\101\x00041""#, Some(b"\n\t\\\"AA")),
            (r"'\n'", Some(br"\n")),
            (r"\<0800 4 5>x", Some(b"\x08\x00\x45x")),
            ("\"a\\<62>\\\nc\"", Some(b"abc")),
            (r"\<08 0>", None),
            (r"\<zz>", None),
            ("\"a", None),
            (r#""\xg""#, None),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text).as_deref(), *expected, "{text}");
        }
    }
}
