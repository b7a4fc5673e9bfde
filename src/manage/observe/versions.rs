//! What program this is, and with which others it agrees: `versions` of the status.

use crate::code::bundle::API_VERSION;
use crate::kernel::maps_version;
use crate::wire::fetch;
use model::PROTOCOL;
use model::versions::Versions;

/// What a node says of whom it works with.
const WORKS_WITH: &str = "nodes with the same versions of capsules, fetch and plan pass packets and code to each other, whatever their \
program's version; a node takes over the kernel half of one with the same kernel_maps, and makes its own beside any other";

/// Those of this program.
pub fn versions() -> Versions {
    let (maps, structures) = maps_version();
    Versions {
        anode: env!("CARGO_PKG_VERSION").into(),
        control: PROTOCOL,
        capsules: API_VERSION,
        fetch: fetch::VERSION.into(),
        nodeos: libanode::message::VERSION.into(),
        plan: plan::code::VERSION.into(),
        kernel_maps: format!("{maps}-{structures:016x}"),
        works_with: WORKS_WITH.into(),
    }
}
