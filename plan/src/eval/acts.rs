//! Single instructions of the machine that take more than a line.

use super::builtin::Given;
use super::compile::{Compiled, FoldCallee, FoldSite, Link, Op};
use super::folding::fold_list;
use super::machine::{Frame, Handler, Here, Machine};
use super::{EVAL_DEPTH, Fault, Result, Run, Stop};
use crate::name::Name;
use crate::value::{Callee, Chunk, Value};
use std::sync::Arc;

impl Machine {
    pub(super) fn service_value(&mut self, run: &mut Run<'_>, code: &Compiled, at: u16) -> Result<()> {
        run.step()?;
        let value = match code.services.get(usize::from(at)) {
            Some((name, Link::Node(service))) => run.constant(name, *service)?,
            Some((name, Link::Builtin(_))) => Value::Service(name.clone()),
            None => Value::Unit,
        };
        self.stack.push(value);
        Ok(())
    }

    pub(super) fn try_(&mut self, run: &mut Run<'_>, here: &Here<'_>, site: u16) -> Result<()> {
        run.step()?;
        self.handlers.push(Handler {
            site,
            frames: self.frames.len() as u32,
            stack: self.stack.len() as u32,
            base: here.base as u32,
            depth: run.depth(),
        });
        Ok(())
    }

    /// Goes on at the innermost handler for this exception, if there is one in this body.
    pub(super) fn unwind(&mut self, run: &mut Run<'_>, here: &mut Here<'_>, name: Name, handlers: usize) -> Result<()> {
        while self.handlers.len() > handlers {
            let Some(handler) = self.handlers.pop() else { break };
            let Some(site) = here.code.handlers.get(usize::from(handler.site)) else { break };
            if site.only.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            self.frames.truncate(handler.frames as usize);
            self.stack.truncate(handler.stack as usize);
            here.base = handler.base as usize;
            here.pc = site.at as usize;
            run.set_depth(handler.depth);
            if site.only.is_none() {
                self.stack.push(Value::Exn(name));
            }
            return Ok(());
        }
        Err(Stop::Raise(name))
    }

    /// Begins a function whose arguments are on the stack.
    #[inline]
    pub(super) fn call(&mut self, run: &mut Run<'_>, here: &mut Here<'_>, function: u16) -> Result<()> {
        let Some(entry) = here.code.entries.get(usize::from(function)) else { return Err(Fault::Arity.into()) };
        let depth = run.depth();
        run.enter(entry.nesting.into())?;
        self.frames.push(Frame { pc: here.pc as u32, base: here.base as u32, depth });
        here.base = self.stack.len().saturating_sub(entry.params.unwrap_or(0).into());
        here.pc = entry.at as usize;
        Ok(())
    }

    /// Ends a function; its value, if it is the one that the body began with.
    #[inline]
    pub(super) fn return_(&mut self, run: &mut Run<'_>, here: &mut Here<'_>) -> Option<Value> {
        let value = self.pop();
        if self.frames.len() <= here.frames {
            return Some(value);
        }
        let frame = self.frames.pop()?;
        self.stack.truncate(here.base);
        self.stack.push(value);
        here.pc = frame.pc as usize;
        here.base = frame.base as usize;
        run.set_depth(frame.depth);
        None
    }

    /// Calls a service whose arguments are on the stack, and puts its value in their place.
    pub(super) fn linked(&mut self, run: &mut Run<'_>, code: &Compiled, at: u16, count: usize) -> Result<()> {
        let link = code.services.get(usize::from(at)).map_or(Link::Node(None), |(_, link)| *link);
        let value = self.service(run, link, count)?;
        let start = self.stack.len().saturating_sub(count);
        self.stack.truncate(start);
        self.stack.push(value);
        Ok(())
    }

    pub(super) fn service(&mut self, run: &mut Run<'_>, link: Link, count: usize) -> Result<Value> {
        let arguments = self.stack.get(self.stack.len().saturating_sub(count)..).unwrap_or(&[]);
        let builtin = match link {
            Link::Node(service) => return run.call(service, arguments),
            Link::Builtin(builtin) => builtin,
        };
        match run.builtin(builtin, arguments)? {
            Given::Value(value) => Ok(value),
            Given::Evaluate(chunk) => {
                let depth = run.depth();
                run.enter(EVAL_DEPTH)?;
                let value = self.chunk(run, &chunk)?;
                run.set_depth(depth);
                Ok(value)
            }
        }
    }

    pub(super) fn make_chunk(&mut self, run: &mut Run<'_>, here: &Here<'_>, op: Op) -> Result<()> {
        let (callee, count) = match op {
            Op::Chunk(function, count) => (Callee::Function(here.program.clone(), function), count),
            Op::ServiceChunk(at, count) => {
                let name = here.code.services.get(usize::from(at)).map_or(Name::NONE, |(name, _)| name.clone());
                (Callee::Service(name), count)
            }
            _ => return Ok(()),
        };
        run.step()?;
        run.cells(1 + u32::from(count))?;
        let start = self.stack.len().saturating_sub(count.into());
        let arguments: Box<[Value]> = self.stack.drain(start..).collect();
        let chunk = Chunk::new(callee, arguments).ok_or(Fault::Value)?;
        self.stack.push(Value::Chunk(Arc::new(chunk)));
        Ok(())
    }

    /// Leaves list and sum on the stack.
    pub(super) fn fold(&mut self, run: &mut Run<'_>, left: bool) -> Result<()> {
        run.step()?;
        let (second, first) = (self.pop(), self.pop());
        let folding = fold_list(run, left, first, second)?;
        self.stack.push(Value::List(folding.list));
        self.stack.push(folding.sum);
        Ok(())
    }

    /// The next round of a fold: puts its arguments on the stack and calls; or ends it.
    pub(super) fn next(&mut self, run: &mut Run<'_>, here: &mut Here<'_>, site: u16) -> Result<()> {
        let Some(site) = here.code.folds.get(usize::from(site)) else { return Err(Fault::Arity.into()) };
        let sum = self.pop();
        let Value::List(list) = self.pop() else { return Err(Fault::Arity.into()) };
        let Some((element, rest)) = list.split() else {
            let start = self.stack.len().saturating_sub(site.captured.into());
            self.stack.truncate(start);
            self.stack.push(sum);
            here.pc = site.end as usize;
            return Ok(());
        };
        run.step()?;
        self.stack.push(Value::List(rest.clone()));
        let captured = usize::from(site.captured);
        let start = self.stack.len().saturating_sub(captured + 1);
        self.stack.extend_from_within(start..start + captured);
        let FoldSite { left, callee, .. } = site;
        self.stack.extend(if *left { [sum, element.clone()] } else { [element.clone(), sum] });
        match callee {
            FoldCallee::Function(function) => self.call(run, here, *function),
            FoldCallee::Service(at) => self.linked(run, here.code, *at, captured + 2),
        }
    }

    /// The result of the round, on top, is the new sum: it already stands where the sum belongs.
    #[inline]
    pub(super) fn again(&mut self, here: &mut Here<'_>, site: u16) {
        if let Some(site) = here.code.folds.get(usize::from(site)) {
            here.pc = site.next as usize;
        }
    }
}
