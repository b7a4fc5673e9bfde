//! The layout of expressions.

use super::Printer;
use super::doc::Doc;
use crate::syntax::ast::{Binary, Definition, Expr, ExprKind, Unary};

impl Printer<'_> {
    pub(super) fn expr(&mut self, expr: &Expr) -> Doc {
        let lead = self.lead();
        Doc::cat(vec![lead, self.bare(expr)])
    }

    fn bare(&mut self, expr: &Expr) -> Doc {
        match &expr.kind {
            ExprKind::Unit => self.tokens(2),
            ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Char(_) | ExprKind::Text(_) | ExprKind::Var(_) => {
                self.token()
            }
            ExprKind::Error => Doc::nothing(),
            ExprKind::List(items) | ExprKind::Tuple(items) | ExprKind::Sequence(items) => self.rows(items),
            ExprKind::Paren(inner) => {
                let open = self.token();
                let inner = Doc::nest(vec![Doc::soft(), self.expr(inner)]);
                Doc::group(vec![open, inner, Doc::soft(), self.token()])
            }
            ExprKind::Call(_, arguments) | ExprKind::Send(_, arguments) => {
                Doc::cat(vec![self.token(), self.rows(arguments)])
            }
            ExprKind::Chunk(_, arguments) => Doc::cat(vec![self.tokens(3), self.rows(arguments)]),
            ExprKind::Unary(Unary::Neg, inner) => Doc::cat(vec![self.token(), self.expr(inner)]),
            ExprKind::Unary(_, inner) => Doc::cat(vec![self.token(), Doc::text(" "), self.expr(inner)]),
            ExprKind::Item(_, inner) => Doc::cat(vec![self.tokens(2), Doc::text(" "), self.expr(inner)]),
            ExprKind::Binary(operator, sides) => Doc::group(vec![self.binary(*operator, sides)]),
            ExprKind::If(parts) => Doc::group(vec![self.if_(parts)]),
            ExprKind::Raise(_) => Doc::cat(vec![self.token(), Doc::text(" "), self.token()]),
            ExprKind::Try(parts, _) => self.try_(parts),
            ExprKind::Let(definitions, body) => self.let_(definitions, body),
            ExprKind::Fold { operands, .. } => self.fold(operands),
        }
    }

    /// Expressions in brackets, with a token between each two.
    fn rows(&mut self, items: &[Expr]) -> Doc {
        if items.is_empty() {
            return self.tokens(2);
        }
        let open = self.token();
        let mut inner = vec![Doc::soft()];
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                inner.extend([self.token(), Doc::line()]);
            }
            inner.push(self.expr(item));
        }
        Doc::group(vec![open, Doc::nest(inner), Doc::soft(), self.token()])
    }

    /// A fold's function is a name, so it is a token and no expression.
    fn fold(&mut self, operands: &[Expr; 2]) -> Doc {
        let head = self.tokens(2);
        let mut inner = vec![Doc::soft(), self.token()];
        for operand in operands {
            inner.extend([self.token(), Doc::line(), self.expr(operand)]);
        }
        Doc::group(vec![head, Doc::nest(inner), Doc::soft(), self.token()])
    }

    /// A row of the same operator is one group: all its lines break or none.
    fn binary(&mut self, operator: Binary, sides: &[Expr; 2]) -> Doc {
        let [left, right] = sides;
        let left = match &left.kind {
            ExprKind::Binary(same, inner) if *same == operator => self.binary(*same, inner),
            _ => self.expr(left),
        };
        let sign = self.token();
        let right = match &right.kind {
            ExprKind::Binary(same, inner) if *same == operator => self.binary(*same, inner),
            _ => self.expr(right),
        };
        Doc::cat(vec![left, Doc::text(" "), sign, Doc::nest(vec![Doc::line(), right])])
    }

    fn if_(&mut self, parts: &[Expr; 3]) -> Doc {
        let [condition, then, otherwise] = parts;
        let mut docs = vec![self.token(), Doc::text(" "), self.expr(condition), Doc::text(" "), self.token()];
        docs.extend([Doc::nest(vec![Doc::line(), self.expr(then)]), Doc::line(), self.token()]);
        match &otherwise.kind {
            ExprKind::If(parts) => docs.extend([Doc::text(" "), self.if_(parts)]),
            _ => docs.push(Doc::nest(vec![Doc::line(), self.expr(otherwise)])),
        }
        Doc::cat(docs)
    }

    fn try_(&mut self, parts: &[Expr; 2]) -> Doc {
        let [body, handler] = parts;
        let mut docs = vec![self.token(), Doc::nest(vec![Doc::line(), self.expr(body)]), Doc::line()];
        docs.extend([self.token(), Doc::text(" "), self.token(), Doc::text(" "), self.token()]);
        docs.push(Doc::nest(vec![Doc::line(), self.expr(handler)]));
        Doc::group(docs)
    }

    fn let_(&mut self, definitions: &[Definition], body: &Expr) -> Doc {
        let mut docs = vec![self.token()];
        self.lets += 1;
        for definition in definitions {
            docs.push(Doc::nest(vec![Doc::line(), self.definition(definition)]));
        }
        docs.extend([Doc::line(), self.token(), Doc::nest(vec![Doc::line(), self.expr(body)])]);
        docs.extend([Doc::line(), self.token()]);
        self.lets -= 1;
        Doc::group(docs)
    }
}
