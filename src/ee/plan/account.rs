//! The account of resource bounds: hops that came in, and hops that left, were spent, or are held. Example: a packet
//! with 10 comes in, one is spent on the way out, 9 leave.
//!
//! injected + received = sent + spent + unused + held, at any time. Reports travel on the rest of the packet that they
//! report, so they are included.

use plan::packet::View;
use serde::Serialize;

/// Counters; all bounds in frames, codes in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Packets that came from neighbours.
    pub packets: u64,
    /// Packets that were evaluated.
    pub evaluated: u64,
    /// Evaluations that ended with an error.
    pub failed: u64,
    /// Packets that were sent on without a look at their chunk.
    pub routed: u64,
    /// Reports made.
    pub reports: u64,
    /// Reports and aborts not made: nothing was left of the bound to pay for them, or their source may not be sent so much.
    pub unreported: u64,
    /// Packets that were sent again and again, and are not known to have arrived.
    pub given_up: u64,
    /// Codes that were asked for.
    pub wanted: u64,
    /// Packets sent with codes by digest.
    pub by_digest: u64,
    /// Bytes of codes that were compiled.
    pub compiled: u64,
    /// Bytes of codes that were worked through to find what travels with chunks.
    pub sliced: u64,
    /// Values and jobs that programs could not leave here, and destinations of RIP: there was no room for them.
    pub no_room: u64,
    /// Bounds of packets from applications.
    pub injected: u64,
    /// Bounds of packets from neighbours, after the ceiling of their port.
    pub received: u64,
    /// What the ceilings cut off.
    pub clamped: u64,
    /// Bounds of packets to neighbours.
    pub sent: u64,
    /// Frames paid for.
    pub spent: u64,
    /// What packets had left when they ended.
    pub unused: u64,
}

/// What a packet's bound counts for in the account.
pub fn bound_of(bytes: &[u8]) -> u64 {
    View::new_checked(bytes).map_or(0, |view| view.bound().into())
}
