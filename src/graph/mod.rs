//! Graphs: what is done with the packets of a domain between the rule that finds them and the port, or the environment, that gets them.
//!
//! ```text
//!                        ┌ Deliver ───────────────────────────────▶ the domain (an upcall)
//! rule ─▶ incoming ──────┼ Routed, Readdressed ─▶ other headers ──▶ port
//!         channel        └ Engines ─▶ engine ─▶ … ─┬──────────────▶ the domain
//!                                                  └ cut-through ─▶ outgoing channel
//! domain ─▶ outgoing ────┬ kept headers (`head`) ─────────────────▶ port
//!           channel      └ engines ─▶ … ─▶ `exit`: next hop, headers ─▶ port
//! ```
//!
//! One description, several forms: the form of a channel's graph is chosen when the channel is made and when a cut-through channel joins it
//! or leaves it, so a packet for which there is nothing to do takes no step for that. `engine` is what engines are,
//! `engines` has them and their table, `table` the form of graphs that have any; `cut` has cut-through channels, which the other
//! half of the node can carry too (`half`); `rules` are those of all workers of a node. Nothing here sends a packet or
//! hands it to anybody: the node does, with what it finds here.

pub mod arguments;
mod chance;
pub mod channels;
mod claims;
pub mod class;
pub mod cut;
pub mod door;
mod doors;
pub mod edges;
pub mod engine;
pub mod engines;
pub mod exit;
mod form;
pub mod fused;
pub mod half;
pub mod head;
mod ip_filters;
pub mod load;
pub mod locked;
mod moving;
pub mod own;
mod packet;
mod partner;
mod pattern;
mod place;
pub mod placement;
mod rate;
pub mod remote;
pub mod rules;
pub mod running;
mod runs;
pub mod scratch;
mod source;
pub mod spec;
mod store;
pub mod swap;
pub mod table;
pub mod taught;

use crate::core::domain::DomainId;
use crate::core::ledger::Balance;
use crate::frame::PortId;
pub use channels::{Channels, InChan, OutChan, Traffic};
pub use exit::Target;
pub use form::{Exit, Form};
use half::ChannelHalf;
pub use moving::MovedChannels;
pub use rules::Taker;
use scratch::Scratch;

/// The graphs of a node.
#[derive(Default)]
pub struct Graphs {
    /// Where they begin and end.
    pub channels: Channels,
    /// What looks at frames before the node does.
    pub halves: Vec<Box<dyn ChannelHalf>>,
    /// Domains that hear address resolution at a port, beside the node and Linux.
    pub hears: Vec<(PortId, DomainId)>,
    /// What became of the packets of cut-through channels and graphs in the other half.
    pub in_kernel: Balance,
    /// Channels of graphs whose packets go there.
    pub doors: Vec<door::KernelDoor>,
    /// What has passed of them, by domain, until their graphs ask.
    pub passed: Vec<(crate::core::domain::DomainId, half::CutCounts)>,
    /// Memory for packets between engines: of incoming channels, and of outgoing ones, to which cut-through leads from those.
    pub scratch: [Scratch; 2],
}
