//! What is said about a graph, and changes nothing here.

use crate::graph::class::{EngineClass, Make};

/// `AlignmentInfo`.
pub const CLASS: EngineClass =
    EngineClass { name: "AlignmentInfo", doc: "Says how packets are aligned: here always", make: Make::Remark };
