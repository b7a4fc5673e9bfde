//! The fast evaluator: runs compiled code on a stack.
//!
//! A machine is kept and reused, so that its stacks keep their memory: a packet whose values are numbers
//! and hosts is evaluated without allocation but for the chunks it makes. It must do what
//! [`reference`](super::reference) does, step for step; a test compares them on generated programs.

use super::builtin::Builtin;
use super::compile::{Compiled, Link, Op};
use super::ops::{exception, item, truth};
use super::{Fault, Result, Run, Stop};
use crate::code::Binary;
use crate::program::Program;
use crate::value::{Callee, Chunk, Value};
use std::sync::Arc;

/// The stacks of the fast evaluator.
#[derive(Debug, Default)]
pub struct Machine {
    pub(super) stack: Vec<Value>,
    pub(super) frames: Vec<Frame>,
    pub(super) handlers: Vec<Handler>,
    /// The values of definitions, for each program under way.
    values: Vec<Value>,
}

/// Where a call goes on when it returns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub pc: u32,
    pub base: u32,
    pub depth: u32,
}

/// What an exception goes back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handler {
    pub site: u16,
    pub frames: u32,
    pub stack: u32,
    pub base: u32,
    pub depth: u32,
}

/// A program under way: where it is, and where its part of the stacks begins.
pub(super) struct Here<'a> {
    pub program: &'a Arc<Program>,
    pub code: &'a Compiled,
    pub pc: usize,
    pub base: usize,
    pub values: usize,
    pub frames: usize,
}

impl Machine {
    /// A machine with empty stacks.
    pub fn new() -> Machine {
        Machine::default()
    }

    /// Evaluates a chunk.
    pub fn evaluate(&mut self, run: &mut Run<'_>, chunk: &Chunk) -> Result<Value> {
        let result = self.chunk(run, chunk);
        self.stack.clear();
        self.values.clear();
        self.frames.clear();
        self.handlers.clear();
        result
    }

    pub(super) fn chunk(&mut self, run: &mut Run<'_>, chunk: &Chunk) -> Result<Value> {
        match chunk.callee() {
            Callee::Service(name) => {
                run.step()?;
                let link = Builtin::of(name).map_or_else(|| Link::Node(run.service(name)), Link::Builtin);
                let start = self.stack.len();
                self.stack.extend_from_slice(chunk.arguments());
                let result = self.service(run, link, chunk.arguments().len());
                self.stack.truncate(start);
                result
            }
            Callee::Function(program, function) => {
                let marks = (self.stack.len(), self.values.len(), self.frames.len(), self.handlers.len());
                let result = self.function(run, program, *function, chunk.arguments());
                self.stack.truncate(marks.0);
                self.values.truncate(marks.1);
                self.frames.truncate(marks.2);
                self.handlers.truncate(marks.3);
                result
            }
        }
    }

    /// Evaluates the values that a function needs, then calls it.
    fn function(
        &mut self,
        run: &mut Run<'_>,
        program: &Arc<Program>,
        function: u16,
        arguments: &[Value],
    ) -> Result<Value> {
        let code = program.compiled();
        let params = code.entries.get(usize::from(function)).and_then(|entry| entry.params);
        if params.map(usize::from) != Some(arguments.len()) {
            return Err(Fault::Arity.into());
        }
        let values = self.values.len();
        if let Some(needed) = code.values.get(usize::from(function)).filter(|needed| !needed.is_empty()) {
            self.values.resize(values + code.entries.len(), Value::Unit);
            for at in needed {
                let value = self.body(run, program, *at, values)?;
                if let Some(entry) = self.values.get_mut(values + usize::from(*at)) {
                    *entry = value;
                }
            }
        }
        run.step()?;
        self.stack.extend_from_slice(arguments);
        self.body(run, program, function, values)
    }

    /// Runs the body of a definition whose arguments are on the stack.
    fn body(&mut self, run: &mut Run<'_>, program: &Arc<Program>, definition: u16, values: usize) -> Result<Value> {
        let code = program.compiled();
        let Some(entry) = code.entries.get(usize::from(definition)) else { return Err(Fault::Arity.into()) };
        let depth = run.depth();
        run.enter(entry.nesting.into())?;
        let base = self.stack.len() - usize::from(entry.params.unwrap_or(0)).min(self.stack.len());
        let handlers = self.handlers.len();
        let mut here = Here { program, code, pc: entry.at as usize, base, values, frames: self.frames.len() };
        loop {
            match self.go(run, &mut here) {
                Ok(value) => {
                    self.stack.truncate(base);
                    run.set_depth(depth);
                    return Ok(value);
                }
                Err(Stop::Raise(name)) => self.unwind(run, &mut here, name, handlers)?,
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Runs instructions until the body returns or something stops it.
    fn go(&mut self, run: &mut Run<'_>, here: &mut Here<'_>) -> Result<Value> {
        let code = here.code;
        while let Some(op) = code.ops.get(here.pc) {
            here.pc += 1;
            match *op {
                Op::Int(number) => {
                    run.step()?;
                    self.stack.push(Value::Int(number.into()));
                }
                Op::Local(at) => {
                    run.step()?;
                    let value = self.stack.get(here.base + usize::from(at)).cloned().unwrap_or_default();
                    self.stack.push(value);
                }
                Op::Constant(at) => self.copy(run, code.constants.get(usize::from(at)))?,
                Op::ServiceValue(at) => self.service_value(run, code, at)?,
                Op::Val(at) => {
                    run.step()?;
                    let value = self.values.get(here.values + usize::from(at)).cloned().unwrap_or_default();
                    self.stack.push(value);
                }
                Op::Unary(operator) => self.replace(run, |run, operand| run.unary(operator, operand))?,
                Op::Item(place) => self.replace(run, |_, operand| item(place, operand))?,
                Op::Binary(operator) => self.binary(run, operator)?,
                Op::Shortcut(operator, to) => self.shortcut(run, here, operator, to)?,
                Op::Truth(operator) => truth(self.top()?, operator.text()).map(drop)?,
                Op::Branch(to) => {
                    let condition = self.pop();
                    run.step()?;
                    if !truth(&condition, "if")? {
                        here.pc = to as usize;
                    }
                }
                Op::Jump(to) => here.pc = to as usize,
                Op::Tuple(count) => self.collect(run, count, |run, items| run.tuple(items))?,
                Op::List(count) => self.collect(run, count, |run, items| run.list(items.into_iter()))?,
                Op::Pop => drop(self.pop()),
                Op::Slide => {
                    let top = self.pop();
                    *self.top()? = top;
                }
                Op::Try(site) => self.try_(run, here, site)?,
                Op::EndTry => drop(self.handlers.pop()),
                Op::Raise => {
                    let value = self.pop();
                    run.step()?;
                    return Err(exception(value));
                }
                Op::Call(function) => {
                    run.step()?;
                    self.call(run, here, function)?;
                }
                Op::Service(at, count) => {
                    run.step()?;
                    self.linked(run, code, at, count.into())?;
                }
                Op::Chunk(..) | Op::ServiceChunk(..) => self.make_chunk(run, here, *op)?,
                Op::Fold(left) => self.fold(run, left)?,
                Op::Next(site) => self.next(run, here, site)?,
                Op::Again(site) => self.again(here, site),
                Op::Send(primitive, count) => self.on_top(run, count, |run, items| run.send(primitive, items))?,
                Op::Return => match self.return_(run, here) {
                    Some(value) => return Ok(value),
                    None => continue,
                },
            }
        }
        Ok(self.pop())
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Value {
        self.stack.pop().unwrap_or_default()
    }

    /// The top, to change; every instruction that asks for it has put something there.
    #[inline]
    fn top(&mut self) -> Result<&mut Value> {
        self.stack.last_mut().ok_or(Stop::Fault(Fault::Arity))
    }

    #[inline]
    fn copy(&mut self, run: &mut Run<'_>, value: Option<&Value>) -> Result<()> {
        run.step()?;
        self.stack.push(value.cloned().unwrap_or_default());
        Ok(())
    }

    #[inline]
    fn replace(&mut self, run: &mut Run<'_>, act: impl FnOnce(&mut Run<'_>, &Value) -> Result<Value>) -> Result<()> {
        run.step()?;
        let top = self.top()?;
        *top = act(run, top)?;
        Ok(())
    }

    #[inline]
    fn binary(&mut self, run: &mut Run<'_>, operator: Binary) -> Result<()> {
        run.step()?;
        let right = self.pop();
        let left = self.top()?;
        *left = run.binary(operator, left, &right)?;
        Ok(())
    }

    fn shortcut(&mut self, run: &mut Run<'_>, here: &mut Here<'_>, operator: Binary, to: u32) -> Result<()> {
        run.step()?;
        if truth(self.top()?, operator.text())? == (operator == Binary::Or) {
            here.pc = to as usize;
        } else {
            self.pop();
        }
        Ok(())
    }

    /// Takes so many values and puts one in their place.
    fn collect(
        &mut self,
        run: &mut Run<'_>,
        count: u8,
        make: impl FnOnce(&mut Run<'_>, Vec<Value>) -> Result<Value>,
    ) -> Result<()> {
        run.step()?;
        let start = self.stack.len().saturating_sub(count.into());
        let value = make(run, self.stack.split_off(start))?;
        self.stack.push(value);
        Ok(())
    }

    /// Looks at so many values and puts one in their place.
    fn on_top(
        &mut self,
        run: &mut Run<'_>,
        count: u8,
        act: impl FnOnce(&mut Run<'_>, &[Value]) -> Result<Value>,
    ) -> Result<()> {
        run.step()?;
        let start = self.stack.len().saturating_sub(count.into());
        let value = act(run, self.stack.get(start..).unwrap_or(&[]))?;
        self.stack.truncate(start);
        self.stack.push(value);
        Ok(())
    }
}
