//! Names for what flows become.

use crate::graph::class::{EngineClass, Make};

/// `IPRewriterPatterns`.
pub const CLASS: EngineClass = EngineClass {
    name: "IPRewriterPatterns",
    doc: "Gives names to patterns, for all rewriters of the graph, as in `pattern NAME FOUT ROUT`; each rewriter has its \
          own ports of one. IPRewriterPatterns(NAME SADDR SPORT DADDR DPORT, ...)",
    make: Make::Remark,
};
