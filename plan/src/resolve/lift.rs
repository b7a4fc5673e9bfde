//! Local functions become definitions of the program.
//!
//! A local function is first resolved as if every variable around it were a parameter of its own, so
//! that variables keep their numbers; then those it does not use are taken out, and the rest move up.

use super::scope::Local;
use super::{Note, Resolver};
use crate::code::{Expr, Kind, Target};
use crate::diagnostic::Diagnostic;
use crate::syntax::ast::{Ident, Type};

/// A local function as it was written.
pub(super) struct Function<'a> {
    pub name: &'a Ident,
    pub params: &'a [(Ident, Option<Type>)],
    pub result: &'a Option<Type>,
    pub body: &'a crate::syntax::ast::Expr,
}

impl Resolver<'_> {
    /// Makes a local function a definition, and its name known from here on.
    pub(super) fn lift(&mut self, function: &Function<'_>) {
        self.check_params(function.params);
        let around = self.scope.variables;
        let symbol = self.new_symbol(function.name);
        let mark = self.scope.mark();
        let hidden = self.scope.hide();
        self.scope.add(&function.name.text, Local::Itself(symbol));
        for (param, _) in function.params {
            self.scope.bind(&param.text);
        }
        let mut body = self.expr(function.body);
        self.scope.back(mark);
        self.scope.show(hidden);

        let mut used = vec![false; usize::from(around)];
        mark_used(&body, &mut used);
        let captures: Vec<u16> = (0..around).filter(|at| used.get(usize::from(*at)) == Some(&true)).collect();
        let removed = around - captures.len() as u16;
        move_up(&mut body, &|variable| match captures.binary_search(&variable) {
            Ok(place) => place as u16,
            Err(_) => variable.saturating_sub(removed),
        });
        hand_on(&mut body, symbol, captures.len() as u16);
        let params = captures.len() + function.params.len();
        let mut notes = vec![None; captures.len()];
        notes.extend(function.params.iter().map(|(_, note)| note.clone()));
        let note = Note { params: notes, result: function.result.clone(), span: function.name.span, top: false };
        self.define(symbol, function.name, Some(params), body, note);
        self.scope.add(&function.name.text, Local::Function { symbol, captures });
    }

    /// A symbol that no other definition has.
    fn new_symbol(&mut self, name: &Ident) -> u16 {
        self.last_symbol += 1;
        u16::try_from(self.last_symbol).unwrap_or_else(|_| {
            self.diagnostics.push(Diagnostic::new(name.span, "too many definitions", "this one is too many"));
            u16::MAX
        })
    }
}

fn mark_used(expr: &Expr, used: &mut [bool]) {
    if let Kind::Local(variable) = expr.kind
        && let Some(entry) = used.get_mut(usize::from(variable))
    {
        *entry = true;
    }
    for inner in expr.kind.inside() {
        mark_used(inner, used);
    }
}

fn move_up(expr: &mut Expr, place: &impl Fn(u16) -> u16) {
    if let Kind::Local(variable) = &mut expr.kind {
        *variable = place(*variable);
    }
    for inner in expr.kind.inside_mut() {
        move_up(inner, place);
    }
}

/// Chunks of the function in its own body carry what it captured.
fn hand_on(expr: &mut Expr, symbol: u16, captures: u16) {
    for inner in expr.kind.inside_mut() {
        hand_on(inner, symbol, captures);
    }
    let at = expr.at;
    if let Kind::Chunk(Target::Function(target), arguments) = &mut expr.kind
        && *target == symbol
    {
        let captured = (0..captures).map(|variable| Expr { kind: Kind::Local(variable), at });
        arguments.splice(0..0, captured);
    }
}
