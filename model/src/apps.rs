//! What the commands print that send capsules: `anode ping`, `trace`, `cache`, `capsule`, `heavy`, `multicast`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a series of times looks like, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Times {
    /// How many were measured.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The sum over the count.
    pub mean_ns: u64,
    /// The middle one.
    pub median_ns: u64,
    /// 95 of 100 are at most this long.
    pub p95_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The mean distance from the mean.
    pub deviation_ns: u64,
}

/// What came of `anode ping`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pinged {
    /// The address of the sender.
    pub from: String,
    /// The address that was asked.
    pub to: String,
    /// The name of the code.
    pub code: String,
    /// The answers, as they came.
    pub replies: Vec<Reply>,
    /// Why this node did not send capsules on.
    pub refusals: Vec<String>,
    /// All together.
    pub summary: PingSummary,
}

/// An answer to a ping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    /// The number of the capsule, from 0.
    pub sequence: u32,
    /// The node that turned it round.
    pub from: String,
    /// Payload bytes.
    pub bytes: u64,
    /// Links passed on the way there.
    pub hops_there: u8,
    /// Links passed on the way back.
    pub hops_back: u8,
    /// From sending to receiving, in nanoseconds.
    pub rtt_ns: u64,
    /// Whether an answer to this capsule was here before.
    pub duplicate: bool,
}

/// What came of all capsules of a ping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PingSummary {
    /// Capsules sent.
    pub sent: u32,
    /// Capsules answered in time.
    pub received: u32,
    /// Answers beyond the first.
    pub duplicates: u32,
    /// Capsules that ended at this node, as far as it says so.
    pub refused: u32,
    /// Capsules not answered in time, in percent of those sent.
    pub loss_percent: f64,
    /// Round-trip times.
    pub rtt: Times,
}

/// What came of `anode trace`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traced {
    /// The address that was asked.
    pub to: String,
    /// The name of the code.
    pub code: String,
    /// The way.
    pub trace: Trace,
}

/// The way to a node and back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trace {
    /// The nodes on the way there, from the sender's own to the destination.
    pub there: Vec<Hop>,
    /// The nodes on the way back.
    pub back: Vec<Hop>,
    /// Whether the capsule came back; else `there` is as far as reports tell.
    pub complete: bool,
    /// Whether there were more nodes than records.
    pub full: bool,
    /// The whole round trip in nanoseconds, if it came back.
    pub rtt_ns: Option<u64>,
    /// Capsules sent.
    pub tries: u32,
}

/// A node that the capsule passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Its address on the side where the capsule left.
    pub node: String,
    /// Its name, the first 16 bytes.
    pub name: String,
    /// Round trip from the sender to it, in nanoseconds, if it was passed on both ways.
    pub rtt_ns: Option<u64>,
    /// Its clock when the capsule passed.
    pub clock_ns: u64,
    /// Bytes that waited to leave by the link the capsule took, if the link says.
    pub queue_bytes: Option<u32>,
    /// How busy that link was, in 1/1000, if its rate is known.
    pub load_permille: Option<u16>,
}

/// What an origin of a cache has done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// GETs answered with a value.
    pub values: u64,
    /// GETs for keys it does not have.
    pub absent: u64,
    /// PUTs taken.
    pub stored: u64,
}

/// What a cache answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CacheAnswer {
    /// A value.
    Value {
        /// The value, as text.
        value: String,
        /// Its version.
        version: u32,
        /// The node that answered.
        from: String,
        /// Whether it had a copy; else it is the origin.
        copy: bool,
        /// Links to it.
        hops: u8,
        /// Until the answer, in nanoseconds.
        time_ns: u64,
    },
    /// The origin has taken a value.
    Stored {
        /// As this version.
        stored: u32,
    },
    /// The origin has no such key, or no room for another.
    Absent {
        /// Always so.
        absent: bool,
    },
    /// No answer came.
    Lost {
        /// Always so.
        lost: bool,
    },
}

/// What is asked of a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Different keys.
    pub keys: u64,
    /// Requests.
    pub requests: u64,
    /// Exponent of Zipf's law.
    pub exponent: f64,
    /// Where the random numbers start.
    pub seed: u64,
}

/// What became of the requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Requests.
    pub requests: u64,
    /// Answered from a copy in a node.
    pub copies: u64,
    /// Answered by the origin.
    pub origin: u64,
    /// For keys that the origin does not have.
    pub absent: u64,
    /// Not answered.
    pub lost: u64,
    /// Share answered from copies, in percent.
    pub hit_percent: f64,
    /// Links to the node that answered, on average.
    pub mean_hops: f64,
    /// Times to the answer.
    pub latency: Times,
    /// Answers from copies, by the address of the node.
    pub by_node: BTreeMap<String, u64>,
}

/// A workload with copies in the network, and without.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// What was asked for.
    pub workload: Workload,
    /// Values that the origin took.
    pub stored: u64,
    /// Without copies.
    pub without: Outcome,
    /// With them.
    pub with: Outcome,
}

/// Capsules that were sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// How many.
    pub sent: u32,
    /// The name of their code.
    pub code: String,
    /// Payload bytes of each.
    pub bytes: u64,
}

/// A capsule that has arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arrived {
    /// Where it began.
    pub source: String,
    /// Where it went.
    pub destination: String,
    /// The node before.
    pub previous: String,
    /// Its resource bound.
    pub bound: u32,
    /// The application port.
    pub app_port: u16,
    /// The name of its code.
    pub code: String,
    /// The payload in hexadecimal digits.
    pub payload: String,
    /// Since the beginning, in nanoseconds.
    pub after_ns: u64,
}

/// A capsule that this node did not send on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotSent {
    /// Why, with the remedy.
    pub refused: String,
}

/// A line of `anode capsule`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CapsuleLine {
    /// Capsules were sent.
    Sent(Sent),
    /// One has arrived.
    Arrived(Arrived),
    /// One was not sent on.
    NotSent(NotSent),
}

/// Capsules that nodes have counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeavySent {
    /// Where to.
    pub to: String,
    /// How many.
    pub sent: u32,
}

/// The list of a node that counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Heavy {
    /// Its address.
    pub node: String,
    /// Its name.
    pub name: String,
    /// Capsules it has counted.
    pub total: u64,
    /// The heaviest sources first.
    pub top: Vec<HeavySource>,
}

/// A source and what it sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeavySource {
    /// Its address.
    pub source: String,
    /// It sent at most so many capsules.
    pub count: u64,
    /// And at least so many.
    pub at_least: u64,
}

/// A group: a number at a root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// The address of the node from which data branches.
    pub root: String,
    /// The group's number there.
    pub number: u64,
}

/// What was sent to a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupSent {
    /// The group.
    pub group: Group,
    /// The publisher's run.
    pub stream: u32,
    /// How many data.
    pub sent: u32,
}

/// A line of `anode multicast listen`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum GroupLine {
    /// A node has the join.
    Joined {
        /// Where.
        joined: Joined,
    },
    /// A datum has come.
    Datum {
        /// The publisher's run.
        stream: u32,
        /// Counted in that run, from 0.
        sequence: u32,
        /// The data as text.
        text: String,
    },
}

/// The first node that knew of a group, or the root.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// Its address.
    pub at: String,
    /// Links the join passed.
    pub hops: u16,
}
