//! Other ends for pings, as [`super::ip_rewriter`] gives them to flows (RFC 5508 §3.1).

use super::ip_rewriter;
use crate::graph::class::{EngineClass, Make};

/// `ICMPPingRewriter`.
pub const CLASS: EngineClass = EngineClass {
    name: "ICMPPingRewriter",
    doc: "Gives ICMP echo requests other addresses and identifiers, and their replies the first ones back. \
          ICMPPingRewriter(INPUT0, ...): drop, pass OUTPUT, keep FOUT ROUT, or pattern SADDR IDENTIFIERS DADDR - FOUT \
          ROUT. MAPPING_CAPACITY flows, TIMEOUT in seconds: 300. Handlers: mappings, nmappings, mapping_failures",
    make: Make::with("1-/1-", "h/h", "x/x", ip_rewriter::make_of_pings),
};
