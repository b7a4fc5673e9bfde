//! The most that a resource bound of a neighbour's packet counts for, by the port that it comes in by.
//!
//! A bound says how many frames a packet and all that come of it may still take. Whoever sends a packet writes it, so
//! without a ceiling one packet could take any number. A node cuts the bound of every capsule and PLAN packet from a
//! neighbour to the ceiling of its port, before any environment sees it; what applications of the node itself
//! send is theirs to choose. So one packet causes at most ceiling × MTU bytes in the whole network.

/// The ceilings of one port, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// Of packets of which nobody knows whose they are: PLAN packets, and capsules whose code acts for `anyone`.
    pub unsigned: u32,
    /// Of capsules whose code acts in another role, which its signature or a credential gives it.
    pub signed: u32,
}

impl Ceiling {
    /// None at all: for links between nodes that trust each other, and for measurements.
    pub const NONE: Ceiling = Ceiling { unsigned: u32::MAX, signed: u32::MAX };

    /// The same for all packets.
    pub const fn all(bound: u32) -> Ceiling {
        Ceiling { unsigned: bound, signed: bound }
    }
}

impl Default for Ceiling {
    fn default() -> Ceiling {
        Ceiling { unsigned: 64, signed: 4096 }
    }
}
