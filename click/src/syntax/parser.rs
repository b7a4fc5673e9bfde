//! Tokens to syntax tree: statements, compounds, and recovery after a mistake.
//!
//! Recursive descent, one token of look-ahead. A mistake is reported where it is, once; then tokens are left out up to the end of
//! the statement, and parsing goes on. Nesting is bounded, so neither parsing a text nor walking its tree can exhaust the stack.

use super::ast::{Body, Compound, Ident, Statement, StatementKind};
use super::lexer::{Lexed, MISTAKES_MAX, lex};
use super::token::{Comment, Spanned, Token};
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// The deepest nesting of compounds and groups in a text.
pub const DEPTH_MAX: usize = 32;

/// The most bodies of a compound.
pub const BODIES_MAX: usize = 64;

/// A configuration as it was written, and what is wrong with its form.
#[derive(Debug)]
pub struct Parsed {
    /// The tree; what could not be read is not in it.
    pub statements: Vec<Statement>,
    /// The tokens it was made from.
    pub tokens: Vec<Spanned>,
    /// The comments between them.
    pub comments: Vec<Comment>,
    /// What is wrong; empty if the form is right.
    pub diagnostics: Vec<Diagnostic>,
}

/// Parses a configuration.
pub fn parse(source: &str) -> Parsed {
    let Lexed { tokens, comments, diagnostics } = lex(source);
    let mut parser = Parser { source, tokens: &tokens, at: 0, open: Vec::new(), ports: 0, reported: None, diagnostics };
    let mut statements = parser.statements();
    while parser.peek() != Token::End {
        parser.stray();
        statements.extend(parser.statements());
    }
    let mut diagnostics = parser.diagnostics;
    leave_followers_out(&mut diagnostics);
    diagnostics.truncate(MISTAKES_MAX);
    Parsed { statements, tokens, comments, diagnostics }
}

/// What does not end hides all that follows: what the rest of the text lacks is no other mistake.
fn leave_followers_out(diagnostics: &mut Vec<Diagnostic>) {
    let ends = |known: &&Diagnostic| known.message.ends_with(" does not end");
    if let Some(first) = diagnostics.iter().find(ends).map(|known| known.span) {
        let unclosed = |known: &Diagnostic| known.message.ends_with("is not closed");
        diagnostics.retain(|known| known.span.start <= first.start && !unclosed(known));
    }
}

/// What a statement stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    Compound,
    Group,
}

pub(super) struct Parser<'a> {
    source: &'a str,
    tokens: &'a [Spanned],
    at: usize,
    open: Vec<Inside>,
    /// Ports in all lists up to here.
    pub(super) ports: usize,
    /// The token of the last report, so that each is blamed once.
    reported: Option<usize>,
    diagnostics: Vec<Diagnostic>,
}

impl Parser<'_> {
    pub(super) fn ahead(&self, count: usize) -> Spanned {
        let end = Span::new(self.source.len(), self.source.len());
        self.tokens.get(self.at + count).copied().unwrap_or(Spanned { token: Token::End, span: end })
    }

    pub(super) fn peek(&self) -> Token {
        self.ahead(0).token
    }

    pub(super) fn span(&self) -> Span {
        self.ahead(0).span
    }

    /// Where the next token is; at the end of the text, behind the last one.
    fn here(&self) -> Span {
        match (self.peek(), self.at.checked_sub(1).and_then(|at| self.tokens.get(at))) {
            (Token::End, Some(last)) => Span { start: last.span.end, end: last.span.end },
            _ => self.span(),
        }
    }

    /// From a place to the end of the token before this one.
    pub(super) fn since(&self, start: Span) -> Span {
        match self.at.checked_sub(1).and_then(|at| self.tokens.get(at)) {
            Some(last) if last.span.end >= start.start => start.to(last.span),
            _ => Span { start: start.start, end: start.start },
        }
    }

    pub(super) fn next(&mut self) -> Spanned {
        let spanned = self.ahead(0);
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
        if self.reported != Some(self.at) && self.diagnostics.len() <= MISTAKES_MAX {
            self.diagnostics.push(diagnostic);
            self.reported = Some(self.at);
        }
    }

    /// Reports that something else was expected here, and what to do.
    pub(super) fn unexpected(&mut self, expected: &str, hint: &str) {
        let found = self.peek();
        let label = format!("expected {expected}, found {found}");
        let text = found.to_string();
        let plain = text.strip_prefix("a ").or(text.strip_prefix("the ")).unwrap_or(&text);
        self.report(Diagnostic::new(self.here(), format!("unexpected {plain}"), label).hint(hint));
    }

    pub(super) fn is_nested(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn text(&self, span: Span) -> String {
        span.text(self.source).to_owned()
    }

    pub(super) fn ident(&mut self, expected: &str, hint: &str) -> Option<Ident> {
        let span = self.span();
        if self.peek() != Token::Identifier {
            self.unexpected(expected, hint);
            return None;
        }
        self.next();
        Some(Ident { text: self.text(span), span })
    }

    /// Takes the configuration that is next, if one is.
    pub(super) fn config(&mut self) -> Option<Span> {
        let span = self.span();
        self.take(Token::Config).then_some(span)
    }

    /// Leaves out tokens up to the end of the statement; brackets are left out in pairs.
    fn recover(&mut self) {
        let mut open = 0usize;
        loop {
            match self.peek() {
                Token::End => return,
                Token::Sign("{" | "(") => open += 1,
                Token::Sign("}" | ")" | "||" | ";") | Token::Word(_) if open == 0 => return,
                Token::Sign("}" | ")") => open -= 1,
                _ => {}
            }
            self.next();
        }
    }

    /// Something that closes what is not open.
    fn stray(&mut self) {
        let found = self.peek();
        let what = Diagnostic::new(self.span(), format!("{found} closes nothing"), "nothing is open here");
        self.report(what.hint("leave it out, or look before it for what it should close"));
        self.next();
        if !matches!(self.peek(), Token::Identifier | Token::Sign("[" | "{" | "(")) {
            self.recover();
        }
    }

    /// Statements up to what ends the compound or group they are in.
    fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        loop {
            match self.peek() {
                Token::End => return statements,
                Token::Sign("}" | "||") if self.open.contains(&Inside::Compound) => return statements,
                Token::Sign(")") if self.open.contains(&Inside::Group) => return statements,
                Token::Sign("}" | "||" | ")") if self.is_nested() => self.stray(),
                Token::Sign("}" | "||" | ")") => return statements,
                Token::Sign(";") => {
                    self.next();
                }
                _ => statements.extend(self.statement()),
            }
        }
    }

    fn statement(&mut self) -> Option<Statement> {
        let (start, before) = (self.span(), self.at);
        let kind = match self.peek() {
            Token::Word(word) => {
                self.next();
                self.worded(word)
            }
            Token::Identifier | Token::Sign("[" | "{" | "(" | "->" | "=>") => self.chain().map(StatementKind::Chain),
            _ => {
                self.unexpected("a statement", "a statement is a declaration 'a :: Class' or a connection 'a -> b'");
                None
            }
        };
        let span = self.since(start);
        if kind.is_none() {
            self.recover();
            if self.at == before {
                self.next();
            }
        } else if matches!(self.peek(), Token::Sign("," | "::")) {
            self.unexpected("the end of the statement", "write ';' where the statement ends");
            self.recover();
        }
        kind.map(|kind| Statement { kind, span })
    }

    fn worded(&mut self, word: &str) -> Option<StatementKind> {
        match word {
            "elementclass" => self.element_class(),
            "connectiontunnel" => self.tunnels(),
            _ => {
                let Some(config) = self.config() else {
                    let hint = match word {
                        "define" => "write define($name value, …)",
                        "require" => "write require(package)",
                        _ => "write provide(package)",
                    };
                    self.unexpected("'('", hint);
                    return None;
                };
                Some(match word {
                    "define" => StatementKind::Define(config),
                    "require" => StatementKind::Require(config),
                    _ => StatementKind::Provide(config),
                })
            }
        }
    }

    fn element_class(&mut self) -> Option<StatementKind> {
        let hint = "write elementclass Name { … }, or elementclass Name Other";
        let name = self.ident("the name of the new class", hint)?;
        match self.peek() {
            Token::Sign("{") => Some(StatementKind::Compound(name, self.compound()?)),
            Token::Identifier => Some(StatementKind::Synonym(name, self.ident("", hint)?)),
            _ => {
                self.unexpected("'{' or the name of a class", hint);
                None
            }
        }
    }

    fn tunnels(&mut self) -> Option<StatementKind> {
        let hint = "write connectiontunnel a -> b";
        let mut pairs = Vec::new();
        loop {
            let from = self.ident("the name of the tunnel's entrance", hint)?;
            if !self.take(Token::Sign("->")) {
                self.unexpected("'->'", hint);
                return None;
            }
            pairs.push((from, self.ident("the name of the tunnel's exit", hint)?));
            if !self.take(Token::Sign(",")) {
                return Some(StatementKind::Tunnels(pairs));
            }
        }
    }

    /// Enters a compound or group; false if too many are open.
    fn enter(&mut self, inside: Inside) -> bool {
        if self.open.len() >= DEPTH_MAX {
            let label = format!("at most {DEPTH_MAX} compounds and groups in each other");
            let what = Diagnostic::new(self.span(), "too deep", label);
            self.report(what.hint("name the inner ones: elementclass Name { … }"));
            return false;
        }
        self.open.push(inside);
        self.next();
        true
    }

    /// Leaves it; if it is not closed here, says where it was opened.
    fn leave(&mut self, start: Span, close: &'static str) -> bool {
        self.open.pop();
        if self.take(Token::Sign(close)) {
            return true;
        }
        let bracket = self.text(start);
        let what = Diagnostic::new(start, format!("the '{bracket}' is not closed"), "it begins here");
        let what = what.other(self.here(), format!("expected '{close}' before {}", self.peek()));
        self.report(what.hint(format!("write '{close}' where it ends")));
        false
    }

    /// `( statements )`
    pub(super) fn group(&mut self) -> Option<Vec<Statement>> {
        let start = self.span();
        if !self.enter(Inside::Group) {
            return None;
        }
        let statements = self.statements();
        self.leave(start, ")").then_some(statements)
    }

    /// `{ params | statements || … }`
    pub(super) fn compound(&mut self) -> Option<Compound> {
        let start = self.span();
        if !self.enter(Inside::Compound) {
            return None;
        }
        let (mut bodies, mut extends) = (Vec::new(), None);
        loop {
            let from = self.span();
            if self.take(Token::Sign("...")) {
                extends = Some(from);
                if bodies.is_empty() || self.peek() != Token::Sign("}") {
                    let what = Diagnostic::new(from, "'...' stands last", "expected behind '||' and before '}'");
                    self.report(what.hint("write { … || ... }: if no body fits, the class of before is taken"));
                    if self.take(Token::Sign("||")) {
                        continue;
                    }
                }
                break;
            }
            let params = self.params();
            let statements = self.statements();
            if bodies.len() == BODIES_MAX {
                let what = Diagnostic::new(from, "too many bodies", format!("a compound has at most {BODIES_MAX}"));
                self.report(what.hint("use several compounds"));
                break;
            }
            bodies.push(Body { params, statements, span: self.since(from) });
            if !self.take(Token::Sign("||")) {
                break;
            }
        }
        self.leave(start, "}").then(|| Compound { bodies, extends, span: self.since(start) })
    }
}
