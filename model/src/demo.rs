//! What `anode demo` has measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How often each part of an object crossed each link: link, object, part, times.
pub type Crossings = BTreeMap<String, BTreeMap<String, BTreeMap<String, u32>>>;

/// What the tour has measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Demo {
    /// The mean of the network's own ping, in milliseconds, if it has one.
    pub icmp_ms: Option<f64>,
    /// A capsule whose code was nowhere.
    pub cold_ms: f64,
    /// The median of those that follow.
    pub warm_ms: f64,
    /// When each node had the code ready: its name, and milliseconds since the first was given it.
    pub loads: Vec<(String, f64)>,
    /// How often parts of code crossed links: link, object, part, times.
    pub crossings: Crossings,
    /// Answers of the cache, the first and the best of a copy: links, who gave it, milliseconds.
    pub cache: Vec<(u8, String, f64)>,
    /// The same with a kernel half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<DemoKernel>,
}

/// The tour's capsules through a kernel half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum DemoKernel {
    /// They passed.
    Passed {
        /// Capsules that came back.
        capsules: u64,
        /// Those that passed in the kernel.
        in_kernel: u64,
        /// Nanoseconds of each there.
        ns_each: f64,
        /// The median round trip, in milliseconds.
        warm_ms: f64,
    },
    /// There is none here.
    Missing {
        /// Why.
        missing: String,
    },
}
