//! Chunks: code, the function to call, and its arguments (PLAN calls them code hunks).

use super::{Extent, Value};
use crate::name::Name;
use crate::program::{Program, Slice};
use std::sync::{Arc, OnceLock};

/// A computation to be evaluated elsewhere or later.
#[derive(Debug)]
pub struct Chunk {
    callee: Callee,
    arguments: Box<[Value]>,
    extent: Extent,
    /// What travels with it, once that was worked out.
    slice: OnceLock<Arc<Slice>>,
}

/// What a chunk calls.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A function of a program. Only what the function needs of the program travels.
    Function(Arc<Program>, u16),
    /// A service of the node that evaluates it.
    Service(Name),
}

impl Chunk {
    /// A chunk; none if it would be too large.
    pub fn new(callee: Callee, arguments: impl Into<Box<[Value]>>) -> Option<Chunk> {
        let arguments = arguments.into();
        let extent = Extent::around(&arguments)?;
        Some(Chunk { callee, arguments, extent, slice: OnceLock::new() })
    }

    /// A chunk of a function by name; none if there is no such function or too many arguments.
    pub fn of(program: &Arc<Program>, function: &str, arguments: impl Into<Box<[Value]>>) -> Option<Chunk> {
        let function = program.code().function(function)?;
        Chunk::new(Callee::Function(program.clone(), function), arguments)
    }

    /// What it calls.
    pub fn callee(&self) -> &Callee {
        &self.callee
    }

    /// The arguments.
    pub fn arguments(&self) -> &[Value] {
        &self.arguments
    }

    /// How large it is, its code aside.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The name of what it calls.
    pub fn name(&self) -> &Name {
        match &self.callee {
            Callee::Function(program, function) => program.name_of(*function),
            Callee::Service(name) => name,
        }
    }

    /// The same chunk without arguments: what a report carries if the whole is too large.
    pub fn truncated(&self) -> Chunk {
        let (callee, slice) = (self.callee.clone(), self.slice.clone());
        Chunk { callee, arguments: Box::default(), extent: Extent::ONE, slice }
    }

    /// The code that travels with it; none if it is of a service.
    pub fn slice(&self) -> Option<&Slice> {
        let Callee::Function(program, function) = &self.callee else { return None };
        if self.slice.get().is_none() {
            let slice = program.slice(*function)?;
            return Some(&**self.slice.get_or_init(|| slice));
        }
        self.slice.get().map(|slice| &**slice)
    }

    /// Bytes of code that [`Chunk::slice`] has to work through now: none if it is known or need not be made.
    pub fn slice_work(&self) -> u32 {
        match &self.callee {
            Callee::Function(program, function) if self.slice.get().is_none() && !program.has_slice(*function) => {
                program.slice_work(*function)
            }
            _ => 0,
        }
    }

    /// Whether it is of the same code as another; `pay` is told of the bytes of code that are worked through for that,
    /// whether or not they were before.
    pub(super) fn calls_same<E>(&self, other: &Chunk, pay: &mut impl FnMut(u32) -> Result<(), E>) -> Result<bool, E> {
        match (&self.callee, &other.callee) {
            (Callee::Service(one), Callee::Service(another)) => Ok(one == another),
            (Callee::Function(program, function), Callee::Function(another, of)) => {
                if Arc::ptr_eq(program, another) && function == of {
                    return Ok(true);
                }
                pay(program.slice_work(*function))?;
                pay(another.slice_work(*of))?;
                let known_by = |chunk: &Chunk| chunk.slice().map(|slice| (slice.digest, slice.entry));
                Ok(known_by(self) == known_by(other))
            }
            _ => Ok(false),
        }
    }
}

impl PartialEq for Chunk {
    fn eq(&self, other: &Chunk) -> bool {
        let same = self.calls_same(other, &mut |_| Ok::<(), std::convert::Infallible>(()));
        same == Ok(true) && self.arguments == other.arguments
    }
}
