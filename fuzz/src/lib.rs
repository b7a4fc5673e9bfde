//! The common part of the fuzz targets: the parsers, and the invariants for every byte string.
//!
//! The parsers are compiled from the node's own source files and not through its crate, because
//! that would bring a WebAssembly compiler along, instrumented, for minutes. `tests/unit/formats.rs` runs
//! the same checks from `reading.rs` against the crate itself.

// The node's sources call it by the name that their manifest gives it.
extern crate anode1 as libanode;

#[path = "../../src/abi/mod.rs"]
pub mod abi;
pub mod assembling;
#[path = "../../src/broker/message.rs"]
pub mod broker;
/// Headers of frames, and the classifier of taught protocols, from `src/classify`.
#[path = "../../src/classify"]
pub mod classify {
    #[allow(dead_code, reason = "the classifier uses the rest")]
    pub mod headers;
    #[allow(dead_code, reason = "the command line uses the rest")]
    pub mod taught;
}
pub mod classifying;
#[path = "../../src/clean.rs"]
pub mod clean;
pub mod clicks;
#[path = "../../src/contract/mod.rs"]
pub mod contract;
pub mod frame;
pub mod instructions;
pub mod kernel;
/// Journals of stores, from `src/nodeos`.
#[path = "../../src/nodeos"]
pub mod nodeos {
    pub mod store {
        #[allow(dead_code, reason = "stores themselves use the rest")]
        pub mod bounds;
        pub mod journal;
    }
}
pub mod plans;
/// Capture files, from `src/port`.
#[path = "../../src/port"]
pub mod port {
    pub mod pcap;
}
pub mod programs;
pub mod reading;
pub mod seen;
pub mod sys;
pub mod targets;
#[path = "../../src/wire/mod.rs"]
pub mod wire;

pub mod code;
pub mod trust;
