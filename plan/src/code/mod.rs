//! Code: a program after names have been resolved, as it travels in packets.
//!
//! A code is a row of definitions, functions and values. A direct call names an *earlier* definition by
//! its position, a chunk any definition. [`Code::new`] checks this and every other rule of form, for code
//! from the network as for code from source; so every local computation ends: a function can only call
//! earlier ones, folds go once over finite lists, and there is no other loop.
//!
//! Variables are numbered by the depth of their scope (the first parameter is 0), so a code has one
//! form, and its bytes ([`write`](Code::write)) are canonical: their SHA-256 is the code's name.

mod check;
mod names;
mod read;
mod slice;
mod write;

pub use crate::syntax::ast::{Binary, Primitive, Unary};
pub(crate) use names::Names;
pub(crate) use read::Reader;
pub(crate) use slice::renumber;
pub(crate) use write::Writer;

use crate::name::{NAME_MAX, Name};
use crate::span::Span;
use std::fmt;
use std::sync::Arc;

/// The most bytes of a code.
pub const CODE_MAX: usize = 16 * 1024;
/// The most definitions of a code.
pub const DEFINITIONS_MAX: usize = 128;
/// The most parameters of a function, captured variables included.
pub const PARAMS_MAX: usize = 32;
/// The most variables in scope at one place.
pub const LOCALS_MAX: u16 = 200;
/// The most operands of one expression.
pub const OPERANDS_MAX: usize = 255;
/// The deepest nesting of an expression.
pub const NESTING_MAX: u16 = 250;
/// Bytes that the allocator and counters of references add to each piece of memory, at most.
pub(crate) const BLOCK: usize = 40;
/// The version of the binary form of code.
pub const VERSION: u8 = 1;

/// A checked code.
#[derive(Clone, Debug)]
pub struct Code {
    definitions: Vec<Definition>,
    facts: Vec<Facts>,
}

/// One definition.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its name, for people.
    pub name: Name,
    /// How many parameters, if it is a function; a value has none.
    pub params: Option<u8>,
    /// What it computes.
    pub body: Expr,
}

/// What is known of a definition once it is checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    /// How deep its body nests, at least 1.
    pub nesting: u16,
    /// The definitions it needs, itself included: bit *i* is definition *i*.
    pub needs: u128,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: Kind,
    /// Where it was written; [`Span::NOWHERE`] for code from a packet.
    pub at: Span,
}

/// What a call, a chunk or a fold names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A function of the same code, by position.
    Function(u16),
    /// A service of the node.
    Service(Name),
}

/// The forms of expressions.
#[derive(Clone, Debug)]
pub enum Kind {
    /// What could not be understood; never part of a checked code.
    Hole,
    /// `()`
    Unit,
    /// A truth value.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A character.
    Char(u8),
    /// A string.
    Text(Arc<[u8]>),
    /// An exception as a value.
    Exn(Name),
    /// A service as a value.
    Service(Name),
    /// A variable.
    Local(u16),
    /// The value of an earlier `val` definition.
    Val(u16),
    /// An operator before one operand.
    Unary(Unary, Box<Expr>),
    /// An operator between two operands; `and` and `or` evaluate the second only if needed.
    Binary(Binary, Box<[Expr; 2]>),
    /// The n-th of a tuple, from 1.
    Item(u8, Box<Expr>),
    /// Condition, then, else.
    If(Box<[Expr; 3]>),
    /// At least two.
    Tuple(Vec<Expr>),
    /// Any number.
    List(Vec<Expr>),
    /// At least two; the last is the result.
    Sequence(Vec<Expr>),
    /// The first is the value of a new variable in the second.
    Let(Box<[Expr; 2]>, Option<NoteIndex>),
    /// The second is evaluated if the first raises: this exception, or any, which is then a new variable in it.
    Try(Option<Name>, Box<[Expr; 2]>),
    /// Raises an exception.
    Raise(Box<Expr>),
    /// Calls an earlier function or a service.
    Call(Target, Vec<Expr>),
    /// Makes a chunk.
    Chunk(Target, Vec<Expr>),
    /// Folds from the left (arguments …, start, list) or from the right (arguments …, list, start).
    Fold(bool, Target, Vec<Expr>),
    /// Makes a packet.
    Send(Primitive, Vec<Expr>),
}

/// Which type annotation of the source belongs to a local variable; not part of the binary form.
pub type NoteIndex = u32;

/// Why something is no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeError {
    /// It ends too early.
    Truncated,
    /// It goes on after its end.
    Trailing,
    /// Another version.
    Version,
    /// A number is not in its shortest form or out of range.
    Number,
    /// A name is not one, or not in its canonical form.
    BadName,
    /// No expression begins so.
    Tag,
    /// More bytes, definitions, operands, variables or nesting than allowed.
    Limit,
    /// A variable that is not in scope.
    Scope,
    /// A value that is not defined earlier.
    NoValue,
    /// A call of a function that is not defined earlier: recursion is impossible.
    NotEarlier,
    /// A chunk of a function that is not there.
    NoFunction,
    /// Another number of arguments than the function has parameters.
    Arity,
    /// A form with too few operands.
    Form,
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CodeError::Truncated => "the code ends too early",
            CodeError::Trailing => "bytes follow the code",
            CodeError::Version => "the code has another version",
            CodeError::Number => "a number is not in its shortest form",
            CodeError::BadName => "a name is malformed",
            CodeError::Tag => "no expression begins with this byte",
            CodeError::Limit => "the code exceeds a limit",
            CodeError::Scope => "a variable is not in scope",
            CodeError::NoValue => "a value is not defined earlier",
            CodeError::NotEarlier => "a called function is not defined earlier",
            CodeError::NoFunction => "a chunk's function is not there",
            CodeError::Arity => "a call has another number of arguments than the function has parameters",
            CodeError::Form => "an expression has too few operands",
        })
    }
}

impl std::error::Error for CodeError {}

impl Code {
    /// Checks definitions: they are a code if every rule of form holds.
    pub fn new(definitions: Vec<Definition>) -> Result<Code, CodeError> {
        let facts = check::check(&definitions)?;
        Ok(Code { definitions, facts })
    }

    /// The code without definitions, for chunks of services.
    pub fn empty() -> Code {
        Code { definitions: Vec::new(), facts: Vec::new() }
    }

    /// The definitions in order.
    pub fn definitions(&self) -> &[Definition] {
        &self.definitions
    }

    /// The last function with this name: the one that the end of the program sees.
    pub fn function(&self, name: &str) -> Option<u16> {
        let is = |definition: &Definition| definition.params.is_some() && definition.name.as_str() == name;
        self.definitions.iter().rposition(is).and_then(|at| u16::try_from(at).ok())
    }

    /// How many parameters the function at this position has.
    pub fn params(&self, function: u16) -> Option<u8> {
        self.definitions.get(usize::from(function))?.params
    }

    /// The definitions that a function needs, itself included.
    pub(crate) fn needed(&self, function: u16) -> impl Iterator<Item = usize> + use<> {
        let needs = self.facts(function).needs;
        (0..DEFINITIONS_MAX).filter(move |at| needs >> at & 1 == 1)
    }

    pub(crate) fn facts(&self, definition: u16) -> Facts {
        self.facts.get(usize::from(definition)).copied().unwrap_or_default()
    }

    /// The values that a function needs, in the order of their definition.
    pub(crate) fn values_for(&self, function: u16) -> impl Iterator<Item = (u16, &Definition)> {
        let needs = self.facts(function).needs;
        let needed = move |(at, definition): &(u16, &Definition)| {
            definition.params.is_none() && needs.checked_shr(u32::from(*at)).is_some_and(|bits| bits & 1 == 1)
        };
        (0..).zip(&self.definitions).filter(needed)
    }
}

impl Expr {
    /// Bytes of memory that the expression takes, with all inside.
    pub(crate) fn memory(&self) -> usize {
        let text = match &self.kind {
            Kind::Text(bytes) => bytes.len() + BLOCK,
            Kind::Exn(_) | Kind::Service(_) | Kind::Try(Some(_), _) => NAME_MAX + BLOCK,
            Kind::Call(Target::Service(_), _) | Kind::Chunk(Target::Service(_), _) => NAME_MAX + BLOCK,
            Kind::Fold(_, Target::Service(_), _) => NAME_MAX + BLOCK,
            _ => 0,
        };
        let inside = self.kind.inside();
        let block = if inside.is_empty() { 0 } else { BLOCK };
        size_of::<Expr>() + text + block + inside.iter().map(Expr::memory).sum::<usize>()
    }
}

impl Kind {
    /// The expressions directly inside.
    pub fn inside(&self) -> &[Expr] {
        match self {
            Kind::Unary(_, inner) | Kind::Item(_, inner) | Kind::Raise(inner) => std::slice::from_ref(inner),
            Kind::Binary(_, both) | Kind::Let(both, _) | Kind::Try(_, both) => &both[..],
            Kind::If(three) => &three[..],
            Kind::Tuple(items) | Kind::List(items) | Kind::Sequence(items) => items,
            Kind::Call(_, items) | Kind::Chunk(_, items) | Kind::Fold(_, _, items) | Kind::Send(_, items) => items,
            _ => &[],
        }
    }

    /// The expressions directly inside, to change.
    pub(crate) fn inside_mut(&mut self) -> &mut [Expr] {
        match self {
            Kind::Unary(_, inner) | Kind::Item(_, inner) | Kind::Raise(inner) => std::slice::from_mut(inner),
            Kind::Binary(_, both) | Kind::Let(both, _) | Kind::Try(_, both) => &mut both[..],
            Kind::If(three) => &mut three[..],
            Kind::Tuple(items) | Kind::List(items) | Kind::Sequence(items) => items,
            Kind::Call(_, items) | Kind::Chunk(_, items) | Kind::Fold(_, _, items) | Kind::Send(_, items) => items,
            _ => &mut [],
        }
    }

    /// The variables that this form adds to the scope of its `at`-th inner expression.
    pub fn binds(&self, at: usize) -> u16 {
        u16::from(at == 1 && matches!(self, Kind::Let(..) | Kind::Try(None, _)))
    }
}
