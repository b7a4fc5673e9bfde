//! What a configuration means on a host, as `anode node check` prints it.

use crate::domains::Grants;
use crate::usage::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node that would run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Meaning {
    /// Its name.
    pub node: String,
    /// Its run directory.
    pub run_dir: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// Neighbours that the file names.
    pub neighbours: Vec<Neighbour>,
    /// Routes that the file has.
    pub routes: Vec<Route>,
    /// Names of its environments.
    pub environments: Vec<String>,
    /// Its roles.
    pub roles: Vec<Role>,
    /// Sizes of its tables.
    pub sizes: Sizes,
    /// What one neighbour has beside others.
    pub entry: Entry,
    /// What it takes of a processor.
    pub cpu: Cpu,
    /// From which port frames are taken next, if an order says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Input>,
    /// What compiling a module may take.
    pub compiler: Compiler,
    /// What PLAN packets may.
    pub plan: Plan,
    /// What it would be confined by.
    pub sandbox: Sandbox,
    /// Keys whose default is another than that of a version before.
    pub changed_defaults: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
}

/// A port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// What it is.
    pub link: String,
    /// The node's addresses on it.
    pub addresses: Vec<String>,
    /// Bytes of the largest packet.
    pub mtu: u64,
    /// Whether the kernel half stands before it, as the file has it.
    pub kernel: Half,
    /// What was chosen of the kernel half, where the file leaves that to the node.
    pub chosen: Option<crate::status::Chosen>,
    /// Whether it has AF_XDP sockets.
    pub xdp: bool,
    /// The most that resource bounds count for.
    pub bound_max: u32,
    /// The same of code that acts in a role of its own.
    pub signed_bound_max: u32,
    /// The same of PLAN packets.
    pub plan_bound_max: u32,
    /// What it demands.
    pub demands: Vec<String>,
    /// What one neighbour may send beside others.
    pub bytes_per_second: u64,
}

/// What a file says of the kernel half of a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Half {
    /// It stands there or not.
    Said(bool),
    /// `auto`: the node chooses.
    Word(String),
}

/// An order of ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Its name, as the file has it.
    pub order: String,
    /// What each port has by it, in the order of the file.
    pub ports: Vec<InputPart>,
}

/// What a port has by an order of ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputPart {
    /// The name of the port.
    pub port: String,
    /// Its part beside other ports, where the order heeds that; nothing: an extension's order has it in its arguments.
    pub weight: Option<u32>,
    /// Higher is first, where the order heeds that; nothing: as above.
    pub priority: Option<u8>,
}

/// A neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Neighbour {
    /// Its address.
    pub addr: String,
    /// The name of its port.
    pub port: Option<String>,
    /// Numbers of the keys that it shares with the node.
    pub keys: Vec<String>,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Route {
    /// Where to.
    pub to: String,
    /// The next router.
    pub via: String,
    /// The number of the port.
    pub port: u16,
}

/// What code in a role may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// The root keys that may grant it.
    pub trusts: Vec<String>,
    /// Those that run.
    pub representations: Vec<String>,
    /// In which form code is loaded into the kernel: `sandboxed` or `trusted`.
    pub kernel: String,
    /// The calls that code may have.
    pub symbols: Vec<String>,
    /// Restricted PLAN services that its principals see.
    pub services: Vec<String>,
    /// How much of everything.
    pub limits: Limits,
    /// What its domains get besides.
    pub grants: Grants,
}

/// Sizes of a node's tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// Codes ready, refused or on their way.
    pub codes: u64,
    /// Bytes of manifests and representations in memory.
    pub object_bytes: u64,
    /// Entries of soft state.
    pub state_entries: u64,
    /// Active packets a second of one port; 0: no ceiling.
    pub ingress_packets_per_second: u64,
    /// Bytes of code a second that one neighbour may ask for.
    pub fetch_bytes_per_second: u64,
    /// Unknown codes a second that one neighbour may make the node look for.
    pub look_ups_per_second: u64,
}

/// What one neighbour has beside others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Of a worker.
    pub share: f64,
    /// Milliseconds at once.
    pub burst_ms: u32,
    /// Bytes a second; 0: a share of the link.
    pub bytes_per_second: u64,
}

/// What a node takes of a processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Workers that the node will have here.
    pub workers: u64,
    /// How it is divided among domains.
    pub scheduler: String,
    /// Of one processor.
    pub share: f64,
    /// Whether workers run before all ordinary threads.
    pub realtime: bool,
    /// Among real-time threads.
    pub priority: u8,
    /// Processors that workers may run on; none: any.
    pub affinity: Vec<u64>,
}

/// What compiling a module may take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compiler {
    /// Milliseconds of a processor.
    pub cpu_ms: u32,
    /// MiB.
    pub memory_mib: u32,
    /// Milliseconds by the clock.
    pub wall_ms: u32,
    /// MiB of machine code.
    pub output_mib: u32,
    /// Modules at the same time.
    pub jobs: u64,
}

/// What PLAN packets may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Whether PLAN is spoken.
    pub enabled: bool,
    /// The most that bounds of applications count for.
    pub bound_max: u32,
    /// Services of principals alone.
    pub restricted: Vec<String>,
    /// Services that the file has opened to all.
    pub open: Vec<String>,
    /// Principals.
    pub principals: Vec<Principal>,
}

/// A principal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Principal {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Services it sees.
    pub services: Vec<String>,
}

/// What a node would be confined by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sandbox {
    /// Who it would be.
    pub user: String,
    /// Whether that user is nobody else's.
    pub own_user: bool,
    /// What its broker could do for it.
    pub broker: String,
    /// What it would have.
    pub parts: Vec<String>,
    /// What it would lack.
    pub weaker: Vec<String>,
    /// What its jails would have.
    pub jails: Vec<String>,
    /// And lack.
    pub jails_weaker: Vec<String>,
}
