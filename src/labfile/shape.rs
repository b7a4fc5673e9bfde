//! Shapes of networks: line, ring, grid, tree, and their links.

use core::fmt;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::HashSet;

/// The most nodes of a shape: their numbers are the last bytes of their addresses.
pub const NODES_MAX: usize = 60_000;

/// The most links of a random shape.
const LINKS_MAX: usize = 1_000_000;

/// Exchanges of two links for each link of a random shape: enough to forget the ring it begins as.
const SWAPS_PER_LINK: usize = 10;

/// A shape with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One behind the other.
    Line {
        /// How many.
        nodes: usize,
    },
    /// A line whose ends are linked.
    Ring {
        /// How many.
        nodes: usize,
    },
    /// Rows and columns.
    Grid {
        /// Nodes in a row.
        width: usize,
        /// Rows.
        height: usize,
    },
    /// A root, and `fanout` nodes below each.
    Tree {
        /// How many, filled level by level.
        nodes: usize,
        /// Links down from each.
        fanout: usize,
    },
    /// Each node has links to `degree` others, chosen by the seed.
    Random {
        /// How many.
        nodes: usize,
        /// Links of each.
        degree: usize,
    },
}

/// Why there is no such shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unshapely {
    /// Too few or too many nodes.
    Nodes {
        /// How many were asked for.
        nodes: usize,
    },
    /// The numbers contradict each other.
    Needs(&'static str),
}

impl fmt::Display for Unshapely {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unshapely::Nodes { nodes } => {
                write!(f, "a network of {nodes} nodes: between 1 and {NODES_MAX} are possible")
            }
            Unshapely::Needs(needs) => f.write_str(needs),
        }
    }
}

impl Shape {
    /// How many nodes there are, and the links between them.
    pub fn links(self, rng: &mut Xoshiro256PlusPlus) -> Result<(usize, Vec<(usize, usize)>), Unshapely> {
        let nodes = match self {
            Shape::Grid { width, height } => width.saturating_mul(height),
            Shape::Line { nodes } | Shape::Ring { nodes } | Shape::Tree { nodes, .. } | Shape::Random { nodes, .. } => {
                nodes
            }
        };
        if nodes == 0 || nodes > NODES_MAX {
            return Err(Unshapely::Nodes { nodes });
        }
        let links = match self {
            Shape::Line { .. } => (1..nodes).map(|to| (to - 1, to)).collect(),
            Shape::Ring { .. } if nodes < 3 => {
                return Err(Unshapely::Needs("a ring needs three nodes or more"));
            }
            Shape::Ring { .. } => (0..nodes).map(|from| (from, (from + 1) % nodes)).collect(),
            Shape::Grid { width, .. } => grid(nodes, width),
            Shape::Tree { fanout: 0, .. } => {
                return Err(Unshapely::Needs("a tree needs a fanout of 1 or more"));
            }
            Shape::Tree { fanout, .. } => (1..nodes).map(|to| ((to - 1) / fanout, to)).collect(),
            Shape::Random { degree, .. } => random(nodes, degree, rng)?,
        };
        Ok((nodes, links))
    }
}

fn grid(nodes: usize, width: usize) -> Vec<(usize, usize)> {
    let right = (0..nodes).filter(|at| at % width + 1 < width).map(|at| (at, at + 1));
    let down = (0..nodes - width).map(|at| (at, at + width));
    right.chain(down).collect()
}

/// A random regular graph: a ring whose nodes know their nearest ones, then many exchanges of the
/// ends of two links. An exchange that cuts the graph is repaired by the next ones.
fn random(nodes: usize, degree: usize, rng: &mut Xoshiro256PlusPlus) -> Result<Vec<(usize, usize)>, Unshapely> {
    if degree < 2 || degree >= nodes || nodes * degree % 2 == 1 {
        return Err(Unshapely::Needs("a random shape needs a degree from 2 to nodes - 1, and nodes x degree even"));
    }
    if nodes * degree / 2 > LINKS_MAX {
        return Err(Unshapely::Needs("a random shape has at most 1000000 links, which are nodes x degree / 2"));
    }
    let mut links: Vec<(usize, usize)> =
        (1..=degree / 2).flat_map(|step| (0..nodes).map(move |at| (at, (at + step) % nodes))).collect();
    if degree % 2 == 1 {
        links.extend((0..nodes / 2).map(|at| (at, at + nodes / 2)));
    }
    // With few nodes the longest step meets itself half-way round: then there is nothing to choose.
    let mut known: HashSet<(usize, usize)> = links.iter().map(|&(a, b)| ordered(a, b)).collect();
    if known.len() < links.len() {
        return Err(Unshapely::Needs("a random shape needs more nodes for this degree"));
    }
    let mut swaps = links.len() * SWAPS_PER_LINK;
    while swaps > 0 || !connected(nodes, &links) {
        for _ in 0..swaps.max(links.len()) {
            let (i, j) = (below(rng, links.len()), below(rng, links.len()));
            let ((a, b), (c, d)) = (links[i], links[j]);
            let (one, other) = (ordered(a, d), ordered(c, b));
            if a == d || c == b || known.contains(&one) || known.contains(&other) || one == other {
                continue;
            }
            known.remove(&ordered(a, b));
            known.remove(&ordered(c, d));
            known.insert(one);
            known.insert(other);
            (links[i], links[j]) = ((a, d), (c, b));
        }
        swaps = 0;
    }
    links.sort_unstable();
    Ok(links)
}

fn ordered(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// A number below `limit`; the bias of the remainder is below 2^-40 for every limit used here.
pub(crate) fn below(rng: &mut Xoshiro256PlusPlus, limit: usize) -> usize {
    ((u128::from(rng.next_u64()) * limit as u128) >> 64) as usize
}

/// Whether every node reaches every other one.
fn connected(nodes: usize, links: &[(usize, usize)]) -> bool {
    let mut root: Vec<usize> = (0..nodes).collect();
    fn find(root: &mut [usize], mut at: usize) -> usize {
        while root[at] != at {
            root[at] = root[root[at]];
            at = root[at];
        }
        at
    }
    let mut parts = nodes;
    for &(a, b) in links {
        let (a, b) = (find(&mut root, a), find(&mut root, b));
        if a != b {
            root[a] = b;
            parts -= 1;
        }
    }
    parts == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    fn links(shape: Shape, seed: u64) -> Vec<(usize, usize)> {
        shape.links(&mut Xoshiro256PlusPlus::seed_from_u64(seed)).unwrap().1
    }

    #[test]
    fn regular_shapes_have_their_links() {
        assert_eq!(links(Shape::Line { nodes: 3 }, 0), [(0, 1), (1, 2)]);
        assert_eq!(links(Shape::Ring { nodes: 3 }, 0), [(0, 1), (1, 2), (2, 0)]);
        assert_eq!(links(Shape::Grid { width: 2, height: 2 }, 0), [(0, 1), (2, 3), (0, 2), (1, 3)]);
        assert_eq!(links(Shape::Tree { nodes: 4, fanout: 2 }, 0), [(0, 1), (0, 2), (1, 3)]);
    }

    #[test]
    fn random_shapes_are_regular_simple_connected_and_repeat_with_their_seed() {
        for (nodes, degree) in [(5, 2), (6, 3), (40, 4), (301, 6)] {
            let links_of = |seed| links(Shape::Random { nodes, degree }, seed);
            let chosen = links_of(7);
            assert_eq!(chosen, links_of(7));
            assert!(connected(nodes, &chosen));
            let ends = |node| chosen.iter().filter(|(a, b)| *a == node || *b == node).count();
            assert!((0..nodes).all(|node| ends(node) == degree));
            let simple: HashSet<_> = chosen.iter().map(|&(a, b)| ordered(a, b)).collect();
            assert!(simple.len() == chosen.len() && chosen.iter().all(|(a, b)| a != b));
        }
        assert_ne!(links(Shape::Random { nodes: 40, degree: 4 }, 1), links(Shape::Random { nodes: 40, degree: 4 }, 2));
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let refused = |shape: Shape| shape.links(&mut Xoshiro256PlusPlus::seed_from_u64(0)).is_err();
        assert!(refused(Shape::Line { nodes: 0 }));
        assert!(refused(Shape::Ring { nodes: 2 }));
        assert!(refused(Shape::Random { nodes: 5, degree: 3 }));
        assert!(refused(Shape::Random { nodes: 3, degree: 3 }));
        assert!(refused(Shape::Line { nodes: NODES_MAX + 1 }));
    }
}
