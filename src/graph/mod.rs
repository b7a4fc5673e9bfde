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
//! half of the node can carry too (`half`). Nothing here sends a packet or hands it to anybody: the node does, with
//! what it finds here.

pub mod channels;
pub mod class;
pub mod cut;
pub mod engine;
mod engines;
pub mod exit;
pub mod half;
pub mod head;
pub mod own;
pub mod table;

use crate::core::ledger::Balance;
use crate::nodeos::interface::CutChanId;
pub use channels::{Channels, InChan, OutChan, Taker, Traffic};
pub use exit::Target;
use half::ChannelHalf;
use table::{Graph, Scratch};

/// What is done with the packets of an incoming channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The domain gets them as they are.
    Deliver,
    /// They go on as a router sends them: IP to IP, by a cut-through channel.
    Routed(CutChanId),
    /// They go on with other addresses and ports: UDP to UDP, by a cut-through channel.
    Readdressed(CutChanId),
    /// They pass engines, or none, and leave by this exit.
    Engines(Exit),
}

/// Where packets go that have passed the engines of an incoming channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// To the domain.
    Deliver,
    /// To the other end of a cut-through channel.
    Cut(CutChanId),
}

impl Form {
    /// That of an incoming channel by itself.
    fn plain(graph: &Graph) -> Form {
        if graph.is_empty() { Form::Deliver } else { Form::Engines(Exit::Deliver) }
    }

    /// The cut-through channel that packets take, if they take one.
    pub fn cut(self) -> Option<CutChanId> {
        match self {
            Form::Routed(cut) | Form::Readdressed(cut) | Form::Engines(Exit::Cut(cut)) => Some(cut),
            Form::Deliver | Form::Engines(Exit::Deliver) => None,
        }
    }
}

/// The graphs of a node.
#[derive(Default)]
pub struct Graphs {
    /// Where they begin and end.
    pub channels: Channels,
    /// What looks at frames before the node does.
    pub halves: Vec<Box<dyn ChannelHalf>>,
    /// What became of the packets of cut-through channels in the other half.
    pub in_kernel: Balance,
    /// Memory for packets between engines: of incoming channels, and of outgoing ones, to which cut-through leads from those.
    pub scratch: [Scratch; 2],
}
