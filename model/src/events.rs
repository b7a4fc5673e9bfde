//! What has been done to a node, and what has changed in it: events with numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The process of the node, or its settings.
    Node,
    /// Code that was given, taken out, has become ready or was refused.
    Code,
    /// A role or a revocation.
    Role,
    /// A domain, or an environment and its sessions.
    Session,
    /// A neighbour.
    Neighbour,
    /// Routes.
    Route,
    /// A link or an interface.
    Link,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] =
        [Kind::Node, Kind::Code, Kind::Role, Kind::Session, Kind::Neighbour, Kind::Route, Kind::Link];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Node => "node",
            Kind::Code => "code",
            Kind::Role => "role",
            Kind::Session => "session",
            Kind::Neighbour => "neighbour",
            Kind::Route => "route",
            Kind::Link => "link",
        }
    }
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number; a gap says how many were missed.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// What it is about.
    pub kind: Kind,
    /// What has happened, in words.
    pub what: String,
    /// Who has asked for it, if somebody has: user and process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<Who>,
    /// Whether it was refused, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Who has asked for something over the control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Who {
    /// The user.
    pub uid: u32,
    /// The process.
    pub pid: i32,
}

/// The last events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// Numbers are of this process.
    pub process: u32,
    /// Events since its beginning that were not kept, since their cause had too many; each is a gap in the numbers.
    #[serde(default)]
    pub unkept: u64,
    /// Oldest first.
    pub events: Vec<Event>,
}
