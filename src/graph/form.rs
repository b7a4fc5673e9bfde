//! Forms of graphs: what is done with the packets of an incoming channel, the shortest that does it.

use super::table::Graph;
use crate::nodeos::interface::CutChanId;

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
    pub(super) fn plain(graph: &Graph) -> Form {
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
