//! Text that remembers where each of its bytes was written.
//!
//! In `Counter($rate)` with the parameter `5k`, the class reads `5k`. If that is wrong, the caret belongs under the `5k` where the
//! compound is used, and another mark under `$rate`. So substituted text carries the places of what was put in.

use crate::span::Span;
use crate::syntax::scan::{Kind, pieces};
use core::ops::Range;

/// A run of bytes from one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    /// Its first byte in the text.
    at: usize,
    /// That byte in the source.
    source: u32,
    /// The variable that it was put in for.
    variable: Option<Span>,
}

/// A configuration, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    text: String,
    runs: Vec<Run>,
}

impl Text {
    /// What stands at a place of the source, without comments and line directives.
    pub(crate) fn written(source: &str, span: Span) -> Text {
        let mut text = Text::default();
        let whole = span.text(source);
        for piece in pieces(whole) {
            let from = span.start + piece.start as u32;
            match piece.kind {
                Kind::Line | Kind::Block => text.push(" ", from, None),
                Kind::Directive => {}
                _ => text.push_bytes(whole, piece.start..piece.end, from),
            }
        }
        text
    }

    /// What is between the parentheses of a configuration.
    pub(crate) fn inside(source: &str, config: Span) -> Text {
        let end = config.end.saturating_sub(1).max(config.start + 1);
        Text::written(source, Span { start: config.start + 1, end })
    }

    /// Text that stands in no source, such as a definition of the caller.
    pub(crate) fn foreign(text: &str) -> Text {
        Text { text: text.to_owned(), runs: vec![] }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Bytes that this text keeps occupied.
    pub(crate) fn size(&self) -> usize {
        self.text.len() + self.runs.len() * size_of::<Run>()
    }

    /// Appends text from a place.
    pub(crate) fn push(&mut self, text: &str, source: u32, variable: Option<Span>) {
        let at = self.text.len();
        let goes_on = self.runs.last().is_some_and(|last| {
            last.variable == variable && u64::from(last.source) + (at - last.at) as u64 == u64::from(source)
        });
        if !goes_on && !text.is_empty() {
            self.runs.push(Run { at, source, variable });
        }
        self.text += text;
    }

    /// Appends bytes of a text; a piece may be a part of a character.
    fn push_bytes(&mut self, whole: &str, range: Range<usize>, source: u32) {
        if let Some(text) = whole.get(range.clone()) {
            return self.push(text, source, None);
        }
        // The first byte of a character brings the others along.
        let first = whole.get(range.start..).and_then(|rest| rest.chars().next());
        if let Some(first) = first {
            self.push(first.encode_utf8(&mut [0; 4]), source, None);
        }
    }

    /// Appends a part of another text, in place of a variable if there is one.
    pub(crate) fn push_part(&mut self, other: &Text, range: Range<usize>, variable: Option<Span>) {
        let mut at = range.start;
        while at < range.end {
            let index = other.runs.partition_point(|run| run.at <= at);
            let end = other.runs.get(index).map_or(range.end, |next| next.at.min(range.end));
            let text = other.text.get(at..end).unwrap_or("");
            match index.checked_sub(1).and_then(|index| other.runs.get(index)) {
                Some(run) => self.push(text, run.source + (at - run.at) as u32, variable.or(run.variable)),
                // Text of no source stands where the variable does.
                None => self.push(text, variable.map_or(0, |span| span.start), variable),
            }
            at = end;
        }
    }

    fn run(&self, at: usize) -> Option<&Run> {
        let index = self.runs.partition_point(|run| run.at <= at);
        index.checked_sub(1).and_then(|index| self.runs.get(index))
    }

    /// Where a part of it was written; if in several places, where it is used.
    pub(crate) fn span(&self, range: Range<usize>) -> Span {
        let (Some(first), Some(last)) = (self.run(range.start), self.run(range.end.saturating_sub(1).max(range.start)))
        else {
            return Span::NOWHERE;
        };
        let start = first.source as usize + range.start - first.at;
        let end = last.source as usize + range.end.max(last.at) - last.at;
        let together = end >= start && end - start == range.len() && first.variable == last.variable;
        if together { Span::new(start, end) } else { self.used(range) }
    }

    /// Where a part of it is used: the places of the variables, if it came from some.
    pub(crate) fn used(&self, range: Range<usize>) -> Span {
        let (Some(first), Some(last)) = (self.run(range.start), self.run(range.end.saturating_sub(1).max(range.start)))
        else {
            return Span::NOWHERE;
        };
        let start = first.variable.map_or(first.source as usize + range.start - first.at, |span| span.start as usize);
        let end =
            last.variable.map_or(last.source as usize + range.end.max(last.at) - last.at, |span| span.end as usize);
        Span::new(start, end.max(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_know_where_they_were_written() {
        let source = "A(one /* x */ two)";
        let text = Text::inside(source, Span::new(1, source.len()));
        assert_eq!(text.as_str(), "one   two");
        assert_eq!(text.span(0..3).text(source), "one");
        assert_eq!(text.span(6..9).text(source), "two");
        assert_eq!(text.span(0..9).text(source), "one /* x */ two");
        let accented = Text::written("é/**/à", Span::new(0, 8));
        assert_eq!(accented.as_str(), "é à");
    }

    #[test]
    fn what_was_put_in_has_two_places() {
        let source = "A($x b) with 5k";
        let (mut text, written) = (Text::default(), Text::inside(source, Span::new(1, 7)));
        let value = Text::written(source, Span::new(13, 15));
        text.push_part(&value, 0..2, Some(Span::new(2, 4)));
        text.push_part(&written, 2..4, None);
        assert_eq!(text.as_str(), "5k b");
        assert_eq!((text.span(0..2).text(source), text.used(0..2).text(source)), ("5k", "$x"));
        assert_eq!(text.span(0..4).text(source), "$x b");
        assert_eq!(text.span(3..4).text(source), "b");
    }
}
