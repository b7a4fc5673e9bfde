//! What the body of a compound, or the file, has in it: nodes with links between them.

use crate::graph::ElementPlace;
use crate::span::Span;
use crate::syntax::ast::Param;
use crate::text::Text;

/// The class of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClassRef {
    /// One of the caller's.
    Known(String),
    /// A compound: the number of its first body's scope.
    Compound(usize),
    /// One that does not exist, of which enough has been said.
    Missing,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// An element, or a compound to be expanded.
    Element(ClassRef),
    /// An end of a tunnel: what goes in goes on behind the node `exit`.
    Tunnel { exit: Option<usize> },
}

/// An element, or an end of a tunnel.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub name: String,
    pub kind: Kind,
    /// Its configuration, variables not replaced yet.
    pub config: Text,
    /// Where it is to be, variables not replaced yet.
    pub place: Option<ElementPlace<Text>>,
    pub span: Span,
    /// Links may lead to it, and away from it.
    pub can_enter: bool,
    pub can_leave: bool,
    /// Inputs and outputs that links use: one more than the highest.
    pub used: [u32; 2],
}

/// A connection as it is written: node and port, twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Link {
    pub from: (usize, u32),
    pub to: (usize, u32),
    pub span: Span,
}

/// The node through which a compound is entered, in its own scope.
pub(super) const INPUT: usize = 0;
/// The node through which it is left.
pub(super) const OUTPUT: usize = 1;

/// A body of a compound; the first scope is the file's and has neither input nor output.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// The name of its class; empty if it has none.
    pub name: String,
    pub span: Span,
    /// How many bodies it is in.
    pub depth: usize,
    pub params: Vec<Param>,
    /// What `define` says, in order.
    pub defines: Vec<(String, Text)>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    /// What is taken if this body does not fit.
    pub next: Option<ClassRef>,
}

impl Scope {
    pub(super) fn is_file(&self) -> bool {
        self.depth == 0
    }

    /// Inputs and outputs of a compound.
    pub(super) fn ports(&self) -> [u32; 2] {
        let used = |node: usize, side: usize| self.nodes.get(node).map_or(0, |node| node.used[side]);
        if self.is_file() { [0, 0] } else { [used(INPUT, 1), used(OUTPUT, 0)] }
    }
}
