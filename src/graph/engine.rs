//! Engines: what is done to packets on the way between a channel and its domain, as in `if0/ip/udp/fragment(1200)/checksum`.
//!
//! An engine has two inputs and two outputs, one of each for either way: what comes in at [`OUTWARD`] leaves there
//! changed, and what comes in at [`INWARD`] has that undone. It keeps what it likes between packets, in tables that are
//! bounded ([`crate::frame::assembly`]): the oldest unfinished group of whoever has most gives way. Which there are
//! says the table of classes ([`super::class`]).

use super::scratch::{Hop, Scratch};
use crate::core::reason::Reason;
use crate::frame::assembly::{Assemblies, AssemblyLimits};
use crate::frame::{Frame, FramePool, Payer};
use crate::wire::Addr;

/// From a domain towards the network.
pub const OUTWARD: u8 = 0;
/// From the network towards a domain.
pub const INWARD: u8 = 1;
/// Inputs, and outputs, of an engine.
pub(super) const WAYS: usize = 2;

/// What becomes of a packet that an engine was given.
pub enum Pushed {
    /// It goes on by this output.
    To(u8, Frame),
    /// The engine has it, or has put what comes of it where it goes ([`GraphCx::emit`]).
    Kept,
    /// It is over.
    Dropped(Frame, Reason),
}

/// One step of a packet's way, with its state.
pub trait Engine: Send {
    /// A packet comes in.
    fn push(&mut self, input: u8, frame: Frame, cx: &mut GraphCx<'_>) -> Pushed;

    /// Packets of which it keeps the pieces.
    fn held(&self) -> u64 {
        0
    }
}

/// Who sent a packet: who pays for it, and its address and port, if its protocols name them.
pub type Origin = (Payer, Option<(Addr, u16)>);

/// What an engine is called with.
pub struct GraphCx<'a> {
    /// Nanoseconds of the node's clock.
    pub now: u64,
    /// Who sent what came in, as far as it is known, and who pays for it: groups of different senders are not mixed,
    /// and each that pays has its share of them.
    pub from: Origin,
    /// Buffers.
    pub pool: &'a mut FramePool,
    pub(super) next: [Hop; WAYS],
    pub(super) scratch: &'a mut Scratch,
}

impl GraphCx<'_> {
    /// Sends one of several packets on, by this output.
    #[inline]
    pub fn emit(&mut self, output: u8, frame: Frame) {
        self.scratch.go(self.next.get(usize::from(output)).copied().unwrap_or(Hop::Exit), frame);
    }

    /// So many packets that were kept have gone.
    pub fn lose(&mut self, reason: Reason, packets: u64) {
        if packets > 0 {
            self.scratch.lost.push((reason, packets));
        }
    }
}

/// Groups of packets that are not complete yet, of one engine.
pub const GROUPS_MAX: usize = 16;

/// How long pieces wait for the rest, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

/// Groups of packets that are not complete, by who sends them and their number there.
pub(super) type Groups<Group> = Assemblies<(Origin, u16), Payer, Group>;

/// What one engine may hold. Every group has a buffer, so it is groups that are counted.
pub(super) const LIMITS: AssemblyLimits = AssemblyLimits { messages: GROUPS_MAX, bytes: 0, within: PATIENCE };
