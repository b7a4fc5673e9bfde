//! The texts of a program: one file, or several that are one program.
//!
//! All texts stand in one, each ended by a line feed, so that a place is a number everywhere; here places become files,
//! lines and columns again. Each file is read by itself: what it leaves open is not closed by the next.
//!
//! A file may begin with text that nobody wrote, such as `fun first'() = ` before a call from a command line; it counts
//! as text and is not shown.

use crate::span::Span;
use core::ops::Range;

/// One text.
#[derive(Clone, Debug)]
struct File {
    name: String,
    /// Where it begins in the whole, and where what is shown of it does.
    start: usize,
    shown: usize,
    end: usize,
}

/// The texts of a program.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    text: String,
    files: Vec<File>,
}

/// A place, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The file's name.
    pub file: &'a str,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The text of the line.
    pub text: &'a str,
    /// Bytes of it before the place.
    pub before: usize,
}

impl Sources {
    /// A program of one file.
    pub fn one(name: &str, text: &str) -> Sources {
        let mut sources = Sources::default();
        sources.add(name, "", text);
        sources
    }

    /// Adds a file; `hidden` is text before it that nobody wrote.
    pub fn add(&mut self, name: &str, hidden: &str, text: &str) {
        let start = self.text.len();
        self.text += hidden;
        let shown = self.text.len();
        self.text += text;
        let end = self.text.len();
        self.files.push(File { name: name.into(), start, shown, end });
        self.text.push('\n');
    }

    /// The same texts and names in other letters; a text that would change its length stays.
    pub fn shown_as(&self, name: impl Fn(&str) -> String, text: impl Fn(&str) -> String) -> Sources {
        let cleaned = text(&self.text);
        let kept = if cleaned.len() == self.text.len() { cleaned } else { self.text.clone() };
        let files = self.files.iter().map(|file| File { name: name(&file.name), ..file.clone() }).collect();
        Sources { text: kept, files }
    }

    /// All texts.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where each file is in it.
    pub fn parts(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.files.iter().map(|file| file.start..file.end)
    }

    fn file(&self, at: usize) -> Option<&File> {
        self.files.iter().rev().find(|file| file.start <= at).or(self.files.first())
    }

    /// Where a span begins.
    pub fn place(&self, span: Span) -> Place<'_> {
        let Some(file) = self.file(span.start as usize) else {
            return Place { file: "", line: 1, column: 1, text: "", before: 0 };
        };
        let shown = self.text.get(file.shown..file.end).unwrap_or("");
        let mut at = (span.start as usize).clamp(file.shown, file.end) - file.shown;
        while !shown.is_char_boundary(at) {
            at -= 1;
        }
        let (before, after) = shown.split_at(at);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let end = at + after.find('\n').unwrap_or(after.len());
        let column = before[start..].chars().count() + 1;
        Place { file: &file.name, line, column, text: &shown[start..end], before: at - start }
    }

    /// Which file a span begins in, and the bytes in it from its beginning to the span's.
    pub fn offset(&self, span: Span) -> (&str, usize) {
        let at = span.start as usize;
        self.file(at).map_or(("", 0), |file| (file.name.as_str(), at.saturating_sub(file.shown)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_of_their_files_and_what_nobody_wrote_is_not_shown() {
        let mut sources = Sources::one("a", "one\ntwo");
        sources.add("b", "hidden ", "x\u{e9}y\nz");
        let at = |text: &str| sources.text().find(text).unwrap();
        let place = |text: &str| sources.place(Span::new(at(text), at(text) + 1));
        assert_eq!(place("wo"), Place { file: "a", line: 2, column: 2, text: "two", before: 1 });
        assert_eq!(place("y\nz"), Place { file: "b", line: 1, column: 3, text: "x\u{e9}y", before: 3 });
        assert_eq!((place("z").line, place("z").column, place("hidden").column), (2, 1, 1));
        assert_eq!(sources.offset(Span::new(at("z"), at("z"))), ("b", 5));
        let end = sources.place(Span::new(usize::MAX, usize::MAX));
        assert_eq!((end.file, end.line, end.column), ("b", 2, 2));
        assert_eq!(Sources::default().place(Span::NOWHERE).line, 1);
    }
}
