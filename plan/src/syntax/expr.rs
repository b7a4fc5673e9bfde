//! The grammar of expressions.
//!
//! Binary operators by precedence climbing over [`level`]; `if`, `let`, `try` and `raise` reach as far
//! to the right as they can and stand inside an operator's operand only in parentheses.

use super::ast::{Binary, DEPTH_MAX, Expr, ExprKind, Ident, Primitive, Unary};
use super::lexer::contents;
use super::parser::Parser;
use super::token::Token;
use crate::diagnostic::Diagnostic;
use crate::span::Span;

/// How tight a binary operator binds: 1 is the loosest.
pub fn level(operator: Binary) -> u8 {
    use Binary::*;
    match operator {
        Or => 1,
        And => 2,
        Lt | Le | Gt | Ge | Eq | Ne => 3,
        Cons => 4,
        Add | Sub | Concat | Ori | Xori => 5,
        Mul | Div | Mod | Shl | Shr | Andi => 6,
    }
}

fn text_of(token: Token) -> Option<&'static str> {
    match token {
        Token::Word(text) | Token::Sign(text) => Some(text),
        _ => None,
    }
}

fn binary(token: Token) -> Option<Binary> {
    let text = text_of(token)?;
    Binary::ALL.iter().copied().find(|operator| operator.text() == text)
}

fn unary(token: Token) -> Option<Unary> {
    let text = text_of(token)?;
    Unary::ALL.iter().copied().find(|operator| operator.text() == text)
}

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Expr {
        let start = self.span();
        self.depth += 1;
        let expr = if self.depth > DEPTH_MAX {
            self.too_deep(start)
        } else {
            match self.peek() {
                Token::Word("if") => self.if_(),
                Token::Word("let") => self.let_(),
                Token::Word("try") => self.try_(),
                Token::Word("raise") => {
                    self.next();
                    let name = self.ident("an exception");
                    Expr::new(ExprKind::Raise(name), self.since(start))
                }
                _ => self.climb(1),
            }
        };
        self.depth -= 1;
        if expr.depth > DEPTH_MAX { self.too_deep(start) } else { expr }
    }

    fn too_deep(&mut self, start: Span) -> Expr {
        let label = format!("at most {DEPTH_MAX} deep");
        let what = Diagnostic::new(start, "the expression nests too deep", label);
        self.report(what.hint("give parts of it names with val, or make them functions"));
        self.recover();
        Expr::new(ExprKind::Error, self.since(start))
    }

    fn climb(&mut self, loosest: u8) -> Expr {
        let start = self.span();
        let mut left = self.unary();
        while let Some(operator) = binary(self.peek()).filter(|operator| level(*operator) >= loosest) {
            let level = level(operator);
            self.next();
            self.depth += 1;
            let too_deep = self.depth > DEPTH_MAX || left.depth >= DEPTH_MAX;
            let right = match () {
                () if too_deep => self.too_deep(start),
                () if operator == Binary::Cons => self.climb(level),
                () => self.climb(level + 1),
            };
            self.depth -= 1;
            left = if too_deep {
                right
            } else {
                Expr::new(ExprKind::Binary(operator, Box::new([left, right])), self.since(start))
            };
            if level == 3 && binary(self.peek()).is_some_and(|next| self::level(next) == 3) {
                self.unexpected("'and', 'or' or the end of the comparison", Some("comparisons do not chain"));
            }
        }
        left
    }

    fn unary(&mut self) -> Expr {
        let start = self.span();
        let operator = unary(self.peek());
        let item = self.peek() == Token::Sign("#");
        if operator.is_none() && !item {
            return self.atom();
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.depth -= 1;
            return self.too_deep(start);
        }
        self.next();
        let kind = if let Some(operator) = operator {
            ExprKind::Unary(operator, Box::new(self.unary()))
        } else {
            let number = self.item_number();
            ExprKind::Item(number, Box::new(self.unary()))
        };
        self.depth -= 1;
        Expr::new(kind, self.since(start))
    }

    fn item_number(&mut self) -> u8 {
        let span = self.span();
        if !self.need(Token::Int, Some("the second of a tuple is written #2 t")) {
            return 1;
        }
        let number = span.text(self.source).parse().unwrap_or(0);
        if number == 0 {
            self.diagnostics.push(Diagnostic::new(
                span,
                "no such place in a tuple",
                "places are numbered from 1 to 255",
            ));
        }
        number
    }

    fn atom(&mut self) -> Expr {
        let start = self.span();
        let kind = match self.peek() {
            Token::Word("true") => self.just(ExprKind::Bool(true)),
            Token::Word("false") => self.just(ExprKind::Bool(false)),
            Token::Int => self.just(ExprKind::Int(start.text(self.source).parse().unwrap_or(0))),
            Token::Char => {
                let bytes = contents(start.text(self.source));
                self.just(ExprKind::Char(bytes.first().copied().unwrap_or(0)))
            }
            Token::Text => self.just(ExprKind::Text(contents(start.text(self.source)))),
            Token::Identifier => {
                let name = self.ident("a name");
                let open = self.span();
                if self.take(Token::Sign("(")) {
                    let arguments = self.arguments(open);
                    ExprKind::Call(name, arguments)
                } else {
                    ExprKind::Var(name)
                }
            }
            Token::Sign("(") => self.parentheses(),
            Token::Sign("[") => {
                self.next();
                ExprKind::List(self.rows(start, ";", "]"))
            }
            Token::Sign("|") => self.chunk(),
            Token::Word("foldl") => self.fold(true),
            Token::Word("foldr") => self.fold(false),
            Token::Word("OnRemote") => self.send(Primitive::OnRemote),
            Token::Word("OnNeighbor") => self.send(Primitive::OnNeighbor),
            Token::Word("RetransOnRemote") => self.send(Primitive::RetransOnRemote),
            other => {
                let hint = match other {
                    Token::Sign("-") => Some("a negative number is written ~1"),
                    Token::Word("if" | "let" | "try" | "raise") => Some("put it in parentheses"),
                    _ => None,
                };
                self.unexpected("an expression", hint);
                self.recover();
                ExprKind::Error
            }
        };
        Expr::new(kind, self.since(start))
    }

    fn just(&mut self, kind: ExprKind) -> ExprKind {
        self.next();
        kind
    }

    /// `a, b)` after the opening parenthesis.
    fn arguments(&mut self, open: Span) -> Vec<Expr> {
        self.rows(open, ",", ")")
    }

    /// Expressions up to the closing sign, which is taken.
    fn rows(&mut self, open: Span, separator: &'static str, close: &'static str) -> Vec<Expr> {
        let mut items = Vec::new();
        if self.take(Token::Sign(close)) {
            return items;
        }
        loop {
            items.push(self.expr());
            if !self.take(Token::Sign(separator)) {
                break;
            }
        }
        let hint = match (separator, self.peek()) {
            (";", Token::Sign(",")) => Some("the elements of a list are separated by ';'"),
            (",", Token::Sign(";")) => Some("arguments are separated by ','"),
            _ => None,
        };
        if !self.close(open, close, hint) {
            // The rest of the brackets is left out, wrong separators too.
            while matches!(self.peek(), Token::Sign("," | ";" | "=>")) {
                self.next();
                self.recover();
            }
            self.take(Token::Sign(close));
        }
        items
    }

    fn parentheses(&mut self) -> ExprKind {
        let open = self.span();
        self.next();
        if self.take(Token::Sign(")")) {
            return ExprKind::Unit;
        }
        let first = self.expr();
        match self.peek() {
            Token::Sign(sign @ ("," | ";")) => {
                self.next();
                let mut items = vec![first];
                items.extend(self.rows(open, if sign == "," { "," } else { ";" }, ")"));
                if items.len() < 2 {
                    self.unexpected("an expression before ')'", None);
                }
                if sign == "," { ExprKind::Tuple(items) } else { ExprKind::Sequence(items) }
            }
            _ => {
                if !self.close(open, ")", None) {
                    self.recover();
                    self.take(Token::Sign(")"));
                }
                ExprKind::Paren(Box::new(first))
            }
        }
    }

    fn chunk(&mut self) -> ExprKind {
        self.next();
        let name = self.ident("the name of a function or service");
        let hint = Some("a chunk is written |f|(a, b)");
        let closed = self.need(Token::Sign("|"), hint);
        let open = self.span();
        if !closed || !self.need(Token::Sign("("), hint) {
            return ExprKind::Error;
        }
        let arguments = self.arguments(open);
        ExprKind::Chunk(name, arguments)
    }

    fn fold(&mut self, left: bool) -> ExprKind {
        let start = self.span();
        self.next();
        let hint =
            Some(if left { "foldl(f, start, list), with f(sum, x)" } else { "foldr(f, list, start), with f(x, sum)" });
        let open = self.span();
        if !self.need(Token::Sign("("), hint) {
            return ExprKind::Error;
        }
        let function: Ident = self.ident("the name of a function");
        let operands = if self.take(Token::Sign(",")) { self.arguments(open) } else { Vec::new() };
        let count = operands.len();
        match <[Expr; 2]>::try_from(operands) {
            Ok(operands) => ExprKind::Fold { left, function, operands: Box::new(operands) },
            Err(_) => {
                let what = Diagnostic::new(
                    self.since(start),
                    "a fold takes three operands",
                    format!("expected 3, found {}", count + 1),
                );
                self.report(match hint {
                    Some(hint) => what.hint(hint),
                    None => what,
                });
                ExprKind::Error
            }
        }
    }

    fn send(&mut self, primitive: Primitive) -> ExprKind {
        let start = self.span();
        self.next();
        let open = self.span();
        if !self.need(Token::Sign("("), None) {
            return ExprKind::Error;
        }
        let operands = self.arguments(open);
        let wanted = primitive.operands();
        if !wanted.contains(&operands.len()) {
            let (name, hint) = match primitive {
                Primitive::OnRemote => ("four", "OnRemote(|f|(x), host, bound, defaultRoute)"),
                Primitive::OnNeighbor => ("three or four", "OnNeighbor(|f|(x), host, bound, device)"),
                Primitive::RetransOnRemote => {
                    ("six", "RetransOnRemote(|f|(x), host, bound, defaultRoute, tries, milliseconds)")
                }
            };
            let label = format!("expected {name}, found {}", operands.len());
            let message = format!("{} takes {name} operands", primitive.text());
            let span = self.since(start);
            self.report(Diagnostic::new(span, message, label).hint(hint));
            return ExprKind::Error;
        }
        ExprKind::Send(primitive, operands)
    }

    fn if_(&mut self) -> Expr {
        let start = self.span();
        self.next();
        let condition = self.expr();
        let hint = "if a then b else c: both branches are needed";
        let then = if self.word("then", start, hint) { self.expr() } else { self.missing() };
        let otherwise = if self.word("else", start, hint) { self.expr() } else { self.missing() };
        Expr::new(ExprKind::If(Box::new([condition, then, otherwise])), self.since(start))
    }

    fn missing(&self) -> Expr {
        Expr::new(ExprKind::Error, self.span())
    }

    fn let_(&mut self) -> Expr {
        let start = self.span();
        self.next();
        let mut definitions = Vec::new();
        while self.at_definition() {
            definitions.push(self.definition(false));
        }
        if definitions.is_empty() {
            self.unexpected("a definition", Some("let val x = 1 in x + 1 end"));
        }
        let body = if self.word("in", start, "let val x = 1 in x + 1 end") {
            self.expr()
        } else {
            self.recover();
            self.missing()
        };
        if !self.word("end", start, "let … in … end") {
            self.recover();
            self.take(Token::Word("end"));
        }
        Expr::new(ExprKind::Let(definitions, Box::new(body)), self.since(start))
    }

    fn try_(&mut self) -> Expr {
        let start = self.span();
        self.next();
        let body = self.expr();
        let hint = "try a handle E => b";
        if !self.word("handle", start, hint) {
            return body;
        }
        let name = self.ident("an exception, or a name for any");
        let handler = if self.need(Token::Sign("=>"), Some(hint)) { self.expr() } else { self.missing() };
        Expr::new(ExprKind::Try(Box::new([body, handler]), name), self.since(start))
    }
}
