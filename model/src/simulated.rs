//! The result of a simulation, as `anode sim run` prints it.

use crate::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A result with what this machine took for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Simulated {
    /// The lab file.
    pub scenario: String,
    /// The same for the same seed.
    pub result: Report,
    /// Differs from run to run.
    pub machine: Machine,
}

/// How fast a machine was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Seconds that it took.
    pub wall_s: f64,
    /// Capsules that came to nodes over links, in each of them.
    pub packet_hops_per_second: f64,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Nodes in the network.
    pub nodes: u64,
    /// Links in the network.
    pub links: u64,
    /// Virtual time that has passed, in seconds.
    pub virtual_s: f64,
    /// Counters.
    pub totals: Totals,
    /// Capsules still in nodes or on links.
    pub alive: u64,
    /// Codes still on their way into some node.
    pub fetching: u64,
    /// Links crossed by a delivered capsule, on average.
    pub hops_mean: f64,
    /// Times from injection to delivery.
    pub latency: Summary,
    /// By code name.
    pub codes: BTreeMap<String, CodeTotals>,
}

/// Counters of a whole simulation: what began is what has ended, or is in nodes or on links.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Capsules that applications sent.
    pub injected: u64,
    /// Capsules that applications could not send.
    pub refused: u64,
    /// Capsules that code sent.
    pub children: u64,
    /// Capsules that a link doubled.
    pub doubled: u64,
    /// Capsules that something which is no node put on a link.
    pub forged: u64,
    /// Capsules that reached an application.
    pub delivered: u64,
    /// Capsules dropped by nodes, by reason; those under `code` were consumed by their own code.
    pub dropped: BTreeMap<String, u64>,
    /// Capsules lost outside nodes.
    pub lost: Losses,
    /// Capsules that came to a node over a link.
    pub packet_hops: u64,
    /// Steps of wasm that all capsules took.
    pub steps: u64,
    /// Code-fetch messages.
    pub fetch: FetchTotals,
    /// Frames that were no capsules and were dropped by nodes, by reason.
    pub messages_dropped: BTreeMap<String, u64>,
    /// Crashes of nodes.
    pub crashes: u64,
}

/// Capsules lost outside nodes, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// By links, by chance.
    pub link: u64,
    /// On links that were cut.
    pub cut: u64,
    /// On the way to a node that was down.
    pub down: u64,
    /// With the node that held them.
    pub crash: u64,
    /// Into something that is no node.
    pub stranger: u64,
}

impl Losses {
    /// All together.
    pub fn total(&self) -> u64 {
        self.link + self.cut + self.down + self.crash + self.stranger
    }
}

/// Code-fetch messages put on links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FetchTotals {
    /// Requests.
    pub requests: u64,
    /// Bytes of requests, ANEP header included.
    pub request_bytes: u64,
    /// Parts of objects.
    pub parts: u64,
    /// Word that there is no such object.
    pub absents: u64,
    /// Bytes of parts and absents, ANEP header included.
    pub reply_bytes: u64,
    /// Codes compiled and ready, counted once for each node and time.
    pub loads: u64,
}

/// A histogram in five numbers, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// How many were seen.
    pub count: u64,
    /// The least.
    pub min_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// Half of them are no longer.
    pub median_us: f64,
    /// 99 of 100 are no longer.
    pub p99_us: f64,
    /// The most.
    pub max_us: f64,
}

/// What one code did over all nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeTotals {
    /// For people.
    pub title: String,
    /// Nodes where it is ready.
    pub nodes: u64,
    /// What it used over all nodes, crashed ones included.
    pub usage: Usage,
}
