//! Tokens in their order onto the page, each with the comments before it.
//!
//! A comment behind a token on its line stays there; one alone on its line stays alone. Semicolons of the source are left out:
//! the printer writes its own, so that every statement has one.

use crate::span::Span;
use crate::syntax::token::{Comment, Spanned, Token};

/// Spaces of a step to the right.
pub(super) const STEP: usize = 4;

/// What stands before a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    Nothing,
    Space,
    Line,
    /// A new line, and an empty one before it if the source has one.
    Statement,
}

pub(super) struct Cursor<'a> {
    pub source: &'a str,
    pub tokens: &'a [Spanned],
    comments: &'a [Comment],
    /// The next token and the next comment.
    pub at: usize,
    comment: usize,
    /// Where what was printed last ends in the source.
    last: usize,
    out: String,
    /// Where its last line begins.
    line: usize,
    pub indent: usize,
    /// Nothing was printed since a bracket was opened.
    opened: bool,
    /// Nothing may follow on this line: a comment goes to its end.
    ended: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(source: &'a str, tokens: &'a [Spanned], comments: &'a [Comment]) -> Cursor<'a> {
        let (out, indent) = (String::new(), 0);
        Cursor {
            source,
            tokens,
            comments,
            at: 0,
            comment: 0,
            last: 0,
            out,
            line: 0,
            indent,
            opened: true,
            ended: false,
        }
    }

    fn lines(&self, from: usize, to: usize) -> usize {
        self.source.get(from..to).map_or(0, |between| between.bytes().filter(|c| *c == b'\n').count())
    }

    pub(super) fn peek(&self) -> Token {
        self.tokens.get(self.at).map_or(Token::End, |spanned| spanned.token)
    }

    fn span(&self) -> Span {
        let end = Span::new(self.source.len(), self.source.len());
        self.tokens.get(self.at).map_or(end, |spanned| spanned.span)
    }

    /// Writes text where the last one ends.
    pub(super) fn write(&mut self, text: &str) {
        if let Some(at) = text.rfind('\n') {
            self.line = self.out.len() + at + 1;
        }
        self.out.push_str(text);
    }

    /// Bytes of the line that is being written.
    pub(super) fn column(&self) -> usize {
        self.out.len() - self.line
    }

    /// Spaces at the beginning of the line that is being written.
    pub(super) fn line_indent(&self) -> usize {
        let line = self.out.as_bytes().get(self.line..).unwrap_or_default();
        line.iter().take_while(|c| **c == b' ').count()
    }

    fn new_line(&mut self, blank: bool) {
        if self.out.is_empty() {
            return;
        }
        self.write(if blank && !self.opened { "\n\n" } else { "\n" });
        self.write(&" ".repeat(self.indent));
    }

    /// Prints the comments before the next token; what the token needs before it because of them.
    pub(super) fn comments(&mut self, gap: Gap) -> Gap {
        let wanted = gap;
        let mut gap = gap;
        loop {
            gap = self.comments_here(gap, wanted);
            if self.peek() != Token::Sign(";") {
                return gap;
            }
            self.last = self.span().end as usize;
            self.at += 1;
        }
    }

    fn comments_here(&mut self, gap: Gap, wanted: Gap) -> Gap {
        let mut gap = gap;
        while let Some(comment) = self.comments.get(self.comment).filter(|comment| comment.before <= self.at) {
            let (start, end) = (comment.span.start as usize, comment.span.end as usize);
            let text = comment.span.text(self.source);
            let text = if comment.to_line_end { text.trim_end() } else { text };
            let before = self.lines(self.last, start);
            let trails = before == 0 && !self.out.is_empty() && !self.ended;
            if trails {
                self.write(" ");
            } else {
                let indent = self.indent;
                self.indent = if text.starts_with('#') { 0 } else { indent };
                self.new_line(before > 1 && wanted == Gap::Statement);
                self.indent = indent;
            }
            self.write(text);
            (self.comment, self.last, self.opened) = (self.comment + 1, end, false);
            self.ended = comment.to_line_end;
            let next = self.comments.get(self.comment).filter(|other| other.before == comment.before);
            let next = next.map_or(self.span().start, |next| next.span.start) as usize;
            let breaks = comment.to_line_end || self.lines(end, next) > 0;
            gap = match (breaks, trails) {
                (true, _) => wanted.max(Gap::Line),
                (false, true) => wanted.max(Gap::Space),
                (false, false) => Gap::Space,
            };
        }
        gap
    }

    /// Prints the next token.
    pub(super) fn token(&mut self, gap: Gap) {
        let text = self.tokens.get(self.at + self.semicolons()).map_or("", |spanned| spanned.span.text(self.source));
        self.token_as(gap, |_| text.to_owned());
    }

    /// Where the next token begins.
    pub(super) fn start(&self) -> u32 {
        self.tokens.get(self.at + self.semicolons()).map_or(0, |spanned| spanned.span.start)
    }

    fn semicolons(&self) -> usize {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        rest.iter().take_while(|spanned| spanned.token == Token::Sign(";")).count()
    }

    /// Prints the next token as some other text.
    pub(super) fn token_as(&mut self, gap: Gap, text: impl FnOnce(&Cursor<'_>) -> String) {
        let gap = self.comments(gap);
        let span = self.span();
        match gap {
            Gap::Nothing => {}
            Gap::Space => self.out.push(' '),
            Gap::Line => self.new_line(false),
            Gap::Statement => self.new_line(self.lines(self.last, span.start as usize) > 1),
        }
        let text = text(self);
        self.write(&text);
        (self.at, self.last, self.opened, self.ended) = (self.at + 1, span.end as usize, false, false);
    }

    /// A bracket was opened: no empty line follows.
    pub(super) fn open(&mut self) {
        self.opened = true;
    }

    /// Prints what is left, and ends the last line.
    pub(super) fn finish(mut self) -> String {
        self.comments(Gap::Statement);
        if !self.out.is_empty() {
            self.write("\n");
        }
        self.out
    }

    /// Whether a line ends in the source between the last token and the one that stands so many behind the next.
    pub(super) fn breaks_before(&self, ahead: usize) -> bool {
        let next = self.tokens.get(self.at + ahead).map_or(self.last, |spanned| spanned.span.start as usize);
        self.lines(self.last, next) > 0
    }

    /// Whether a comment stands in a range of the source.
    pub(super) fn has_comment(&self, span: Span) -> bool {
        let first = self.comments.partition_point(|comment| comment.span.start < span.start);
        self.comments.get(first).is_some_and(|comment| comment.span.start < span.end)
    }
}
