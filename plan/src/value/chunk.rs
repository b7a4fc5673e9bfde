//! Chunks: code, the function to call, and its arguments (PLAN calls them code hunks).

use super::{Extent, Value};
use crate::name::Name;
use crate::program::Program;
use std::sync::Arc;

/// A computation to be evaluated elsewhere or later.
#[derive(Debug)]
pub struct Chunk {
    callee: Callee,
    arguments: Box<[Value]>,
    extent: Extent,
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
        Some(Chunk { callee, arguments, extent })
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
        Chunk { callee: self.callee.clone(), arguments: Box::default(), extent: Extent::ONE }
    }
}

impl PartialEq for Callee {
    fn eq(&self, other: &Callee) -> bool {
        match (self, other) {
            (Callee::Service(one), Callee::Service(other)) => one == other,
            (Callee::Function(program, function), Callee::Function(other, another)) => {
                (Arc::ptr_eq(program, other) && function == another)
                    || program.slice(*function) == other.slice(*another)
            }
            _ => false,
        }
    }
}

impl PartialEq for Chunk {
    fn eq(&self, other: &Chunk) -> bool {
        self.callee == other.callee && self.arguments == other.arguments
    }
}
