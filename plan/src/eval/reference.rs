//! The reference evaluator: walks the code.
//!
//! What it does is what PLAN means here. Each form evaluates its operands from left to right, then counts its
//! step, then acts. It recurses as deep as the depth limit allows.

use super::builtin::{Builtin, Given};
use super::folding::{Folding, fold_list};
use super::ops::{exception, item, truth};
use super::{EVAL_DEPTH, Fault, Result, Run, Stop};
use crate::code::{Binary, Code, Expr, Kind, Target};
use crate::name::Name;
use crate::program::Program;
use crate::value::{Callee, Chunk, Value};
use std::sync::Arc;

/// Evaluates a chunk.
pub fn evaluate(run: &mut Run<'_>, chunk: &Chunk) -> Result<Value> {
    match chunk.callee() {
        Callee::Service(name) => {
            run.step()?;
            service(run, name, chunk.arguments())
        }
        Callee::Function(program, function) => {
            let code = program.code();
            let definition = code.definitions().get(usize::from(*function));
            let params = definition.and_then(|definition| definition.params);
            let (Some(definition), Some(params)) = (definition, params) else { return Err(Fault::Arity.into()) };
            if usize::from(params) != chunk.arguments().len() {
                return Err(Fault::Arity.into());
            }
            let mut walk = Walk { program, code, values: vec![Value::Unit; code.definitions().len()] };
            for (at, definition) in code.values_for(*function) {
                let value = walk.body(run, at, &definition.body, Vec::new())?;
                if let Some(entry) = walk.values.get_mut(usize::from(at)) {
                    *entry = value;
                }
            }
            run.step()?;
            walk.body(run, *function, &definition.body, chunk.arguments().to_vec())
        }
    }
}

/// Calls a service by name.
fn service(run: &mut Run<'_>, name: &Name, arguments: &[Value]) -> Result<Value> {
    let Some(builtin) = Builtin::of(name) else {
        let service = run.service(name);
        return run.call(service, arguments);
    };
    match run.builtin(builtin, arguments)? {
        Given::Value(value) => Ok(value),
        Given::Evaluate(chunk) => {
            let depth = run.depth();
            run.enter(EVAL_DEPTH)?;
            let value = evaluate(run, &chunk)?;
            run.set_depth(depth);
            Ok(value)
        }
    }
}

/// The value of a constant.
fn constant(kind: &Kind) -> Value {
    match kind {
        Kind::Bool(value) => Value::Bool(*value),
        Kind::Int(value) => Value::Int(*value),
        Kind::Char(value) => Value::Char(*value),
        Kind::Text(bytes) => Value::Text(bytes.clone()),
        _ => Value::Unit,
    }
}

struct Walk<'a> {
    program: &'a Arc<Program>,
    code: &'a Code,
    values: Vec<Value>,
}

impl Walk<'_> {
    /// The body of a definition with these variables.
    fn body(&self, run: &mut Run<'_>, at: u16, body: &Expr, mut locals: Vec<Value>) -> Result<Value> {
        let depth = run.depth();
        run.enter(self.code.facts(at).nesting.into())?;
        let value = self.expr(run, body, &mut locals)?;
        run.set_depth(depth);
        Ok(value)
    }

    fn expr(&self, run: &mut Run<'_>, expr: &Expr, locals: &mut Vec<Value>) -> Result<Value> {
        match &expr.kind {
            Kind::Unit | Kind::Hole | Kind::Bool(_) | Kind::Int(_) | Kind::Char(_) | Kind::Text(_) => {
                run.step()?;
                Ok(constant(&expr.kind))
            }
            Kind::Exn(name) => {
                run.step()?;
                Ok(Value::Exn(name.clone()))
            }
            Kind::Service(_) | Kind::Local(_) | Kind::Val(_) => {
                run.step()?;
                self.named(run, &expr.kind, locals)
            }
            Kind::Unary(operator, operand) => {
                let operand = self.expr(run, operand, locals)?;
                run.step()?;
                run.unary(*operator, &operand)
            }
            Kind::Binary(operator, sides) => self.binary(run, *operator, sides, locals),
            Kind::Item(place, operand) => {
                let operand = self.expr(run, operand, locals)?;
                run.step()?;
                item(*place, &operand)
            }
            Kind::If(parts) => {
                let [condition, then, otherwise] = &**parts;
                let condition = self.expr(run, condition, locals)?;
                run.step()?;
                self.expr(run, if truth(&condition, "if")? { then } else { otherwise }, locals)
            }
            Kind::Tuple(items) => {
                let items = self.all(run, items, locals)?;
                run.step()?;
                run.tuple(items)
            }
            Kind::List(items) => {
                let items = self.all(run, items, locals)?;
                run.step()?;
                run.list(items.into_iter())
            }
            Kind::Sequence(items) => Ok(self.all(run, items, locals)?.pop().unwrap_or_default()),
            Kind::Let(parts, _) => {
                let [value, body] = &**parts;
                let value = self.expr(run, value, locals)?;
                locals.push(value);
                let result = self.expr(run, body, locals);
                locals.pop();
                result
            }
            Kind::Try(only, parts) => self.try_(run, only.as_ref(), parts, locals),
            Kind::Raise(inner) => {
                let value = self.expr(run, inner, locals)?;
                run.step()?;
                Err(exception(value))
            }
            Kind::Call(target, arguments) => {
                let arguments = self.all(run, arguments, locals)?;
                run.step()?;
                self.apply(run, target, arguments)
            }
            Kind::Chunk(target, arguments) => self.chunk(run, target, arguments, locals),
            Kind::Fold(left, target, arguments) => self.fold(run, *left, target, arguments, locals),
            Kind::Send(primitive, operands) => {
                let operands = self.all(run, operands, locals)?;
                run.step()?;
                run.send(*primitive, &operands)
            }
        }
    }

    /// What a name stands for.
    fn named(&self, run: &mut Run<'_>, kind: &Kind, locals: &[Value]) -> Result<Value> {
        let value = match kind {
            Kind::Local(at) => locals.get(usize::from(*at)),
            Kind::Val(at) => self.values.get(usize::from(*at)),
            Kind::Service(name) => {
                // What evaluation itself gives is a function, whatever the node says.
                let service = if Builtin::of(name).is_some() { None } else { run.service(name) };
                return run.constant(name, service);
            }
            _ => None,
        };
        Ok(value.cloned().unwrap_or_default())
    }

    fn chunk(&self, run: &mut Run<'_>, target: &Target, arguments: &[Expr], locals: &mut Vec<Value>) -> Result<Value> {
        let arguments = self.all(run, arguments, locals)?;
        run.step()?;
        run.cells(1 + arguments.len() as u32)?;
        let callee = match target {
            Target::Function(function) => Callee::Function(self.program.clone(), *function),
            Target::Service(name) => Callee::Service(name.clone()),
        };
        let chunk = Chunk::new(callee, arguments).ok_or(Fault::Value)?;
        Ok(Value::Chunk(Arc::new(chunk)))
    }

    fn all(&self, run: &mut Run<'_>, exprs: &[Expr], locals: &mut Vec<Value>) -> Result<Vec<Value>> {
        exprs.iter().map(|expr| self.expr(run, expr, locals)).collect()
    }

    fn binary(&self, run: &mut Run<'_>, operator: Binary, sides: &[Expr; 2], locals: &mut Vec<Value>) -> Result<Value> {
        let [left, right] = sides;
        let left = self.expr(run, left, locals)?;
        if let Binary::And | Binary::Or = operator {
            run.step()?;
            if truth(&left, operator.text())? == (operator == Binary::Or) {
                return Ok(left);
            }
            let right = self.expr(run, right, locals)?;
            truth(&right, operator.text())?;
            return Ok(right);
        }
        let right = self.expr(run, right, locals)?;
        run.step()?;
        run.binary(operator, &left, &right)
    }

    fn try_(
        &self,
        run: &mut Run<'_>,
        only: Option<&Name>,
        parts: &[Expr; 2],
        locals: &mut Vec<Value>,
    ) -> Result<Value> {
        let [body, handler] = parts;
        run.step()?;
        let (depth, variables) = (run.depth(), locals.len());
        let raised = match self.expr(run, body, locals) {
            Err(Stop::Raise(name)) if only.is_none_or(|only| *only == name) => name,
            other => return other,
        };
        run.set_depth(depth);
        locals.truncate(variables);
        if only.is_none() {
            locals.push(Value::Exn(raised));
        }
        let result = self.expr(run, handler, locals);
        locals.truncate(variables);
        result
    }

    fn apply(&self, run: &mut Run<'_>, target: &Target, arguments: Vec<Value>) -> Result<Value> {
        match target {
            Target::Service(name) => service(run, name, &arguments),
            Target::Function(function) => match self.code.definitions().get(usize::from(*function)) {
                Some(definition) => self.body(run, *function, &definition.body, arguments),
                None => Err(Fault::Arity.into()),
            },
        }
    }

    fn fold(
        &self,
        run: &mut Run<'_>,
        left: bool,
        target: &Target,
        arguments: &[Expr],
        locals: &mut Vec<Value>,
    ) -> Result<Value> {
        let mut captured = self.all(run, arguments, locals)?;
        let (Some(second), Some(first)) = (captured.pop(), captured.pop()) else { return Err(Fault::Arity.into()) };
        run.step()?;
        let Folding { list, mut sum } = fold_list(run, left, first, second)?;
        for element in list.iter() {
            run.step()?;
            let mut arguments = captured.clone();
            arguments.extend(if left { [sum, element.clone()] } else { [element.clone(), sum] });
            sum = self.apply(run, target, arguments)?;
        }
        Ok(sum)
    }
}
