//! Ceilings of resource bounds, by port: the most that a neighbour's packet may claim. Example: a packet with bound
//! 10,000 counts as 256.
//!
//! A bound is the number of frames that a packet and its descendants may still take. The sender writes it, so without a
//! ceiling one packet could take any number. A node cuts the bound of every capsule and PLAN packet from a neighbour
//! before any environment sees it; applications of the node itself choose freely. So one packet causes at most ceiling
//! × MTU bytes in the whole network.

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
