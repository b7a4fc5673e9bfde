//! Bundles, the checks of representations, and linking: all steps on fetched bytes before a compiler or the kernel's
//! verifier.

#[path = "../../../src/code/bundle/mod.rs"]
pub mod bundle;
#[path = "../../../src/code/check/mod.rs"]
pub mod check;
#[path = "../../../src/code/link.rs"]
pub mod link;

/// What extensions say that they are; those that run stay with the node.
#[path = "../../../src/code/extension"]
pub mod extension {
    #[allow(dead_code, reason = "calls use the rest")]
    pub mod call_type;
    pub mod every_node;
    #[allow(dead_code, reason = "PLAN services and instances use the rest")]
    pub mod imports;
    pub mod manifest;
    pub mod object;
    #[allow(dead_code, reason = "nodes use the rest")]
    pub mod registry;
}

/// What the node and its compiler say to each other; the compiler itself stays with the node.
#[path = "../../../src/code/compiler"]
pub mod compiler {
    pub mod answer;
    mod job;

    pub use job::{CompilerLimits, CompilerOutput, Failure, Job, Purpose};
}

/// Of what runs code, the tiers that jobs name.
#[path = "../../../src/code/run"]
pub mod run {
    mod tier;

    pub use tier::Tier;
}

/// What web servers say; who talks to them stays with the node.
#[path = "../../../src/code/http"]
pub mod http {
    #[allow(dead_code, reason = "the child in its jail uses the rest")]
    mod ask;
    #[allow(dead_code, reason = "the node uses the rest")]
    mod job;
    mod place;

    pub use ask::hear;
    pub use job::{Answer, found};
    pub use place::HttpPlace;
}
