//! The canonical form of a configuration's text.
//!
//! The syntax tree says how tokens are laid out; the tokens themselves, with their comments, are taken in order from the source. So
//! the formatted text means the same and has the same comments, and formatting it again changes nothing. One statement stands on a
//! line and ends with a semicolon; a chain goes on before an arrow where the author broke the line or it is full.

mod config;
mod cursor;

use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::syntax::ast::{Chain, Class, Compound, Item, ItemKind, Statement, StatementKind};
use crate::syntax::token::Token;
use crate::syntax::{Parsed, parse};
use config::config;
use cursor::{Cursor, Gap, STEP};

/// The width that lines should not exceed.
pub const WIDTH: usize = 100;

/// The width of a compound that stands on one line.
const INLINE_MAX: usize = 72;

/// Formats a configuration; what is wrong with its form, if it cannot be parsed.
pub fn format(source: &str) -> Result<String, Vec<Diagnostic>> {
    let Parsed { statements, tokens, comments, diagnostics } = parse(source);
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let mut printer = Printer { cursor: Cursor::new(source, &tokens, &comments), inline: 0 };
    printer.statements(&statements);
    Ok(printer.cursor.finish())
}

struct Printer<'a> {
    cursor: Cursor<'a>,
    /// How many compounds on one line are around.
    inline: usize,
}

impl Printer<'_> {
    fn statements(&mut self, statements: &[Statement]) {
        for (at, statement) in statements.iter().enumerate() {
            let gap = match (self.inline > 0, at) {
                (true, _) => Gap::Space,
                (false, _) => Gap::Statement,
            };
            self.statement(statement, gap);
            let last = at + 1 == statements.len();
            let braced = matches!(statement.kind, StatementKind::Compound(..)) && self.inline == 0;
            let ends = last && self.inline > 0;
            if !braced && !ends {
                self.cursor.write(";");
            }
        }
    }

    fn statement(&mut self, statement: &Statement, gap: Gap) {
        match &statement.kind {
            StatementKind::Chain(chain) => self.chain(chain, gap),
            StatementKind::Compound(_, compound) => {
                self.cursor.token(gap);
                self.cursor.token(Gap::Space);
                self.compound(compound, Gap::Space);
            }
            StatementKind::Synonym(..) => {
                self.cursor.token(gap);
                self.cursor.token(Gap::Space);
                self.cursor.token(Gap::Space);
            }
            StatementKind::Define(_) | StatementKind::Require(_) | StatementKind::Provide(_) => {
                self.cursor.token(gap);
                self.config();
            }
            StatementKind::Tunnels(pairs) => {
                self.cursor.token(gap);
                for at in 0..pairs.len() {
                    if at > 0 {
                        self.cursor.token(Gap::Nothing);
                    }
                    (0..3).for_each(|_| self.cursor.token(Gap::Space));
                }
            }
        }
    }

    fn chain(&mut self, chain: &Chain, gap: Gap) {
        for (at, set) in chain.sets.iter().enumerate() {
            let mut gap = gap;
            if at > 0 {
                let breaks = self.cursor.breaks_before(0) || self.cursor.breaks_before(1) || self.is_full(set);
                let breaks = breaks && self.inline == 0;
                let begins = chain.sets.first().is_some_and(|first| is_nothing(first)) && at == 1;
                if at == 1 && !begins {
                    self.cursor.indent += STEP;
                }
                self.cursor.token(if begins {
                    gap
                } else if breaks {
                    Gap::Line
                } else {
                    Gap::Space
                });
                if begins {
                    self.cursor.indent += STEP;
                }
                gap = Gap::Space;
            }
            for (index, item) in set.iter().enumerate() {
                if index > 0 {
                    self.cursor.token(Gap::Nothing);
                    gap = Gap::Space;
                }
                self.item(item, gap);
            }
        }
        if chain.sets.len() > 1 {
            self.cursor.indent -= STEP;
        }
    }

    /// Whether an arrow and the set behind it do not fit into the line any more.
    fn is_full(&self, set: &[Item]) -> bool {
        let end = set.last().map_or(0, |item| item.span.end);
        let mut length = 0;
        for spanned in self.cursor.tokens.iter().skip(self.cursor.at) {
            let text = spanned.span.text(self.cursor.source);
            length += match spanned.token {
                _ if spanned.span.start >= end => break,
                Token::Sign(";") => 0,
                Token::Config => config(text, 0).lines().next().map_or(0, |line| line.chars().count()),
                _ => text.len() + 1,
            };
            if matches!(spanned.token, Token::Sign("{" | "(")) {
                break;
            }
        }
        self.cursor.column() + length > WIDTH
    }

    fn item(&mut self, item: &Item, gap: Gap) {
        let mut gap = gap;
        let before = if item.kind == ItemKind::Implied {
            item.outputs.as_ref().or(item.inputs.as_ref())
        } else {
            item.inputs.as_ref()
        };
        if before.is_some() {
            self.ports(gap);
            gap = Gap::Space;
        }
        match &item.kind {
            ItemKind::Implied => return,
            ItemKind::Name(_) => self.cursor.token(gap),
            ItemKind::Compound(compound) => self.compound(compound, gap),
            ItemKind::Group(statements) => self.group(statements, item.span, gap),
        }
        if let Some(class) = &item.class {
            self.cursor.token(Gap::Space);
            match class {
                Class::Name(_) => self.cursor.token(Gap::Space),
                Class::Compound(compound) => self.compound(compound, Gap::Space),
            }
        }
        if item.config.is_some() {
            self.config();
        }
        if let Some(place) = &item.place {
            self.cursor.token(Gap::Space);
            if place.is.node().is_some() {
                self.config();
            }
        }
        if item.outputs.is_some() {
            self.ports(Gap::Space);
        }
    }

    fn config(&mut self) {
        let at = self.cursor.at;
        let Some(text) = self.cursor.tokens.get(at).map(|spanned| spanned.span.text(self.cursor.source)) else {
            return;
        };
        self.cursor.token_as(Gap::Nothing, |cursor| config(text, cursor.line_indent() + STEP));
    }

    /// `[0, 2-4]`
    fn ports(&mut self, gap: Gap) {
        let mut gap = gap;
        loop {
            self.cursor.token(gap);
            let last = self.cursor.tokens.get(self.cursor.at - 1).map(|spanned| spanned.token);
            gap = if last == Some(Token::Sign(",")) { Gap::Space } else { Gap::Nothing };
            if matches!(last, None | Some(Token::Sign("]") | Token::End)) {
                return;
            }
        }
    }

    /// Whether what is between brackets stands on one line.
    fn is_inline(&self, span: Span) -> bool {
        let tokens = self.cursor.tokens.iter().skip(self.cursor.at);
        let inside = tokens.take_while(|spanned| spanned.span.start < span.end);
        let length: usize = inside
            .filter(|spanned| spanned.token != Token::Sign(";"))
            .map(|spanned| match spanned.token {
                Token::Config => config(spanned.span.text(self.cursor.source), 0).chars().count(),
                _ => spanned.span.text(self.cursor.source).len() + 1,
            })
            .sum();
        let one_line = !span.text(self.cursor.source).contains('\n');
        one_line && length <= INLINE_MAX && !self.cursor.has_comment(span)
    }

    /// Prints a bracket and what is in it, up to its end.
    fn bracketed(&mut self, inline: bool, gap: Gap, inside: impl FnOnce(&mut Self)) {
        self.cursor.token(gap);
        self.cursor.open();
        let step = if inline { 0 } else { STEP };
        // What is in a chain that goes on is no further to the right than its line.
        let outer = std::mem::replace(&mut self.cursor.indent, 0);
        let indent = self.cursor.line_indent();
        self.cursor.indent = indent + step;
        self.inline += usize::from(inline);
        inside(self);
        // Comments before the end belong to what is in it.
        let gap = self.cursor.comments(if inline { Gap::Space } else { Gap::Statement });
        self.cursor.indent = indent;
        self.cursor.open();
        self.cursor.token(if inline { gap } else { Gap::Line });
        self.inline -= usize::from(inline);
        self.cursor.indent = outer;
    }

    fn group(&mut self, statements: &[Statement], span: Span, gap: Gap) {
        let inline = self.inline > 0 || self.is_inline(Span { start: self.cursor.start(), end: span.end });
        self.bracketed(inline, gap, |printer| printer.statements(statements));
    }

    fn compound(&mut self, compound: &Compound, gap: Gap) {
        let inline = self.inline > 0 || self.is_inline(compound.span);
        self.bracketed(inline, gap, |printer| {
            for (at, body) in compound.bodies.iter().enumerate() {
                if at > 0 {
                    printer.bar(inline);
                }
                for (at, param) in body.params.iter().enumerate() {
                    if at > 0 {
                        printer.cursor.token(Gap::Nothing);
                    }
                    (0..1 + usize::from(param.keyword.is_some())).for_each(|_| printer.cursor.token(Gap::Space));
                }
                if printer.cursor.peek() == Token::Sign("|") {
                    printer.cursor.token(Gap::Space);
                }
                printer.cursor.open();
                printer.statements(&body.statements);
            }
            if compound.extends.is_some() {
                printer.bar(inline);
                printer.cursor.token(Gap::Space);
            }
        });
    }

    /// `||`, at the beginning of a line if the compound has several.
    fn bar(&mut self, inline: bool) {
        let gap = self.cursor.comments(if inline { Gap::Space } else { Gap::Statement });
        if inline {
            return self.cursor.token(gap);
        }
        self.cursor.indent -= STEP;
        self.cursor.open();
        self.cursor.token(Gap::Line);
        self.cursor.indent += STEP;
    }
}

/// Whether a set is nothing but what an arrow at the beginning of a chain implies.
fn is_nothing(set: &[Item]) -> bool {
    matches!(set, [item] if item.kind == ItemKind::Implied && item.outputs.is_none())
}
