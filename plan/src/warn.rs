//! Warnings: what is right and does not happen as it is written, since nodes make less of it.
//!
//! Example: `setFlow(7, next, dev, 3600)` sets a way for an hour, and every node keeps it for five minutes. Only numbers
//! that stand in the program are looked at; what a program computes is known on the node alone.

use crate::diagnostic::Diagnostic;
use crate::span::Span;
use crate::syntax::ast::{Definition, DefinitionKind, Expr, ExprKind, Primitive, Program};

/// Seconds that a node keeps something for a program, and within which all tries of a packet leave.
pub const SECONDS_MAX: i64 = 300;

/// The shortest time between two tries, in milliseconds.
pub const INTERVAL_MIN_MS: i64 = 10;

/// The services that keep something for a time, with the position of the seconds among their arguments.
const KEEPING: &[(&str, usize)] = &[("put", 3), ("setFlow", 3), ("bandwidthReceive", 1)];

/// All warnings of a program.
pub(crate) fn warnings(program: &Program) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    program.definitions.iter().for_each(|definition| in_definition(definition, &mut found));
    found
}

fn in_definition(definition: &Definition, found: &mut Vec<Diagnostic>) {
    match &definition.kind {
        DefinitionKind::Fun { body, .. } => look(body, found),
        DefinitionKind::Val { value, .. } => look(value, found),
        DefinitionKind::Exception(_) | DefinitionKind::Svc(..) => {}
    }
}

/// A number that stands here.
fn literal(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        ExprKind::Int(value) => Some(*value),
        ExprKind::Paren(inner) => literal(inner),
        _ => None,
    }
}

fn less(span: Span, taken: &str, hint: &str) -> Diagnostic {
    Diagnostic::new(span, "nodes make less of this time", taken).hint(hint)
}

fn call(name: &str, arguments: &[Expr], found: &mut Vec<Diagnostic>) {
    let seconds = KEEPING.iter().find(|(service, _)| *service == name).and_then(|(_, at)| arguments.get(*at));
    if let Some(expr) = seconds.filter(|expr| literal(expr).is_some_and(|seconds| seconds > SECONDS_MAX)) {
        let taken = format!("{SECONDS_MAX} seconds are taken");
        found.push(less(expr.span, &taken, "a node keeps nothing longer; say it again before it ends"));
    }
}

fn tries(operands: &[Expr], found: &mut Vec<Diagnostic>) {
    let [.., tries, interval] = operands else { return };
    let (Some(count), Some(ms)) = (literal(tries), literal(interval)) else { return };
    let most = SECONDS_MAX * 1000 / count.max(1);
    let taken = ms.min(most).max(INTERVAL_MIN_MS);
    if count > 0 && taken != ms {
        let said = format!("{taken} milliseconds are taken");
        let hint = format!(
            "all tries and the wait for word of the last take {SECONDS_MAX} seconds, {INTERVAL_MIN_MS} milliseconds apart at least"
        );
        found.push(less(interval.span, &said, &hint));
    }
}

fn look(expr: &Expr, found: &mut Vec<Diagnostic>) {
    match &expr.kind {
        ExprKind::Call(name, arguments) | ExprKind::Chunk(name, arguments) => {
            call(&name.text, arguments, found);
            arguments.iter().for_each(|inner| look(inner, found));
        }
        ExprKind::Send(primitive, operands) => {
            if *primitive == Primitive::RetransOnRemote {
                tries(operands, found);
            }
            operands.iter().for_each(|inner| look(inner, found));
        }
        ExprKind::List(items) | ExprKind::Tuple(items) | ExprKind::Sequence(items) => {
            items.iter().for_each(|inner| look(inner, found));
        }
        ExprKind::Paren(inner) | ExprKind::Unary(_, inner) | ExprKind::Item(_, inner) => look(inner, found),
        ExprKind::Binary(_, sides) | ExprKind::Try(sides, _) => sides.iter().for_each(|inner| look(inner, found)),
        ExprKind::Fold { operands, .. } => operands.iter().for_each(|inner| look(inner, found)),
        ExprKind::If(parts) => parts.iter().for_each(|inner| look(inner, found)),
        ExprKind::Let(definitions, body) => {
            definitions.iter().for_each(|definition| in_definition(definition, found));
            look(body, found);
        }
        _ => {}
    }
}
