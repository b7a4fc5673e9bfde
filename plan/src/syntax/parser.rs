//! Tokens to syntax tree: definitions, and recovery after a mistake.
//!
//! Recursive descent, one token of look-ahead. A mistake is reported where it is, once; then tokens are
//! left out up to one at which something begins or ends (`fun`, `;`, `)`, `end` …) and parsing goes on
//! there, so that the next report is about another mistake. Nesting is bounded, so neither parsing a
//! text nor walking its tree can exhaust the stack.

use super::ast::{Definition, DefinitionKind, Expr, ExprKind, Ident, Program, Type};
use super::lexer::{Lexed, lex, lex_part};
use super::token::{Comment, Spanned, Token};
use crate::code::PARAMS_MAX;
use crate::diagnostic::Diagnostic;
use crate::span::Span;
use core::ops::Range;

/// A program as it was written, and what is wrong with its form.
#[derive(Debug)]
pub struct Parsed {
    /// The tree, with errors marked in it.
    pub program: Program,
    /// The tokens it was made from.
    pub tokens: Vec<Spanned>,
    /// The comments between them.
    pub comments: Vec<Comment>,
    /// What is wrong; empty if the form is right.
    pub diagnostics: Vec<Diagnostic>,
}

/// Parses a program.
pub fn parse(source: &str) -> Parsed {
    parse_part(source, 0..source.len())
}

/// Parses a part of a text, such as one file of several. Places are those in the whole text.
pub fn parse_part(source: &str, part: Range<usize>) -> Parsed {
    let Lexed { tokens, comments, diagnostics } = lex_part(source, part);
    let mut parser = Parser { source, tokens: &tokens, at: 0, depth: 0, reported: None, diagnostics };
    let program = parser.program();
    let mut diagnostics = parser.diagnostics;
    leave_followers_out(&mut diagnostics, &tokens);
    Parsed { program, tokens, comments, diagnostics }
}

/// A string or comment that does not end hides what follows, up to the next definition: brackets close in it.
fn leave_followers_out(diagnostics: &mut Vec<Diagnostic>, tokens: &[Spanned]) {
    let ends = |known: &&Diagnostic| known.message.ends_with(" does not end");
    let Some(first) = diagnostics.iter().find(ends).map(|known| known.span.start) else { return };
    let before = tokens.iter().filter(|it| it.token != Token::End && it.span.end <= first);
    let begin = before.map(|it| it.span.end).max().unwrap_or(first);
    let next = tokens.iter().find(|it| it.span.start > first && BEGINNINGS.contains(&it.token));
    let next = next.map_or(u32::MAX, |it| it.span.start);
    diagnostics.retain(|it| {
        let last = it.other.as_ref().map_or(it.span.start, |(other, _)| it.span.start.max(other.start));
        it.span.start == first || !(begin..=next).contains(&last)
    });
}

/// Parses a type alone.
pub fn parse_type(source: &str) -> Option<Type> {
    let Lexed { tokens, diagnostics, .. } = lex(source);
    let mut parser = Parser { source, tokens: &tokens, at: 0, depth: 0, reported: None, diagnostics };
    let kind = parser.type_();
    (parser.diagnostics.is_empty() && parser.peek() == Token::End).then_some(kind)
}

pub(super) struct Parser<'a> {
    pub(super) source: &'a str,
    tokens: &'a [Spanned],
    at: usize,
    pub(super) depth: u16,
    /// The token of the last report, so that each is blamed once.
    reported: Option<usize>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Words at which a definition begins.
const BEGINNINGS: &[Token] = &[Token::Word("fun"), Token::Word("val"), Token::Word("exception"), Token::Word("svc")];
/// Tokens at which parsing can go on inside an expression.
const STOPS: &[Token] = &[
    Token::Sign(")"),
    Token::Sign("]"),
    Token::Sign(","),
    Token::Sign(";"),
    Token::Sign("=>"),
    Token::Word("in"),
    Token::Word("end"),
    Token::Word("then"),
    Token::Word("else"),
    Token::Word("handle"),
    Token::End,
];

impl Parser<'_> {
    fn spanned(&self) -> Spanned {
        let end = Spanned { token: Token::End, span: Span::new(self.source.len(), self.source.len()) };
        self.tokens.get(self.at).copied().unwrap_or(end)
    }

    pub(super) fn peek(&self) -> Token {
        self.spanned().token
    }

    pub(super) fn span(&self) -> Span {
        self.spanned().span
    }

    /// Where the next token is; at the end of the text, behind the last one.
    pub(super) fn here(&self) -> Span {
        match self.peek() {
            Token::End => self
                .at
                .checked_sub(1)
                .and_then(|at| self.tokens.get(at))
                .map_or(self.span(), |last| Span { start: last.span.end, end: last.span.end }),
            _ => self.span(),
        }
    }

    /// From a place to the end of the token before this one.
    pub(super) fn since(&self, start: Span) -> Span {
        let last = self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(start, |spanned| spanned.span);
        start.to(last)
    }

    pub(super) fn next(&mut self) -> Spanned {
        let spanned = self.spanned();
        if spanned.token != Token::End {
            self.at += 1;
        }
        spanned
    }

    /// Takes this token if it is next.
    pub(super) fn take(&mut self, token: Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.next();
        }
        found
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        if self.reported != Some(self.at) {
            self.diagnostics.push(diagnostic);
            self.reported = Some(self.at);
        }
    }

    /// Reports that something else was expected here, and perhaps what to do.
    pub(super) fn unexpected(&mut self, expected: &str, hint: Option<&str>) {
        let found = self.peek();
        let label = format!("expected {expected}, found {found}");
        let diagnostic = Diagnostic::new(self.here(), format!("unexpected {}", plain(found)), label);
        self.report(match hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        });
    }

    /// Takes what closes a bracket; if something else is here, says which bracket is open.
    pub(super) fn close(&mut self, open: Span, close: &'static str, hint: Option<&str>) -> bool {
        if self.take(Token::Sign(close)) {
            return true;
        }
        let found = self.peek();
        let bracket = open.text(self.source).to_owned();
        let ends = self.at_definition() || matches!(found, Token::End | Token::Word("in" | "end" | "then" | "else"));
        let ends = ends || matches!(found, Token::Sign(")" | "]"));
        let what = if ends {
            // What is missing is missing anywhere between the two.
            let what = Diagnostic::new(open, format!("the '{bracket}' is not closed"), "it begins here");
            what.other(self.here(), format!("expected '{close}' before {found}"))
        } else {
            let label = format!("expected '{close}', found {found}");
            let what = Diagnostic::new(self.span(), format!("unexpected {}", plain(found)), label);
            what.other(open, format!("this '{bracket}' is open"))
        };
        let remedy = format!("write '{close}' where it ends");
        self.report(what.hint(hint.map_or(remedy, str::to_owned)));
        false
    }

    /// Takes the next word of a form that began there, such as the `then` of an `if`.
    pub(super) fn word(&mut self, word: &'static str, began: Span, hint: &str) -> bool {
        let found = self.take(Token::Word(word));
        if !found {
            let what = self.peek();
            let form = began.text(self.source).to_owned();
            let label = format!("expected '{word}', found {what}");
            let what = Diagnostic::new(self.here(), format!("unexpected {}", plain(what)), label);
            self.report(what.other(began, format!("of this '{form}'")).hint(hint));
        }
        found
    }

    /// Takes a token that must be here.
    pub(super) fn need(&mut self, token: Token, hint: Option<&str>) -> bool {
        let found = self.take(token);
        if !found {
            self.unexpected(&token.to_string(), hint);
        }
        found
    }

    pub(super) fn ident(&mut self, what: &str) -> Ident {
        let span = self.span();
        match self.peek() {
            Token::Identifier => {
                self.next();
                Ident { text: span.text(self.source).to_owned(), span }
            }
            Token::Word(word) => {
                self.unexpected(what, Some(&format!("'{word}' is a reserved word")));
                if !BEGINNINGS.contains(&self.peek()) && !STOPS.contains(&self.peek()) {
                    self.next();
                }
                Ident { text: String::new(), span }
            }
            _ => {
                self.unexpected(what, None);
                Ident { text: String::new(), span: Span { end: span.start, ..span } }
            }
        }
    }

    /// Leaves out tokens up to one at which parsing can go on; brackets are left out in pairs.
    pub(super) fn recover(&mut self) {
        let mut open = 0usize;
        loop {
            let token = self.peek();
            let stop = BEGINNINGS.contains(&token) || token == Token::End || (open == 0 && STOPS.contains(&token));
            if stop {
                break;
            }
            match token {
                Token::Sign("(" | "[") => open += 1,
                Token::Sign(")" | "]") => open = open.saturating_sub(1),
                _ => {}
            }
            self.next();
        }
    }

    fn program(&mut self) -> Program {
        let mut definitions = Vec::new();
        while self.peek() != Token::End {
            if BEGINNINGS.contains(&self.peek()) {
                definitions.push(self.definition(true));
            } else {
                self.unexpected("a definition", Some("a program is a row of fun, val, exception and svc definitions"));
                while self.peek() != Token::End && !BEGINNINGS.contains(&self.peek()) {
                    self.next();
                }
            }
        }
        if definitions.is_empty() && self.diagnostics.is_empty() {
            self.unexpected("a definition", Some("a program has at least one definition"));
        }
        Program { definitions }
    }

    pub(super) fn at_definition(&self) -> bool {
        BEGINNINGS.contains(&self.peek())
    }

    pub(super) fn definition(&mut self, top: bool) -> Definition {
        let start = self.span();
        let kind = match self.next().token {
            Token::Word("fun") => self.fun(),
            Token::Word("val") => {
                let name = self.ident("the value's name");
                let note = self.take(Token::Sign(":")).then(|| self.type_());
                let value = self.body();
                DefinitionKind::Val { name, note, value }
            }
            Token::Word("exception") => DefinitionKind::Exception(self.ident("the exception's name")),
            _ => {
                if !top {
                    let what = Diagnostic::new(start, "svc inside let", "services are declared at the top only");
                    self.report(what.hint("move the declaration before the function"));
                }
                let name = self.ident("the service's name");
                self.need(Token::Sign(":"), Some("a service is declared with its type: svc time : void -> int"));
                let kind = self.type_();
                DefinitionKind::Svc(name, kind)
            }
        };
        Definition { kind, span: self.since(start) }
    }

    fn fun(&mut self) -> DefinitionKind {
        let name = self.ident("the function's name");
        let mut params = Vec::new();
        let bracket = self.span();
        let opened = self.need(Token::Sign("("), Some("a function without parameters is written fun f() = …"));
        if opened && !self.take(Token::Sign(")")) {
            loop {
                let param = self.ident("a parameter's name");
                let note = self.take(Token::Sign(":")).then(|| self.type_());
                params.push((param, note));
                if params.len() > PARAMS_MAX {
                    let label = format!("a function has at most {PARAMS_MAX}");
                    self.report(Diagnostic::new(self.span(), "too many parameters", label));
                }
                if params.len() > PARAMS_MAX || !self.take(Token::Sign(",")) {
                    break;
                }
            }
            if !self.close(bracket, ")", None) && self.peek() != Token::Sign("=") {
                self.recover();
                self.take(Token::Sign(")"));
            }
        }
        let result = self.take(Token::Sign(":")).then(|| self.type_());
        let body = self.body();
        DefinitionKind::Fun { name, params, result, body }
    }

    /// `= expr`
    fn body(&mut self) -> Expr {
        if !self.need(Token::Sign("="), None) {
            let start = self.span();
            self.recover();
            return Expr::new(ExprKind::Error, self.since(start));
        }
        let body = self.expr();
        // What follows a definition is another one, or the end of what it is in.
        let after = self.peek();
        let fits = self.at_definition() || matches!(after, Token::End | Token::Word("in" | "end"));
        if !fits && body.kind != ExprKind::Error {
            let hint = match after {
                Token::Sign(";" | ",") => Some("expressions in a row stand in parentheses: (a; b)"),
                _ => None,
            };
            self.unexpected("a definition or an operator", hint);
        }
        body
    }
}

fn plain(token: Token) -> String {
    let text = token.to_string();
    text.strip_prefix("a ").or(text.strip_prefix("the ")).unwrap_or(&text).to_owned()
}
