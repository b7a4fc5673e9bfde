//! Places of comments: alone on their lines, behind a token, or before one on the same line.

use crate::span::Span;
use crate::syntax::token::{Comment, Spanned, Token};

/// A comment and how it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub span: Span,
    /// How many tokens stand before it.
    pub before: usize,
    /// No token stands on its line.
    pub alone: bool,
    /// A token stands before it on its line, and none after it.
    pub trailing: bool,
    /// An empty line follows.
    pub blank_after: bool,
}

/// Works out how each comment stands. Comments that follow each other on a line stand alike.
pub(super) fn place(source: &str, tokens: &[Spanned], comments: &[Comment]) -> Vec<Placed> {
    let newlines = |start: u32, end: u32| {
        source.get(start as usize..end as usize).map_or(0, |between| between.bytes().filter(|c| *c == b'\n').count())
    };
    // Forwards: whether a token stands before on the line.
    let mut has_before = Vec::with_capacity(comments.len());
    for (at, comment) in comments.iter().enumerate() {
        let token = comment.before.checked_sub(1).and_then(|at| tokens.get(at)).map(|spanned| spanned.span.end);
        let previous = at.checked_sub(1).and_then(|at| comments.get(at)).filter(|other| other.before == comment.before);
        has_before.push(match previous {
            Some(other) => {
                let same = newlines(other.span.end, comment.span.start) == 0;
                same && has_before.last().copied().unwrap_or(false)
            }
            None => token.is_some_and(|end| newlines(end, comment.span.start) == 0),
        });
    }
    // Backwards: whether one stands after.
    let mut placed: Vec<Placed> = Vec::with_capacity(comments.len());
    let mut after_is_token = false;
    for (at, comment) in comments.iter().enumerate().rev() {
        let token = tokens.get(comment.before).filter(|spanned| spanned.token != Token::End);
        let next = comments.get(at + 1).filter(|other| other.before == comment.before);
        let end = comment.span.end;
        let (start, is_token) = match (next, token) {
            (Some(other), _) => (other.span.start, after_is_token),
            (None, Some(token)) => (token.span.start, true),
            (None, None) => (source.len() as u32, false),
        };
        let lines = newlines(end, start);
        after_is_token = is_token && lines == 0;
        let has_before = has_before.get(at).copied().unwrap_or(false);
        placed.push(Placed {
            span: comment.span,
            before: comment.before,
            alone: !has_before && !after_is_token,
            trailing: has_before && !after_is_token,
            blank_after: lines > 1,
        });
    }
    placed.reverse();
    placed
}
