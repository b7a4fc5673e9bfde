//! The layout of definitions and types.

use super::Printer;
use super::doc::Doc;
use crate::syntax::ast::{Definition, DefinitionKind, Ident, Type, TypeKind};

impl Printer<'_> {
    /// A program's definitions. Functions stand apart; others do where they did.
    pub(super) fn definitions(&mut self, definitions: &[Definition]) -> Vec<Doc> {
        let mut docs = Vec::new();
        let mut after_function = false;
        for (at, definition) in definitions.iter().enumerate() {
            let function = matches!(definition.kind, DefinitionKind::Fun { .. });
            if at > 0 {
                let apart = function || after_function || self.blank_before();
                docs.push(if apart { Doc::blank() } else { Doc::hard() });
            }
            docs.push(self.definition(definition));
            after_function = function;
        }
        if !self.ended() || self.blank_before() {
            docs.push(Doc::blank());
        }
        docs
    }

    pub(super) fn definition(&mut self, definition: &Definition) -> Doc {
        let lead = self.lead();
        Doc::cat(vec![lead, self.bare_definition(definition)])
    }

    fn bare_definition(&mut self, definition: &Definition) -> Doc {
        match &definition.kind {
            DefinitionKind::Fun { params, result, body, .. } => {
                let mut head = vec![self.token(), Doc::text(" "), self.token(), self.params(params)];
                if let Some(result) = result {
                    head.push(self.colon(result));
                }
                head.extend([Doc::text(" "), self.token()]);
                Doc::group(vec![Doc::cat(head), Doc::nest(vec![Doc::line(), self.expr(body)])])
            }
            DefinitionKind::Val { note, value, .. } => {
                let mut head = vec![self.token(), Doc::text(" "), self.token()];
                if let Some(note) = note {
                    head.push(self.colon(note));
                }
                head.extend([Doc::text(" "), self.token()]);
                Doc::group(vec![Doc::cat(head), Doc::nest(vec![Doc::line(), self.expr(value)])])
            }
            DefinitionKind::Exception(_) => Doc::cat(vec![self.token(), Doc::text(" "), self.token()]),
            DefinitionKind::Svc(_, kind) => {
                Doc::cat(vec![self.token(), Doc::text(" "), self.token(), self.colon(kind)])
            }
        }
    }

    fn params(&mut self, params: &[(Ident, Option<Type>)]) -> Doc {
        if params.is_empty() {
            return self.tokens(2);
        }
        let open = self.token();
        let mut inner = vec![Doc::soft()];
        for (at, (_, note)) in params.iter().enumerate() {
            if at > 0 {
                inner.extend([self.token(), Doc::line()]);
            }
            inner.push(self.token());
            if let Some(note) = note {
                inner.push(self.colon(note));
            }
        }
        Doc::group(vec![open, Doc::nest(inner), Doc::soft(), self.token()])
    }

    /// ` : ` and a type.
    fn colon(&mut self, kind: &Type) -> Doc {
        Doc::cat(vec![Doc::text(" "), self.token(), Doc::text(" "), self.kind(kind)])
    }

    fn kind(&mut self, kind: &Type) -> Doc {
        match &kind.kind {
            TypeKind::Base(_) | TypeKind::Variable(_) | TypeKind::Error => self.token(),
            TypeKind::List(inner) | TypeKind::Chunk(inner) => {
                Doc::cat(vec![self.kind(inner), Doc::text(" "), self.token()])
            }
            TypeKind::Paren(inner) => Doc::cat(vec![self.token(), self.kind(inner), self.token()]),
            TypeKind::Tuple(items) => self.between(items, true),
            TypeKind::Arrow(params, result) => {
                let params = match &params[..] {
                    [] => self.token(),
                    [only] => self.kind(only),
                    several => Doc::cat(vec![self.token(), self.between(several, false), self.token()]),
                };
                Doc::cat(vec![params, Doc::text(" "), self.token(), Doc::text(" "), self.kind(result)])
            }
        }
    }

    /// Types with a token between them.
    fn between(&mut self, items: &[Type], spaced: bool) -> Doc {
        let mut docs = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                docs.extend([Doc::text(if spaced { " " } else { "" }), self.token(), Doc::text(" ")]);
            }
            docs.push(self.kind(item));
        }
        Doc::cat(docs)
    }
}
