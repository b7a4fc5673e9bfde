//! The canonical form of source text.
//!
//! The syntax tree says how tokens are laid out; the tokens themselves, with their comments, are taken in order
//! from the source. So the formatted text has the same tokens and comments as the source, whatever the layout,
//! and formatting it again changes nothing.

mod comments;
mod definitions;
mod doc;
mod exprs;

use crate::diagnostic::Diagnostic;
use crate::syntax::token::{Spanned, Token};
use crate::syntax::{Parsed, parse};
use comments::{Placed, place};
use doc::Doc;

/// The width that lines should not exceed.
pub const WIDTH: usize = 100;

/// Formats a program; what is wrong with its form, if it cannot be parsed.
pub fn format(source: &str) -> Result<String, Vec<Diagnostic>> {
    let Parsed { program, tokens, comments, diagnostics } = parse(source);
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let comments = place(source, &tokens, &comments);
    let mut printer = Printer { source, tokens: &tokens, comments: &comments, at: 0, led: 0, lets: 0 };
    let mut docs = printer.definitions(&program.definitions);
    // The end of the text has no text, but the last comments stand before it.
    while printer.at < tokens.len() {
        docs.push(printer.token());
    }
    Ok(doc::render(&Doc::cat(docs), WIDTH))
}

struct Printer<'a> {
    source: &'a str,
    tokens: &'a [Spanned],
    comments: &'a [Placed],
    at: usize,
    /// The comments before this many tokens have been taken.
    led: usize,
    /// How many `let`s are around.
    lets: usize,
}

impl Printer<'_> {
    /// The next token, with its comments.
    fn token(&mut self) -> Doc {
        let Some(spanned) = self.tokens.get(self.at) else { return Doc::nothing() };
        let text = spanned.span.text(self.source);
        let mut docs = vec![self.lead(), Doc::text(text)];
        let before = docs.len();
        for comment in self.comments_at(self.at + 1).filter(|comment| comment.trailing) {
            docs.extend([Doc::text(" "), Doc::text(comment.span.text(self.source))]);
        }
        self.at += 1;
        // After a definition of the program comes a new line anyway.
        if docs.len() > before && !(self.lets == 0 && self.between_definitions()) {
            docs.push(Doc::hard());
        }
        Doc::cat(docs)
    }

    /// The comments before the next token, once: outside of whatever group the token begins.
    fn lead(&mut self) -> Doc {
        let Some(spanned) = self.tokens.get(self.at).filter(|_| self.led <= self.at) else { return Doc::nothing() };
        let closes = matches!(spanned.span.text(self.source), ")" | "]" | "," | ";");
        let comments = self.comments_at(self.at).filter(|comment| !comment.trailing);
        let docs = comments.flat_map(|comment| self.leading(comment, closes)).collect();
        self.led = self.at + 1;
        Doc::cat(docs)
    }

    fn between_definitions(&self) -> bool {
        let next = self.tokens.get(self.at).map_or(Token::End, |spanned| spanned.token);
        matches!(next, Token::End | Token::Word("fun" | "val" | "exception" | "svc"))
    }

    fn comments_at(&self, before: usize) -> impl Iterator<Item = &Placed> {
        self.comments.iter().filter(move |comment| comment.before == before)
    }

    fn leading(&self, comment: &Placed, closes: bool) -> Vec<Doc> {
        let text = Doc::text(comment.span.text(self.source));
        match (comment.alone, closes) {
            (true, _) => {
                let after = if comment.blank_after { Doc::blank() } else { Doc::hard() };
                vec![Doc::hard(), text, after]
            }
            (false, true) => vec![Doc::text(" "), text],
            (false, false) => vec![text, Doc::text(" ")],
        }
    }

    /// So many tokens without space between.
    fn tokens(&mut self, count: usize) -> Doc {
        Doc::cat((0..count).map(|_| self.token()).collect())
    }

    /// Whether an empty line stands before the next token or the comments before it.
    fn blank_before(&self) -> bool {
        let Some(next) = self.tokens.get(self.at) else { return false };
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |last| last.span.end);
        let trailing = self.comments_at(self.at).filter(|comment| comment.trailing).map(|comment| comment.span.end);
        let first = self.comments_at(self.at).filter(|comment| !comment.trailing).map(|comment| comment.span.start);
        let start = trailing.last().unwrap_or(last) as usize;
        let end = first.min().unwrap_or(next.span.start) as usize;
        self.source.get(start..end).is_some_and(|between| between.matches('\n').count() > 1)
    }

    fn ended(&self) -> bool {
        self.tokens.get(self.at).is_none_or(|spanned| spanned.token == Token::End)
    }
}
