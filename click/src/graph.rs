//! The flat graph: what is left of a configuration when compounds, variables and tunnels are gone.
//!
//! `q :: { input -> Queue(5) -> output }; a -> q -> b` becomes the elements `a`, `b` and `q/Queue@1`, and two connections. A flat
//! graph is a configuration again: [`Graph`] is written by `{}` as Click's language, and reading that gives the same graph.

use crate::arguments::Argument;
use crate::span::Span;
use std::fmt;

/// Elements and connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// The elements, in the order in which they were declared; those of compounds follow those outside.
    pub elements: Vec<Element>,
    /// The connections, sorted, each once.
    pub connections: Vec<Connection>,
    /// The packages of `require`, in order.
    pub requirements: Vec<Argument>,
    /// The packages of `provide`, in order.
    pub provisions: Vec<Argument>,
}

/// Where an element is to be, as it is written behind its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementPlace<N> {
    /// `@remote(NODE)`: at another node; `@remote(NODE, EXTENSION/NAME)`: packets are marshalled on the way by that procedure, and then
    /// this is `NODE,EXTENSION/NAME`.
    Remote(N),
    /// `@kernel`: at this one, in the kernel.
    Kernel,
    /// `@user`: in user space.
    User,
    /// `@auto`: wherever it can be.
    Auto,
}

impl<N> ElementPlace<N> {
    /// How each is written.
    pub const WORDS: [&str; 4] = ["@remote", "@kernel", "@user", "@auto"];

    /// What a word says, if it says all.
    pub(crate) fn of(word: &str) -> Option<ElementPlace<N>> {
        match word {
            "@kernel" => Some(ElementPlace::Kernel),
            "@user" => Some(ElementPlace::User),
            "@auto" => Some(ElementPlace::Auto),
            _ => None,
        }
    }

    /// The other node.
    pub fn node(&self) -> Option<&N> {
        match self {
            ElementPlace::Remote(node) => Some(node),
            ElementPlace::Kernel | ElementPlace::User | ElementPlace::Auto => None,
        }
    }

    /// The same of a node that is named otherwise.
    pub(crate) fn map<M>(self, node: impl FnOnce(N) -> M) -> ElementPlace<M> {
        match self {
            ElementPlace::Remote(at) => ElementPlace::Remote(node(at)),
            ElementPlace::Kernel => ElementPlace::Kernel,
            ElementPlace::User => ElementPlace::User,
            ElementPlace::Auto => ElementPlace::Auto,
        }
    }
}

impl<N: fmt::Display> fmt::Display for ElementPlace<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementPlace::Remote(node) => write!(f, "@remote({node})"),
            ElementPlace::Kernel => f.write_str("@kernel"),
            ElementPlace::User => f.write_str("@user"),
            ElementPlace::Auto => f.write_str("@auto"),
        }
    }
}

/// An element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its name, after those of the compounds it was in: `q/Queue@1`.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its arguments.
    pub arguments: Vec<Argument>,
    /// Where it is to be, if that is not wherever this node can have it.
    pub place: Option<ElementPlace<String>>,
    /// Where it is declared.
    pub span: Span,
    /// Where the outermost compound it was in is used, if it was in one.
    pub within: Option<Span>,
}

/// A port of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The number of the element in [`Graph::elements`].
    pub element: usize,
    /// The number of its input or output.
    pub port: u32,
}

/// A connection from an output to an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The output.
    pub from: Hop,
    /// The input.
    pub to: Hop,
    /// Where it is written; if it goes through compounds, its first part.
    pub span: Span,
}

impl Element {
    /// The node that it is to be at, if not this one.
    pub fn node(&self) -> Option<&str> {
        self.place.as_ref()?.node().map(String::as_str)
    }
}

impl Graph {
    /// The name of the element of a port.
    pub fn name(&self, hop: Hop) -> &str {
        self.elements.get(hop.element).map_or("", |element| &element.name)
    }
}

fn list(f: &mut fmt::Formatter<'_>, arguments: &[Argument]) -> fmt::Result {
    for (at, argument) in arguments.iter().enumerate() {
        write!(f, "{}{}", if at > 0 { ", " } else { "" }, argument.text)?;
    }
    // An empty last argument is none, so it needs a comma behind it.
    if arguments.last().is_some_and(|last| last.text.is_empty()) {
        f.write_str(",")?;
    }
    Ok(())
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (word, packages) in [("require", &self.requirements), ("provide", &self.provisions)] {
            if !packages.is_empty() {
                write!(f, "{word}(")?;
                list(f, packages)?;
                f.write_str(");\n")?;
            }
        }
        for element in &self.elements {
            write!(f, "{} :: {}", element.name, element.class)?;
            if !element.arguments.is_empty() {
                f.write_str("(")?;
                list(f, &element.arguments)?;
                f.write_str(")")?;
            }
            if let Some(place) = &element.place {
                write!(f, " {place}")?;
            }
            f.write_str(";\n")?;
        }
        for Connection { from, to, .. } in &self.connections {
            write!(f, "{}", self.name(*from))?;
            if from.port > 0 {
                write!(f, " [{}]", from.port)?;
            }
            f.write_str(" -> ")?;
            if to.port > 0 {
                write!(f, "[{}] ", to.port)?;
            }
            writeln!(f, "{};", self.name(*to))?;
        }
        Ok(())
    }
}
