//! Why there can be no network as it was asked for. Example: one of no nodes.

use crate::labfile::shape::{NODES_MAX, Unshapely};
use core::fmt;

/// Ethernet links that the IPv4 subnets suffice for.
pub(super) const ETHERNET_LINKS_MAX: usize = 1 << 18;

/// Workers that a node can have: as many as a real one.
pub(super) const WORKERS_MAX: u16 = 64;

/// Why there can be no such network.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// Too few or too many nodes.
    Nodes {
        /// How many were asked for.
        nodes: usize,
    },
    /// The shape's numbers contradict each other.
    Shape {
        /// What it needs.
        needs: &'static str,
    },
    /// A link to nowhere, or to its own beginning.
    Link {
        /// Its ends.
        ends: (usize, usize),
    },
    /// A line's number is out of range.
    Line {
        /// Which one.
        field: &'static str,
        /// What was given.
        found: f64,
        /// What is possible.
        expected: &'static str,
    },
    /// More Ethernet links than subnets.
    Subnets,
    /// Too few or too many workers of a node.
    Workers {
        /// How many were asked for.
        workers: u16,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = NODES_MAX;
        match self {
            Problem::Nodes { nodes } => write!(f, "a network of {nodes} nodes: between 1 and {most} are possible"),
            Problem::Shape { needs } => f.write_str(needs),
            Problem::Link { ends: (a, b) } => {
                write!(f, "a link between nodes {a} and {b}: link two different nodes that exist")
            }
            Problem::Line { field, found, expected } => write!(f, "a link's {field} is {found}; give {expected}"),
            Problem::Subnets => {
                write!(f, "more than {ETHERNET_LINKS_MAX} Ethernet links have no subnets: make some overlay links")
            }
            Problem::Workers { workers } => {
                write!(f, "{workers} workers of a node: between 1 and {WORKERS_MAX} are possible")
            }
        }
    }
}

impl From<Unshapely> for Problem {
    fn from(unshapely: Unshapely) -> Problem {
        match unshapely {
            Unshapely::Nodes { nodes } => Problem::Nodes { nodes },
            Unshapely::Needs(needs) => Problem::Shape { needs },
        }
    }
}

impl core::error::Error for Problem {}
