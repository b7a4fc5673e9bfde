//! The PLAN environment of a node. Bounds are in frames, codes in bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What it has done, and keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "docs/plan.md has what each counts")]
pub struct Plan {
    pub packets: u64,
    pub evaluated: u64,
    pub failed: u64,
    pub routed: u64,
    pub reports: u64,
    pub unreported: u64,
    pub given_up: u64,
    pub wanted: u64,
    pub by_digest: u64,
    pub compiled: u64,
    pub sliced: u64,
    pub no_room: u64,
    pub injected: u64,
    pub received: u64,
    pub clamped: u64,
    pub sent: u64,
    pub spent: u64,
    pub unused: u64,
    pub bound_max: u32,
    pub held: u64,
    pub codes: u64,
    pub code_bytes: u64,
    pub code_memory: u64,
    pub services: Vec<String>,
    pub resident: u64,
    pub resident_bytes: u64,
    pub flows: u64,
    pub rip_routes: u64,
    pub piece_bytes: u64,
    pub waiting: u64,
    pub jobs: u64,
    pub job_bytes: u64,
    pub applications: u64,
    pub connections: u64,
}
