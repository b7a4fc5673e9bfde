//! The syntax tree of a configuration.
//!
//! `a -> [1] Counter(5) => b, c` is one chain of three sets: `a`, then `Counter(5)` with a port, then `b` and `c` beside each
//! other. The tree does not know whether a name is an element's or a class's, which `elaborate` finds out.

use crate::graph::ElementPlace;
use crate::span::Span;

/// A name where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ident {
    /// Its text.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// What it says.
    pub kind: StatementKind,
    /// The whole statement, without the semicolon.
    pub span: Span,
}

/// What a statement says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Declarations, and connections: `a :: Queue`, `a, b :: Queue`, `a -> b`.
    Chain(Chain),
    /// `elementclass Name { … }`
    Compound(Ident, Compound),
    /// `elementclass Name Other`
    Synonym(Ident, Ident),
    /// `define($x 5)`; its configuration with the parentheses.
    Define(Span),
    /// `require(package)`
    Require(Span),
    /// `provide(package)`
    Provide(Span),
    /// `connectiontunnel a -> b, c -> d`
    Tunnels(Vec<(Ident, Ident)>),
}

/// Sets of elements with arrows between them; one set and no arrow is a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The sets, at least one.
    pub sets: Vec<Vec<Item>>,
    /// The arrows between them, one less.
    pub arrows: Vec<(Arrow, Span)>,
}

/// How a set is connected to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// `->`: one to one, one to many, or many to one.
    One,
    /// `=>`: the first to the first, the second to the second, and so on.
    Each,
}

/// Where an element is to be: of another node, what is in the parentheses of `@remote(NODE)`, with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenPlace {
    /// What it says.
    pub is: ElementPlace<Span>,
    /// The whole.
    pub span: Span,
}

/// An element in a chain, with what is written beside it: `[1] name :: Class(config) @remote(node) [0, 2]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Input ports.
    pub inputs: Option<Ports>,
    /// What element.
    pub kind: ItemKind,
    /// Its class, where it is declared here.
    pub class: Option<Class>,
    /// Its configuration, with the parentheses.
    pub config: Option<Span>,
    /// Where it is to be.
    pub place: Option<WrittenPlace>,
    /// Output ports.
    pub outputs: Option<Ports>,
    /// The whole.
    pub span: Span,
}

/// What element an item is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// An element by its name, or a new one of a class.
    Name(Ident),
    /// A new element of a compound that is written here.
    Compound(Compound),
    /// `( … )`: statements in the same scope, with an `input` and an `output` of their own.
    Group(Vec<Statement>),
    /// Nothing but ports: in a compound or group, its `input` at the beginning of a chain, its `output` at the end.
    Implied,
}

/// The class of a declared element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// By its name.
    Name(Ident),
    /// Written here.
    Compound(Compound),
}

/// `[0, 2-4, 6-]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The ports in order.
    pub list: Vec<u32>,
    /// The ports that follow the last one belong to it too, as many as are needed.
    pub open: bool,
    /// Where.
    pub span: Span,
}

/// `{ $a | … || $a, $b | … || ... }`: one body, or several of which the one that fits is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compound {
    /// The bodies in order.
    pub bodies: Vec<Body>,
    /// `...` at the end: if none fits, the class that had the name before.
    pub extends: Option<Span>,
    /// The whole, with the braces.
    pub span: Span,
}

/// One body of a compound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// Its parameters.
    pub params: Vec<Param>,
    /// Its statements.
    pub statements: Vec<Statement>,
    /// The whole, between braces or bars.
    pub span: Span,
}

/// `$name`, or `KEYWORD $name`; the keyword `__REST__` takes all other arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The keyword by which it is given.
    pub keyword: Option<Ident>,
    /// The variable, without the `$`.
    pub name: Ident,
}

/// The keyword of the parameter that takes all arguments that no other one has taken.
pub const REST: &str = "__REST__";
