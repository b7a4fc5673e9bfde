//! Names for addresses.

use crate::graph::class::{EngineClass, Make};

/// `AddressInfo`.
pub const CLASS: EngineClass = EngineClass {
    name: "AddressInfo",
    doc: "Gives names to addresses, for all engines of the graph. AddressInfo(NAME [IP] [IP/MASK] [MAC], ...)",
    make: Make::Remark,
};
