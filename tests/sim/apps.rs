//! The shipped applications on networks of real nodes in virtual time: capsule code runs as wasm,
//! and travels hop by hop from the node where it was added.

mod cache;
mod heavy;
mod multicast;
mod net;
mod ping;
mod trace;
mod vectors;

/// Three nodes in a line.
const LINE: &[(usize, usize)] = &[(0, 1), (1, 2)];

/// Two ways from 0 to 3; the one over 1 is taken.
const DIAMOND: &[(usize, usize)] = &[(0, 1), (0, 2), (1, 3), (2, 3)];
