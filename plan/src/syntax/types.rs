//! The grammar of types: `void -> t`, `(t, t) -> t`, `t * t`, `t list`, `t chunk`.

use super::ast::{DEPTH_MAX, Type, TypeKind};
use super::parser::Parser;
use super::token::Token;
use crate::diagnostic::Diagnostic;
use crate::span::Span;

impl Parser<'_> {
    pub(super) fn type_(&mut self) -> Type {
        let start = self.span();
        self.depth += 1;
        let kind = if self.depth > DEPTH_MAX {
            self.report(Diagnostic::new(start, "the type nests too deep", format!("at most {DEPTH_MAX} deep")));
            self.recover();
            Type { kind: TypeKind::Error, span: start }
        } else {
            self.arrow(start)
        };
        self.depth -= 1;
        kind
    }

    fn arrow(&mut self, start: Span) -> Type {
        let void = self.peek() == Token::Identifier && start.text(self.source) == "void";
        let params = if void {
            self.next();
            if self.peek() != Token::Sign("->") {
                self.unexpected("'->'", Some("void stands only before '->': void -> int"));
                return Type { kind: TypeKind::Error, span: start };
            }
            Vec::new()
        } else {
            let (first, several) = self.tuple(start);
            match several {
                Some(params) => params,
                None if self.peek() == Token::Sign("->") => vec![first],
                None => return first,
            }
        };
        if !self.need(Token::Sign("->"), Some("types in a row are a function's parameters; a tuple is a * b")) {
            return Type { kind: TypeKind::Error, span: self.since(start) };
        }
        let result = self.type_();
        Type { kind: TypeKind::Arrow(params, Box::new(result)), span: self.since(start) }
    }

    /// `t * t …`; or, if it was `(t, t …)`, the types in it.
    fn tuple(&mut self, start: Span) -> (Type, Option<Vec<Type>>) {
        let (first, several) = self.postfix();
        if several.is_some() || self.peek() != Token::Sign("*") {
            return (first, several);
        }
        let mut parts = vec![first];
        while self.take(Token::Sign("*")) {
            let at = self.span();
            let (part, several) = self.postfix();
            if several.is_some() {
                self.diagnostics.push(Diagnostic::new(
                    self.since(at),
                    "parameters inside a tuple",
                    "types in a row stand only before '->'",
                ));
            }
            parts.push(part);
        }
        (Type { kind: TypeKind::Tuple(parts), span: self.since(start) }, None)
    }

    fn postfix(&mut self) -> (Type, Option<Vec<Type>>) {
        let start = self.span();
        let (mut inner, several) = self.type_atom();
        if several.is_some() {
            return (inner, several);
        }
        let mut count = self.depth;
        while self.peek() == Token::Identifier {
            let wrap = match self.span().text(self.source) {
                "list" => TypeKind::List,
                "chunk" => TypeKind::Chunk,
                _ => break,
            };
            count += 1;
            if count > DEPTH_MAX {
                let span = self.span();
                self.report(Diagnostic::new(span, "the type nests too deep", format!("at most {DEPTH_MAX} deep")));
                break;
            }
            self.next();
            inner = Type { kind: wrap(Box::new(inner)), span: self.since(start) };
        }
        (inner, None)
    }

    fn type_atom(&mut self) -> (Type, Option<Vec<Type>>) {
        let span = self.span();
        let kind = match self.peek() {
            Token::Identifier => {
                self.next();
                TypeKind::Base(span.text(self.source).to_owned())
            }
            Token::TypeVariable => {
                self.next();
                TypeKind::Variable(span.text(self.source).trim_start_matches('\'').to_owned())
            }
            Token::Sign("(") => {
                self.next();
                let mut inner = vec![self.type_()];
                while self.take(Token::Sign(",")) {
                    inner.push(self.type_());
                }
                self.close(span, ")", None);
                match (inner.pop(), inner.is_empty()) {
                    (Some(only), true) => TypeKind::Paren(Box::new(only)),
                    (Some(last), false) => {
                        inner.push(last);
                        return (Type { kind: TypeKind::Error, span }, Some(inner));
                    }
                    (None, _) => TypeKind::Error,
                }
            }
            _ => {
                self.unexpected("a type", Some("such as int, host, 'a list or (host, int) -> unit"));
                TypeKind::Error
            }
        };
        (Type { kind, span: self.since(span) }, None)
    }
}
