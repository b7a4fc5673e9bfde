//! The counter tree of a node: what `anode node status` shows. All counters are since the process began.

use crate::kernel::{Kernel, Socket};
use crate::loader::{Loader, RuleHosts};
use crate::plan::Plan;
use crate::versions::Versions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::ports::{
    Chosen, Entry, Followed, Foreign, Hello, Hellos, Interface, Link, Merged, Neighbour, Port, PortClass, PortInput,
    PortPolicy, Rules,
};
pub use crate::usage::{
    Activations, Called, Code, Codes, Credentials, DomainTotal, Drops, Fetch, Limits, Revocations, Total, Trap, Usage,
};
pub use crate::worker::{Connected, Connections, Cpu, Processes, Sandbox, Standing, Worker};

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Status {
    /// The node's name.
    pub node: String,
    /// What program it is, and with what it agrees.
    pub versions: Versions,
    /// For how long its process has run.
    pub uptime_s: u64,
    /// Per port.
    pub ports: Vec<Port>,
    /// What became of all frames of the user half.
    pub balance: Balance,
    /// Frames that no counter knows of.
    pub unaccounted: u64,
    /// The same by whose.
    pub unaccounted_by: Unaccounted,
    /// Packets dropped over the whole node.
    #[serde(flatten)]
    pub drops: Drops,
    /// Per code.
    pub codes: Vec<Code>,
    /// Per domain that has code.
    pub domains: Vec<DomainTotal>,
    /// Code on its way.
    pub fetch: Fetch,
    /// Credentials that came with code.
    pub credentials: Credentials,
    /// What has become of revocations.
    pub revocations: Revocations,
    /// Hellos, if some were said or heard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hellos: Option<Hellos>,
    /// Active nodes next to this one.
    pub neighbours: Vec<Neighbour>,
    /// Routes in use.
    pub routes: u64,
    /// Application ports open.
    pub applications: Vec<u16>,
    /// The PLAN environment, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// Named stores.
    pub stores: crate::stores::Stores,
    /// The kernel half, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// Connections to its sockets.
    pub connections: Connections,
    /// TCP streams of environments.
    pub streams: Streams,
    /// Changes of graphs that programs have asked for.
    pub graph_calls: GraphCalls,
    /// Edits of graphs that code of capsules has wished for.
    #[serde(default)]
    pub graph_wishes: GraphWishes,
    /// Code that extensions have fetched by HTTP.
    pub http: HttpFetches,
    /// How its configuration stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<crate::wish::Standing>,
    /// What loads code.
    pub loader: Loader,
    /// Hosts that rules of channels name, if any are followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_hosts: Option<RuleHosts>,
    /// Ports that were to have AF_XDP sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xdp: Option<Vec<Socket>>,
    /// Rules of policy routing, if routes are followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Rules>,
    /// The interfaces of native ports, as they come and go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// How routes are followed, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Followed>,
    /// What the worker has of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// What the process is confined by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// Per worker, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Worker>,
}

/// TCP streams of environments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Streams {
    /// Streams, and channels that listen for some.
    pub open: u64,
    /// Streams that others have begun.
    pub accepted: u64,
    /// Streams that environments have begun.
    pub connected: u64,
    /// Streams that went beyond a bound, or where the role does not lead.
    pub refused: u64,
    /// Bytes that came by them.
    pub bytes_in: u64,
    /// Bytes that were sent by them.
    pub bytes_out: u64,
}

/// Changes of graphs that programs have asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphCalls {
    /// Those that were made.
    pub done: u64,
    /// Those beyond the changes in a second that a role grants.
    pub later: u64,
    /// Those that were refused for another reason.
    pub refused: u64,
}

/// Edits of graphs that code of capsules has wished for; what has become of those is among the changes that programs have asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphWishes {
    /// Wishes that the node has taken on; more for the same edit before that are one.
    pub taken: u64,
    /// Those beyond the changes in a second that a role grants.
    pub later: u64,
    /// Those for edits that the code's role does not have.
    pub refused: u64,
}

/// Code that extensions have fetched by HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HttpFetches {
    /// Fetches that were asked for.
    pub begun: u64,
    /// Those whose code is in the store.
    pub stored: u64,
    /// Those that led to a host that the configuration does not name, or were too many.
    pub refused: u64,
    /// Those that brought nothing, or something else.
    pub failed: u64,
    /// Redirections that were followed.
    pub redirected: u64,
    /// Bytes of code.
    pub bytes: u64,
}

/// Fields of [`Status`] that count nothing, or what another one counts.
pub const NO_COUNTERS: [&str; 5] = ["drops_before", "limits", "domain", "worker", "number"];

/// What became of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Balance {
    /// Frames that came in by ports.
    pub received: u64,
    /// Packets that began here.
    pub made: u64,
    /// Frames that left by ports.
    pub sent: u64,
    /// Packets handed to applications and environments.
    pub delivered: u64,
    /// Packets that the node itself was meant by.
    pub used: u64,
    /// Frames left to the Linux stack.
    pub not_ours: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets that wait.
    pub held: u64,
    /// Packets handed to the first worker, less those taken over from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed: Option<i64>,
    /// Frames lost without a counter; below 0: counted more than once.
    pub unaccounted: i64,
}

/// Frames that no counter knows of, by whose counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "each is whose counters it says")]
pub struct Unaccounted {
    pub node: u64,
    pub ports: u64,
    pub domains: u64,
    pub environments: u64,
    pub cuts: u64,
    pub kernel: u64,
}

impl Unaccounted {
    /// Whose, and how many.
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        let Unaccounted { node, ports, domains, environments, cuts, kernel } = *self;
        [
            ("cuts", cuts),
            ("domains", domains),
            ("environments", environments),
            ("kernel", kernel),
            ("node", node),
            ("ports", ports),
        ]
    }
}

/// Counters as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// The text.
    pub text: String,
    /// Series in it.
    pub series: u64,
    /// Series that found no place: there is a limit.
    pub left_out: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_nothing_is_there() {
        let schema = schemars::schema_for!(Status).to_value();
        let mut names = Vec::new();
        let mut rest = vec![&schema];
        while let Some(value) = rest.pop() {
            names.extend(value["properties"].as_object().into_iter().flat_map(|fields| fields.keys()));
            rest.extend(value.as_object().into_iter().flat_map(|fields| fields.values()));
        }
        for name in NO_COUNTERS {
            assert!(names.iter().any(|known| *known == name), "{name} is no field of a status");
        }
    }
}
