//! What the program of a graph in the kernel does: said by the node, checked and made into instructions by whoever has the privilege.
//!
//! Only plain packets come to it (bpf/plain.h): untagged, whole, in one buffer, an IP header without options at [`IP_AT`], its sum right.

use super::GRAPH_WORDS;
use serde::{Deserialize, Serialize};

/// Blocks of one plan, at most.
pub const BLOCKS_MAX: usize = 512;

/// Devices of one plan, at most: each is looked at before the first engine.
pub const EXITS_MAX: usize = 16;

/// Outputs of one look-up, at most.
pub const FOUND_MAX: usize = 16;

/// Bytes of a plan in a message, at most.
pub const PLAN_BYTES: usize = 64 << 10;

/// Where the IP header of a plain packet is.
pub const IP_AT: u16 = 14;

/// Bytes that every plain packet has: headers of Ethernet and IPv4.
pub const PLAIN: u16 = IP_AT + 20;

/// Bytes of what is found in a program's table.
pub const FOUND_BYTES: usize = 16;

/// The last byte of a frame that a plan names, and one.
const REACH_MAX: u16 = 2048;

/// What a program does with the packets of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelPlan {
    /// Where packets come in: a port, or the index of its interface, and the first block.
    pub entries: Vec<(u32, u16)>,
    /// By which ports, or interfaces, packets leave.
    pub exits: Vec<u32>,
    /// What is done. A block leads to later ones only.
    pub blocks: Vec<FusedBlock>,
}

/// Some steps, and what is next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FusedBlock {
    /// In their order.
    pub steps: Vec<FusedStep>,
    /// Behind them.
    pub end: FusedEnd,
}

/// A step. Places are bytes of the frame as it came.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FusedStep {
    /// Counts a packet in this word.
    Count(u16),
    /// Counts its bytes in this word, from this byte of the frame on.
    Bytes(u16, u16),
    /// Writes bytes at a place.
    Put(u16, Vec<u8>),
    /// Exchanges the link addresses that are at a place.
    Mirror(u16),
    /// What is behind the IPv4 packet is cut off.
    Trim,
    /// Takes one off the time to live, and carries the header's sum over.
    SpendHop,
    /// Gives the packet the ends that were found for its flow, and carries its sums over.
    Readdress,
    /// Writes so many of the first bytes of what was found for where the packet goes next, at a place.
    PutFound(u16, u8),
}

/// What is next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FusedEnd {
    /// This block.
    To(u16),
    /// The first block if the test holds, else the second.
    If(FusedTest, u16, u16),
    /// The packet is over.
    Drop,
    /// It leaves by this exit, from this byte on.
    Leave(u16, u16),
    /// It goes up as it came: nothing has been done to it on any way to here.
    Up,
    /// It is looked up in the table of the program, and goes where that says.
    Find {
        /// Whose entry.
        engine: u16,
        /// By what.
        key: FusedKey,
        /// The blocks of its outputs.
        outputs: Vec<u16>,
        /// The block if there is none, or none any more.
        otherwise: u16,
    },
}

/// By what a packet is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FusedKey {
    /// The ends of its flow: only of UDP, and of TCP that does not end.
    Ends,
    /// The IPv4 address that it goes to next.
    Next(FusedNext),
}

/// Where the IPv4 address is that a packet goes to next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum FusedNext {
    /// At a byte of the frame as it came.
    Frame(u16),
    /// At a byte of what was found for its flow.
    Flow(u16),
    /// This one, as it stands in a packet.
    Known([u8; 4]),
}

/// A test of at most four bytes: it holds if they are there and a part of them is a number from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FusedTest {
    /// Where they begin.
    pub at: u16,
    /// How many: 1, 2 or 4.
    pub width: u8,
    /// Bits behind the part.
    pub shift: u8,
    /// Bits of the part that matter.
    pub mask: u32,
    /// The least.
    pub low: u32,
    /// The most.
    pub high: u32,
    /// Up to which byte of the frame the IPv4 packet must go; 0: that does not matter.
    pub reach: u16,
}

impl KernelPlan {
    /// Whether a program can be made of it that ends: what has been read may be anybody's.
    pub fn is_sound(&self) -> bool {
        let blocks = self.blocks.len();
        let sizes = (1..=BLOCKS_MAX).contains(&blocks) && self.exits.len() <= EXITS_MAX;
        let enters = |(_, block): &(u32, u16)| usize::from(*block) < blocks;
        sizes
            && (1..=EXITS_MAX).contains(&self.entries.len())
            && self.entries.iter().all(enters)
            && self.blocks.iter().enumerate().all(|(at, block)| self.is_sound_at(at, block))
    }

    fn is_sound_at(&self, at: usize, block: &FusedBlock) -> bool {
        let later = |next: u16| (at + 1..self.blocks.len()).contains(&usize::from(next));
        let within = |place: u16, bytes: usize| usize::from(place) + bytes <= REACH_MAX.into();
        let word = |word: u16| u32::from(word) < GRAPH_WORDS;
        let step = |step: &FusedStep| match step {
            FusedStep::Count(to) => word(*to),
            FusedStep::Bytes(to, from) => word(*to) && *from <= PLAIN,
            FusedStep::Put(place, bytes) => within(*place, bytes.len()),
            FusedStep::Mirror(place) => within(*place, 12),
            FusedStep::Trim | FusedStep::SpendHop | FusedStep::Readdress => true,
            FusedStep::PutFound(place, bytes) => within(*place, (*bytes).into()) && usize::from(*bytes) <= FOUND_BYTES,
        };
        let ends = match &block.end {
            FusedEnd::To(next) => later(*next),
            FusedEnd::If(test, then, otherwise) => {
                let FusedTest { at, width, shift, reach, .. } = *test;
                later(*then)
                    && later(*otherwise)
                    && matches!(width, 1 | 2 | 4)
                    && shift < 32
                    && within(at, width.into())
                    && reach <= REACH_MAX
            }
            FusedEnd::Find { key, outputs, otherwise, .. } => {
                let is_there = match *key {
                    FusedKey::Ends | FusedKey::Next(FusedNext::Known(_)) => true,
                    FusedKey::Next(FusedNext::Frame(at)) => within(at, 4),
                    FusedKey::Next(FusedNext::Flow(at)) => usize::from(at) + 4 <= FOUND_BYTES,
                };
                let count = (1..=FOUND_MAX).contains(&outputs.len());
                is_there && count && later(*otherwise) && outputs.iter().all(|output| later(*output))
            }
            FusedEnd::Drop | FusedEnd::Up => true,
            FusedEnd::Leave(exit, first) => usize::from(*exit) < self.exits.len() && *first <= PLAIN,
        };
        ends && block.steps.iter().all(step)
    }
}
