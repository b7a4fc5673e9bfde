//! Polymorphic type inference (Hindley and Milner) on the host, where programs are written.
//!
//! Functions that name each other, as chunks allow, are inferred together; every group before the groups
//! that use it. A node does not trust any of this: it checks every operation when it happens.

use super::annotate::{Named, annotate, core_service, service};
use super::groups::groups;
use super::rules::{self, BOOL, CHAR, EXN, INT, STRING, UNIT};
use super::{Scheme, Table, Type, show};
use crate::code::{Binary, Definition, Expr, Kind, Primitive, Target};
use crate::diagnostic::Diagnostic;
use crate::name::{Core, Name};
use crate::resolve::{Note, Resolved};
use crate::span::Span;

/// The types of a program's definitions.
#[derive(Debug, Default)]
pub struct Checked {
    /// For each definition, in order, its type as the language writes it.
    pub types: Vec<String>,
}

/// Infers the types of a resolved program; what does not fit is added to the diagnostics.
pub fn infer(resolved: &Resolved, diagnostics: &mut Vec<Diagnostic>) -> Checked {
    let mut table = Table::default();
    let mut services = Vec::new();
    for (name, written) in &resolved.services {
        let scheme = service(written, &mut table, diagnostics);
        same_as_core(name, &scheme, written.span, &mut table, diagnostics);
        services.push((name.clone(), scheme));
    }
    let definitions = &resolved.definitions;
    let mut inference = Inference {
        definitions,
        notes: &resolved.local_notes,
        table,
        services,
        schemes: vec![None; definitions.len()],
        locals: Vec::new(),
        items: Vec::new(),
        named: Named::default(),
        diagnostics,
    };
    for group in groups(definitions) {
        inference.group(&group, &resolved.notes);
    }
    inference.finish(&resolved.notes)
}

/// A service that every node knows has one type, whoever declares it.
fn same_as_core(name: &Name, scheme: &Scheme, at: Span, table: &mut Table, diagnostics: &mut Vec<Diagnostic>) {
    let Some(Core::Service(text)) = name.meaning() else { return };
    let Some(known) = core_service(text, table) else { return };
    let (declared, known) = (table.instance(scheme), table.instance(&known));
    if !table.unify(&declared, &known) {
        let label = format!("declared as {}", show(scheme.kind()));
        let what = Diagnostic::new(at, format!("the service '{name}' has another type"), label);
        diagnostics.push(what.hint(format!("its type is {text}; it needs no declaration")));
    }
}

pub(super) struct Inference<'a> {
    definitions: &'a [Definition],
    notes: &'a [crate::syntax::ast::Type],
    pub(super) table: Table,
    services: Vec<(Name, Scheme)>,
    schemes: Vec<Option<Scheme>>,
    locals: Vec<Scheme>,
    /// Places in tuples that are not known to be tuples yet: tuple, place, result, where.
    items: Vec<(Type, u8, Type, Span)>,
    named: Named,
    pub(super) diagnostics: &'a mut Vec<Diagnostic>,
}

impl Inference<'_> {
    fn group(&mut self, group: &[usize], notes: &[Note]) {
        let definitions = self.definitions;
        let mut types = Vec::new();
        for &at in group {
            let Some(definition) = definitions.get(at) else { continue };
            let kind = match definition.params {
                Some(params) => {
                    let params = (0..params).map(|_| self.table.fresh()).collect();
                    Type::Arrow(params, Box::new(self.table.fresh()))
                }
                None => self.table.fresh(),
            };
            types.push((at, kind.clone()));
            if let Some(entry) = self.schemes.get_mut(at) {
                *entry = Some(Scheme::one(kind));
            }
        }
        for (at, kind) in &types {
            let (Some(definition), Some(note)) = (definitions.get(*at), notes.get(*at)) else { continue };
            self.definition(definition, note, kind);
        }
        self.settle_items(true);
        for (at, kind) in types {
            let scheme = self.table.generalise(&kind, &[]);
            if let Some(entry) = self.schemes.get_mut(at) {
                *entry = Some(scheme);
            }
        }
    }

    fn definition(&mut self, definition: &Definition, note: &Note, kind: &Type) {
        self.named = Named::default();
        self.locals.clear();
        let (params, result) = match kind {
            Type::Arrow(params, result) if definition.params.is_some() => (&params[..], &**result),
            _ => (&[][..], kind),
        };
        for (param, note) in params.iter().zip(&note.params) {
            if let Some(written) = note {
                let written = annotate(written, &mut self.named, &mut self.table, self.diagnostics);
                self.table.unify(param, &written);
            }
        }
        if let Some(written) = &note.result {
            let written = annotate(written, &mut self.named, &mut self.table, self.diagnostics);
            self.table.unify(result, &written);
        }
        self.locals = params.iter().cloned().map(Scheme::one).collect();
        self.want(&definition.body, result, &format!("the result of '{}'", definition.name));
    }

    fn finish(mut self, notes: &[Note]) -> Checked {
        let mut types = Vec::new();
        for scheme in std::mem::take(&mut self.schemes) {
            let kind = scheme.map(|scheme| self.table.full(&scheme.kind));
            types.push(kind.map_or_else(String::new, |kind| show(&kind)));
        }
        if self.table.too_large {
            let at = notes.last().map_or(Span::NOWHERE, |note| note.span);
            let what = Diagnostic::new(at, "the program's types are too large to check", "up to here at the latest");
            self.diagnostics.push(what.hint("tuples of tuples double with every definition"));
        }
        Checked { types }
    }

    /// Infers an expression that must have this type, which `what` has.
    fn want(&mut self, expr: &Expr, expected: &Type, what: &str) {
        let found = self.expr(expr);
        self.must(expr.at, expected, &found, what);
    }

    fn must(&mut self, at: Span, expected: &Type, found: &Type, what: &str) {
        if self.table.unify(expected, found) {
            return;
        }
        let (expected, found) = (self.table.full(expected), self.table.full(found));
        let label = format!("expected {}, found {}", show(&expected), show(&found));
        let mut diagnostic = Diagnostic::new(at, format!("{what} has the wrong type"), label);
        let hint = match (&expected, &found) {
            (Type::Chunk(_), _) => Some("a packet carries a chunk, |f|(…), not the result of a call"),
            (Type::Base(super::Base::Host), Type::List(inner)) if **inner == rules::HOST => {
                Some("a node can have several addresses; hd takes the first")
            }
            (Type::Base(super::Base::Int), Type::Base(super::Base::Char)) => Some("ord gives a character's number"),
            (Type::Base(super::Base::String), Type::Base(super::Base::Char)) => Some("implode [c] is a string"),
            (Type::Base(super::Base::Int), Type::Base(super::Base::String))
            | (Type::Base(super::Base::String), Type::Base(super::Base::Int)) => {
                Some("'^' joins strings; print shows any values, also in a tuple: print((n, s))")
            }
            (Type::Base(super::Base::Bool), Type::Base(super::Base::Int)) => Some("a number is compared: n <> 0"),
            (Type::Base(super::Base::Unit), _) => Some("a value that nobody wants is left out: (e; ())"),
            (Type::List(_), Type::Tuple(_)) => Some("the elements of a list are separated by ';'"),
            _ => None,
        };
        if let Some(hint) = hint {
            diagnostic = diagnostic.hint(hint);
        }
        self.diagnostics.push(diagnostic);
    }

    fn expr(&mut self, expr: &Expr) -> Type {
        match &expr.kind {
            Kind::Hole => self.table.fresh(),
            Kind::Unit => UNIT,
            Kind::Bool(_) => BOOL,
            Kind::Int(_) => INT,
            Kind::Char(_) => CHAR,
            Kind::Text(_) => STRING,
            Kind::Exn(_) => EXN,
            Kind::Service(name) => self.service(name),
            Kind::Local(at) => match self.locals.get(usize::from(*at)).cloned() {
                Some(scheme) => self.table.instance(&scheme),
                None => self.table.fresh(),
            },
            Kind::Val(at) => self.scheme(*at),
            Kind::Unary(operator, inner) => {
                let (operand, result) = rules::unary(*operator, &mut self.table);
                self.want(inner, &operand, &format!("the operand of '{}'", operator.text()));
                result
            }
            Kind::Binary(operator, sides) => self.binary(*operator, sides),
            Kind::Item(place, inner) => {
                let (tuple, result) = (self.expr(inner), self.table.fresh());
                self.items.push((tuple, *place, result.clone(), expr.at));
                self.settle_items(false);
                result
            }
            Kind::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                self.want(condition, &BOOL, "the condition");
                let result = self.expr(then);
                self.want(otherwise, &result, "the branch after 'else'");
                result
            }
            Kind::Tuple(items) => Type::Tuple(items.iter().map(|item| self.expr(item)).collect()),
            Kind::List(items) => {
                let inner = self.table.fresh();
                items.iter().for_each(|item| self.want(item, &inner, "an element of the list"));
                Type::List(Box::new(inner))
            }
            Kind::Sequence(items) => {
                let types: Vec<_> = items.iter().map(|item| self.expr(item)).collect();
                types.last().cloned().unwrap_or(UNIT)
            }
            Kind::Let(parts, note) => self.let_(parts, *note),
            Kind::Try(only, parts) => {
                let [body, handler] = &**parts;
                let result = self.expr(body);
                let mark = self.locals.len();
                if only.is_none() {
                    self.locals.push(Scheme::one(EXN));
                }
                self.want(handler, &result, "the handler");
                self.locals.truncate(mark);
                result
            }
            Kind::Raise(inner) => {
                self.want(inner, &EXN, "what is raised");
                self.table.fresh()
            }
            Kind::Call(target, arguments) => self.apply(target, arguments, expr.at),
            Kind::Chunk(target, arguments) => Type::Chunk(Box::new(self.apply(target, arguments, expr.at))),
            Kind::Fold(left, target, arguments) => self.fold(*left, target, arguments, expr.at),
            Kind::Send(primitive, operands) => self.send(*primitive, operands),
        }
    }

    fn send(&mut self, primitive: Primitive, operands: &[Expr]) -> Type {
        let types = rules::primitive(primitive, operands.len(), &mut self.table);
        let fourth = if primitive == Primitive::OnNeighbor { "the device" } else { "the routing function" };
        let names = ["the chunk", "the host", "the resource bound", fourth, "the number of tries", "the interval"];
        for ((operand, kind), name) in operands.iter().zip(&types).zip(names) {
            self.want(operand, kind, &format!("{name} of {}", primitive.text()));
        }
        UNIT
    }

    fn let_(&mut self, parts: &[Expr; 2], note: Option<u32>) -> Type {
        let [value, body] = parts;
        let kind = self.expr(value);
        if let Some(written) = note.and_then(|at| self.notes.get(at as usize)) {
            let written = annotate(written, &mut self.named, &mut self.table, self.diagnostics);
            self.must(value.at, &written, &kind, "the value");
        }
        let mut fixed: Vec<Type> = self.locals.iter().map(|scheme| scheme.kind.clone()).collect();
        fixed.extend(self.items.iter().map(|(tuple, ..)| tuple.clone()));
        fixed.extend(self.items.iter().map(|(_, _, result, _)| result.clone()));
        let scheme = self.table.generalise(&kind, &fixed);
        self.locals.push(scheme);
        let result = self.expr(body);
        self.locals.pop();
        result
    }

    fn binary(&mut self, operator: Binary, sides: &[Expr; 2]) -> Type {
        let [left, right] = sides;
        let (first, second, result) = rules::binary(operator, &mut self.table);
        self.want(left, &first, &format!("the left side of '{}'", operator.text()));
        self.want(right, &second, &format!("the right side of '{}'", operator.text()));
        result
    }

    fn scheme(&mut self, at: u16) -> Type {
        match self.schemes.get(usize::from(at)).cloned().flatten() {
            Some(scheme) => self.table.instance(&scheme),
            None => self.table.fresh(),
        }
    }

    fn service(&mut self, name: &Name) -> Type {
        if let Some((_, scheme)) = self.services.iter().find(|(known, _)| known == name) {
            let scheme = scheme.clone();
            return self.table.instance(&scheme);
        }
        let scheme = match name.meaning() {
            Some(Core::Service(text)) => core_service(text, &mut self.table),
            _ => None,
        };
        match scheme {
            Some(scheme) => {
                self.services.push((name.clone(), scheme.clone()));
                self.table.instance(&scheme)
            }
            None => self.table.fresh(),
        }
    }

    /// What a target gives for these arguments.
    fn apply(&mut self, target: &Target, arguments: &[Expr], at: Span) -> Type {
        let (kind, name) = match target {
            Target::Function(function) => {
                let name = self.definitions.get(usize::from(*function)).map(|found| found.name.clone());
                (self.scheme(*function), name.unwrap_or(Name::NONE))
            }
            Target::Service(name) => (self.service(name), name.clone()),
        };
        let found = arguments.len();
        match self.table.head(&kind) {
            Type::Arrow(params, result) if params.len() == found => {
                for (place, (argument, param)) in (1..).zip(arguments.iter().zip(&params)) {
                    self.want(argument, param, &format!("argument {place} of '{name}'"));
                }
                *result
            }
            other => {
                arguments.iter().for_each(|argument| drop(self.expr(argument)));
                let full = self.table.full(&other);
                let (message, label, result) = match other {
                    Type::Arrow(params, result) => {
                        let label = format!("expected {}, found {found}", params.len());
                        (format!("'{name}' has another number of parameters"), label, *result)
                    }
                    Type::Variable(_) => return self.table.fresh(),
                    _ => (format!("'{name}' is not a function"), "called here".to_owned(), self.table.fresh()),
                };
                self.diagnostics.push(Diagnostic::new(at, message, label).hint(format!("its type is {}", show(&full))));
                result
            }
        }
    }

    /// The last two arguments are not the function's: they are the start and the list.
    fn fold(&mut self, left: bool, target: &Target, arguments: &[Expr], at: Span) -> Type {
        let Some((captured, [first, second])) = arguments.split_last_chunk::<2>() else { return self.table.fresh() };
        let (start, list) = if left { (first, second) } else { (second, first) };
        let (element, sum) = (self.table.fresh(), self.table.fresh());
        self.want(list, &Type::List(Box::new(element.clone())), "the list of the fold");
        self.want(start, &sum, "the start of the fold");
        let mut params: Vec<_> = captured.iter().map(|argument| self.expr(argument)).collect();
        params.extend(if left { [sum.clone(), element] } else { [element, sum.clone()] });
        let expected = Type::Arrow(params, Box::new(sum.clone()));
        let found = match target {
            Target::Function(function) => self.scheme(*function),
            Target::Service(name) => self.service(name),
        };
        self.must(at, &expected, &found, "the function of the fold");
        sum
    }

    /// Looks again at places in tuples; with `last`, what is still no tuple is a mistake.
    fn settle_items(&mut self, last: bool) {
        for (tuple, place, result, at) in std::mem::take(&mut self.items) {
            match self.table.head(&tuple) {
                Type::Tuple(items) => match items.get(usize::from(place).wrapping_sub(1)).cloned() {
                    Some(item) => self.must(at, &result, &item, "the place in the tuple"),
                    None => {
                        let label = format!("expected at most #{}, found #{place}", items.len());
                        self.diagnostics.push(Diagnostic::new(at, "the tuple has no such place", label));
                    }
                },
                Type::Variable(_) if !last => self.items.push((tuple, place, result, at)),
                Type::Variable(_) => {
                    let what = Diagnostic::new(at, "the length of the tuple is not known here", "of which tuple?");
                    self.diagnostics.push(what.hint("give the variable its type: fun f(t : int * int * int) = #3 t"));
                }
                other => {
                    let other = self.table.full(&other);
                    let label = format!("expected a tuple, found {}", show(&other));
                    self.diagnostics.push(Diagnostic::new(at, "not a tuple", label));
                }
            }
        }
    }
}
