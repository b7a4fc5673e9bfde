//! Names inside expressions.

use super::Resolver;
use super::lift::Function;
use super::scope::{Local, What};
use crate::code::{Expr, Kind, NoteIndex, OPERANDS_MAX, Target};
use crate::diagnostic::Diagnostic;
use crate::name::{Core, Name, TABLE};
use crate::span::Span;
use crate::syntax::ast::{self, Definition, DefinitionKind, ExprKind, Ident};
use crate::syntax::token::WORDS;

/// After so many mistakes there are no more suggestions.
const SUGGESTIONS_MAX: usize = 100;

/// How a name is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Call,
    Chunk,
}

impl Resolver<'_> {
    pub(super) fn expr(&mut self, expr: &ast::Expr) -> Expr {
        let kind = match &expr.kind {
            ExprKind::Error => Kind::Hole,
            ExprKind::Unit => Kind::Unit,
            ExprKind::Bool(value) => Kind::Bool(*value),
            ExprKind::Int(value) => Kind::Int(*value),
            ExprKind::Char(value) => Kind::Char(*value),
            ExprKind::Text(bytes) => Kind::Text(bytes.as_slice().into()),
            ExprKind::Var(name) => self.variable(name),
            ExprKind::List(items) => Kind::List(self.exprs(items)),
            ExprKind::Paren(inner) => return self.expr(inner),
            ExprKind::Tuple(items) => Kind::Tuple(self.exprs(items)),
            ExprKind::Sequence(items) => Kind::Sequence(self.exprs(items)),
            ExprKind::Call(name, arguments) => {
                let arguments = self.exprs(arguments);
                match self.target(name, Use::Call, arguments) {
                    Some((target, arguments)) => Kind::Call(target, arguments),
                    None => Kind::Hole,
                }
            }
            ExprKind::Chunk(name, arguments) => {
                let arguments = self.exprs(arguments);
                match self.target(name, Use::Chunk, arguments) {
                    Some((target, arguments)) => Kind::Chunk(target, arguments),
                    None => Kind::Hole,
                }
            }
            ExprKind::Unary(operator, inner) => Kind::Unary(*operator, Box::new(self.expr(inner))),
            ExprKind::Item(number, inner) => Kind::Item(*number, Box::new(self.expr(inner))),
            ExprKind::Binary(operator, sides) => Kind::Binary(*operator, self.all(sides)),
            ExprKind::If(parts) => Kind::If(self.all(parts)),
            ExprKind::Raise(name) => {
                let kind = self.variable(name);
                Kind::Raise(Box::new(Expr { kind, at: name.span }))
            }
            ExprKind::Try(parts, name) => self.try_(parts, name),
            ExprKind::Let(definitions, body) => return self.let_(definitions, body, expr.span),
            ExprKind::Fold { left, function, operands } => {
                let operands = self.exprs(&operands[..]);
                match self.target(function, Use::Call, operands) {
                    Some((target, arguments)) => Kind::Fold(*left, target, arguments),
                    None => Kind::Hole,
                }
            }
            ExprKind::Send(primitive, operands) => Kind::Send(*primitive, self.exprs(operands)),
        };
        Expr { kind, at: expr.span }
    }

    fn exprs(&mut self, exprs: &[ast::Expr]) -> Vec<Expr> {
        if let Some(expr) = exprs.get(OPERANDS_MAX) {
            let label = format!("at most {OPERANDS_MAX} stand in a row");
            self.diagnostics.push(Diagnostic::new(expr.span, "too many expressions in a row", label));
        }
        exprs.iter().map(|expr| self.expr(expr)).collect()
    }

    fn all<const N: usize>(&mut self, exprs: &[ast::Expr; N]) -> Box<[Expr; N]> {
        Box::new(exprs.each_ref().map(|expr| self.expr(expr)))
    }

    fn try_(&mut self, parts: &[ast::Expr; 2], name: &Ident) -> Kind {
        let [body, handler] = parts;
        let body = self.expr(body);
        let only = self.exception(name);
        let mark = self.scope.mark();
        if only.is_none() {
            self.scope.bind(&name.text);
        }
        let handler = self.expr(handler);
        self.scope.back(mark);
        Kind::Try(only, Box::new([body, handler]))
    }

    /// The exception that a name in `handle` stands for; none if it is a new variable.
    fn exception(&self, ident: &Ident) -> Option<Name> {
        let name = Name::new(&ident.text).filter(|name| !name.is_none())?;
        let declared = match self.scope.find(&ident.text) {
            Some(what) => matches!(what, Local::Exception),
            None => match self.global(&ident.text) {
                Some((at, What::Exception)) => Some(at) < self.current,
                Some(_) => false,
                None => name.meaning() == Some(Core::Exception),
            },
        };
        declared.then_some(name)
    }

    fn let_(&mut self, definitions: &[Definition], body: &ast::Expr, span: Span) -> Expr {
        let mark = self.scope.mark();
        let mut values = Vec::new();
        for definition in definitions {
            match &definition.kind {
                DefinitionKind::Val { name, note, value } => {
                    let value = self.expr(value);
                    let note = note.as_ref().map(|note| {
                        self.out.local_notes.push(note.clone());
                        (self.out.local_notes.len() - 1) as NoteIndex
                    });
                    self.scope.bind(&name.text);
                    values.push((value, note));
                }
                DefinitionKind::Fun { name, params, result, body } => {
                    self.lift(&Function { name, params, result, body });
                }
                DefinitionKind::Exception(name) => self.scope.add(&name.text, Local::Exception),
                DefinitionKind::Svc(..) => {}
            }
        }
        let mut out = self.expr(body);
        self.scope.back(mark);
        for (value, note) in values.into_iter().rev() {
            out = Expr { kind: Kind::Let(Box::new([value, out]), note), at: span };
        }
        out
    }

    fn global(&self, name: &str) -> Option<(usize, What)> {
        let at = self.globals.iter().position(|global| global.name == name)?;
        self.globals.get(at).map(|global| (at, global.what))
    }

    /// A name alone.
    fn variable(&mut self, ident: &Ident) -> Kind {
        if ident.text.is_empty() {
            return Kind::Hole;
        }
        let name = Name::new(&ident.text);
        match self.scope.find(&ident.text) {
            Some(Local::Variable(number)) => return Kind::Local(*number),
            Some(Local::Exception) => return name.map_or(Kind::Hole, Kind::Exn),
            Some(_) => return self.not_a_value(ident),
            None => {}
        }
        match (self.global(&ident.text), name) {
            (Some((at, What::Function(_))), _) if Some(at) != self.current => self.not_a_value(ident),
            (Some((at, _)), _) if Some(at) >= self.current && !self.is_service(at) => self.not_yet(ident, at),
            (Some((at, What::Value)), _) => Kind::Val(u16::try_from(at).unwrap_or(u16::MAX)),
            (Some((_, What::Exception)), Some(name)) => Kind::Exn(name),
            (Some((_, What::Service)), Some(name)) => Kind::Service(name),
            (Some(_), _) => self.not_a_value(ident),
            (None, Some(name)) => match name.meaning() {
                Some(Core::Exception) => Kind::Exn(name),
                Some(Core::Service(_)) => Kind::Service(name),
                _ => self.unknown(ident),
            },
            (None, None) => self.unknown(ident),
        }
    }

    fn is_service(&self, at: usize) -> bool {
        self.globals.get(at).is_some_and(|global| global.what == What::Service)
    }

    /// What a call, chunk or fold names, and its arguments with those the target captured.
    fn target(&mut self, ident: &Ident, how: Use, arguments: Vec<Expr>) -> Option<(Target, Vec<Expr>)> {
        if ident.text.is_empty() {
            return None;
        }
        let name = Name::new(&ident.text)?;
        match self.scope.find(&ident.text).cloned() {
            Some(Local::Function { symbol, captures }) => {
                let captured = captures.iter().map(|number| Expr { kind: Kind::Local(*number), at: ident.span });
                return Some((Target::Function(symbol), captured.chain(arguments).collect()));
            }
            Some(Local::Itself(symbol)) if how == Use::Chunk => return Some((Target::Function(symbol), arguments)),
            Some(Local::Itself(_) | Local::Beyond) => return self.recursive(ident, how),
            Some(Local::Variable(_) | Local::Exception) => return self.not_a_function(ident),
            None => {}
        }
        match self.global(&ident.text) {
            Some((at, What::Function(_))) => {
                let function = Target::Function(u16::try_from(at).ok()?);
                match how {
                    Use::Call if Some(at) == self.current => self.recursive(ident, how),
                    Use::Call if Some(at) > self.current => {
                        self.not_yet(ident, at);
                        None
                    }
                    _ => Some((function, arguments)),
                }
            }
            Some((_, What::Service)) => Some((Target::Service(name), arguments)),
            Some(_) => self.not_a_function(ident),
            None => match name.meaning() {
                Some(Core::Service(_)) => Some((Target::Service(name), arguments)),
                Some(Core::Exception) => self.not_a_function(ident),
                _ => {
                    self.unknown(ident);
                    None
                }
            },
        }
    }

    fn recursive<T>(&mut self, ident: &Ident, how: Use) -> Option<T> {
        let message = format!("'{}' calls itself", ident.text);
        let hint = match how {
            Use::Call => format!("PLAN has no recursion: fold over a list, or send a chunk |{}|(…)", ident.text),
            Use::Chunk => {
                format!("from inside another local function this needs '{}' to be defined at the top", ident.text)
            }
        };
        self.diagnostics.push(Diagnostic::new(ident.span, message, "inside its own definition").hint(hint));
        None
    }

    fn not_a_function<T>(&mut self, ident: &Ident) -> Option<T> {
        let message = format!("'{}' is not a function", ident.text);
        let what = Diagnostic::new(ident.span, message, "expected a function or a service");
        self.diagnostics.push(what.hint("functions are not values, so variables cannot be called"));
        None
    }

    fn not_a_value(&mut self, ident: &Ident) -> Kind {
        let message = format!("the function '{}' is not a value", ident.text);
        let hint = format!("call it, {}(…), or make a chunk, |{}|(…)", ident.text, ident.text);
        self.diagnostics.push(Diagnostic::new(ident.span, message, "expected a value, found a function").hint(hint));
        Kind::Hole
    }

    fn not_yet(&mut self, ident: &Ident, at: usize) -> Kind {
        let message = format!("'{}' is used before its definition", ident.text);
        let mut what = Diagnostic::new(ident.span, message, "not defined yet");
        if let Some(global) = self.globals.get(at) {
            what = what.other(global.span, "its definition");
        }
        self.diagnostics.push(what.hint("move the definition up; only chunks may name later functions"));
        Kind::Hole
    }

    fn unknown(&mut self, ident: &Ident) -> Kind {
        let message = format!("unknown name '{}'", ident.text);
        // Said where it stands first: the other places are right once this one is.
        if self.diagnostics.iter().any(|known| known.message == message) {
            return Kind::Hole;
        }
        let what = Diagnostic::new(ident.span, message, "neither defined here nor known to every node");
        let known = self.scope.names().chain(self.globals.iter().map(|global| global.name.as_str()));
        let known = known.chain(TABLE.iter().map(|(name, _)| *name)).chain(WORDS.iter().copied());
        // Where so much is unknown, suggestions would not help and take long to find.
        let known = known.filter(|_| self.diagnostics.len() < SUGGESTIONS_MAX);
        let hint = match known.min_by_key(|name| distance(name, &ident.text)) {
            Some(near) if distance(near, &ident.text) <= 1 + ident.text.len() / 4 => format!("did you mean '{near}'?"),
            _ => format!("if it is a service of a node, declare it: svc {} : type", ident.text),
        };
        self.diagnostics.push(what.hint(hint));
        Kind::Hole
    }
}

/// How many letters must be added, removed or replaced to make one word of the other, case aside.
fn distance(one: &str, other: &str) -> usize {
    let other = other.as_bytes();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let (mut corner, mut left) = (at, at + 1);
        for (entry, against) in row.iter_mut().skip(1).zip(other) {
            let up = *entry;
            let replaced = corner + usize::from(!letter.eq_ignore_ascii_case(against));
            left = replaced.min(up + 1).min(left + 1);
            corner = up;
            *entry = left;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_distance_of_words_counts_changed_letters() {
        for (one, other, expected) in [("print", "Print", 0), ("prnt", "print", 1), ("abc", "", 3), ("ab", "ba", 2)] {
            assert_eq!(super::distance(one, other), expected, "{one} {other}");
        }
    }
}
