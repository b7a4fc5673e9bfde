//! The counter tree of a node: what `anode node status` shows. All counters are since the process began.

use crate::kernel::{Kernel, Socket};
use crate::loader::Loader;
use crate::plan::Plan;
use crate::versions::Versions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Packets dropped, by reason; and the same under the names of the version before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Drops {
    /// By reason.
    pub drops: BTreeMap<String, u64>,
    /// By the former names of reasons.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops_before: BTreeMap<String, u64>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// The kernel half, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// Connections to its sockets.
    pub connections: Connections,
    /// How its configuration stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration: Option<crate::wish::Standing>,
    /// What loads code.
    pub loader: Loader,
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

/// What became of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// A port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// The node's addresses on it.
    pub addresses: Vec<String>,
    /// The most that resource bounds of neighbours count for.
    pub bound_max: u32,
    /// The same of capsules of code that acts in a role of its own.
    pub signed_bound_max: u32,
    /// What it demands.
    pub demands: Vec<String>,
    /// Frames that came in, and their bytes.
    pub received: u64,
    /// See [`Port::received`].
    pub received_bytes: u64,
    /// Frames left to the Linux stack.
    pub not_ours: u64,
    /// Frames that the system has thrown away because the node did not take them in time.
    pub missed: u64,
    /// Packets whose bound was cut to the port's ceiling.
    pub clamped: u64,
    /// Packets with a proof of a key that the port does not know.
    pub unknown_keys: u64,
    /// Frames handed to the port, and their bytes.
    pub sent: u64,
    /// Frames handed to the port that it did not take.
    pub refused: u64,
    /// See [`Port::sent`].
    pub sent_bytes: u64,
    /// Bytes that wait to be sent.
    pub queued_bytes: u32,
    /// Share of its capacity that was used, in thousandths.
    pub load_permille: u32,
    /// Frames that its counters do not know of.
    pub unaccounted: u64,
    /// What those behind it have used that have no buckets of their own.
    pub strangers: Entry,
    /// What the interface itself has dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<Interface>,
}

/// An interface of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interface {
    /// Frames dropped before the node had them.
    pub dropped_in: u64,
    /// And behind it.
    pub dropped_out: u64,
    /// Whether there is a carrier; nothing: that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carrier: Option<bool>,
}

/// What a neighbour has used, or all that are unknown behind a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Nanoseconds of the worker.
    pub worker_ns: u64,
    /// Frames refused at entry.
    pub refused: u64,
    /// Codes that had to give way.
    pub displaced: u64,
}

/// What a domain may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as `[[roles]]` of the configuration has them")]
pub struct Limits {
    pub steps_per_packet: u64,
    pub steps_per_second: u64,
    pub kernel_us_per_second: u64,
    pub packets_per_second: u64,
    pub children_per_packet: u32,
    pub state_entries: u32,
    pub keep_ms_max: u32,
    pub logs_per_second: u64,
    pub memory_bytes: u32,
    pub bpf_instructions: u32,
    pub verified_instructions: u32,
    pub over_budget: String,
    pub over_budget_s: u32,
    pub removed_s: u32,
}

/// What a domain has used in the user half.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Packets that came to it.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Steps that its code has taken.
    pub steps: u64,
    /// Nanoseconds of the CPU.
    pub cpu_ns: u64,
    /// Packets that it has sent on.
    pub forwarded: u64,
    /// Packets that it was handed, or its code delivered.
    pub delivered: u64,
    /// Packets that it began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub made: u64,
    /// Activations of its threads by other causes than packets.
    pub activations: Activations,
    /// Children that its code has sent.
    pub children: u64,
    /// Packets that engines have put together with others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub used: u64,
    /// Packets that had run in the kernel half and went on here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub punted: u64,
    /// The same under its former name.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lifted: u64,
    /// Entries of soft state that it holds.
    pub state_entries: u32,
    /// Entries refused.
    pub state_refused: u64,
    /// Reads and changes that the kernel did not carry out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub state_failed: u64,
    /// Entries that gave way to those of others.
    pub state_displaced: u64,
    /// Log lines suppressed because of its rate.
    pub logs_suppressed: u64,
    /// Its packets that were dropped.
    #[serde(flatten)]
    pub drops: Drops,
}

/// Activations of threads, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activations {
    /// By events.
    pub events: u64,
    /// By exceptions.
    pub exceptions: u64,
}

pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What was used in both halves together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(
    missing_docs,
    reason = "as those of Usage; a step of the user half and a nanosecond of the kernel half count alike"
)]
pub struct Total {
    pub packets: u64,
    pub bytes: u64,
    pub steps: u64,
    pub forwarded: u64,
    pub delivered: u64,
    pub children: u64,
    #[serde(flatten)]
    pub drops: Drops,
}

/// A code, and the account of its domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Code {
    /// Its name.
    pub name: String,
    /// For people.
    pub title: String,
    /// `ready`, `coming` or `refused`.
    pub state: String,
    /// Why it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Who signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// Whether that one was revoked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signer_revoked: bool,
    /// In which role it acts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Why the credentials that came with it do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_refused: Option<String>,
    /// Which representation runs in the user half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub representation: Option<String>,
    /// How that was compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Its domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// What that may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// What that has used in the user half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// And in both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<Total>,
    /// Where it has trapped last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trap: Option<Trap>,
    /// Packets of its domain that no counter of the user half knows of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unaccounted: Option<i64>,
    /// "running" in the kernel half too, or why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// Where a run of code ended without a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trap {
    /// Why, in words.
    pub kind: String,
    /// The function's index in the module.
    pub function: Option<u32>,
    /// The byte from where its body begins.
    pub byte: Option<u32>,
    /// What its source calls the function, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The line of the source, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A domain, and what all its codes have used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DomainTotal {
    /// Its number.
    pub domain: u32,
    /// Its codes.
    pub codes: Vec<String>,
    /// What they have used.
    pub total: Total,
    /// Packets that no counter of the user half knows of.
    pub unaccounted: i64,
}

/// Code on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetch {
    /// Codes.
    pub codes: u64,
    /// Those that wait for a place among them.
    pub queued: u64,
    /// Capsules that wait for them.
    pub capsules: u64,
    /// Bytes of code in memory.
    pub object_bytes: u64,
    /// Codes that had to give way to others.
    pub displaced: u64,
}

/// Credentials that came with code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Those that count.
    pub accepted: u64,
    /// Those that do not.
    pub refused: u64,
    /// Times that another neighbour was asked for some.
    pub sought: u64,
    /// Capsules for which none was.
    pub unsought: u64,
}

/// What has become of revocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocations {
    /// Signed ones that neighbours are told.
    pub known: u64,
    /// News that came from neighbours.
    pub news: u64,
    /// Messages that said nothing new.
    pub repeated: u64,
    /// Messages that were sent.
    pub told: u64,
}

/// Hellos.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hellos {
    /// Said.
    pub said: u64,
    /// Heard and believed.
    pub heard: u64,
}

/// An active node next to this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// Its address.
    pub addr: String,
    /// The port towards it.
    pub port: String,
    /// Numbers of the keys by which it proves what it sends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Its last hello.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hello: Option<Hello>,
    /// What it has used, if it has a bucket of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<Entry>,
}

/// A neighbour's last hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// How long the neighbour had been there, in milliseconds.
    pub age_ms: u64,
    /// When it came, in nanoseconds of the node's clock.
    pub heard_ns: u64,
}

/// Connections to the node's sockets, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is a socket")]
pub struct Connections {
    pub control: Connected,
    pub applications: Connected,
    pub plan_tcp: Connected,
    pub environments: Connected,
}

/// Of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connected {
    /// Those that found no place.
    pub refused: u64,
    /// Those that were closed since they said nothing.
    pub silent: u64,
    /// Those that gave way to others.
    pub displaced: u64,
    /// Those of somebody whose connections had cost more than they may.
    pub slowed: u64,
    /// Nanoseconds of the CPU that they have cost.
    pub cost_ns: u64,
}

/// Rules of policy routing beside those of every host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Those that count.
    pub obeyed: u64,
    /// Those for marked packets.
    pub not_obeyed: u64,
}

/// The interface of a native port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The port's number in the node.
    pub port: u16,
    /// The interface.
    pub interface: String,
    /// `there`, `away`: the port waits for it; or `held`: it has come too often, and is left alone for a while.
    pub state: String,
    /// Whether frames can pass.
    pub carrier: bool,
    /// How often that has changed, as the kernel counts it.
    pub carrier_changes: u32,
    /// How often it has come and gone since the node started.
    pub came: u64,
    /// The same.
    pub went: u64,
}

/// How the kernel's routes are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// Changes of routes that the kernel has told.
    pub changes: u64,
    /// How often all routes were read.
    pub reads: u64,
    /// How often more changes came than the kernel keeps: then all are read.
    pub overruns: u64,
    /// For how many milliseconds it has been known that routes have changed which are not read yet.
    #[serde(default)]
    pub behind_ms: u64,
    /// Routes that the kernel half has not, or otherwise than the user half.
    #[serde(default)]
    pub untold: u64,
    /// How often the kernel half has not taken a route.
    #[serde(default)]
    pub untold_ever: u64,
    /// How often it was told such a one again.
    #[serde(default)]
    pub told_again: u64,
}

/// What a worker has of a CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// How it is divided among domains.
    pub scheduler: String,
    /// Of one CPU.
    pub share: f64,
    /// Whether the worker runs before ordinary threads.
    pub realtime: bool,
    /// CPU time when it last looked.
    pub used_ms: u64,
    /// How often it has rested because its share was used up.
    pub rests: u64,
    /// And for how long.
    pub rested_ms: u64,
    /// How often it had work and did not run for a millisecond or more.
    pub gaps: u64,
    /// The longest of these, in microseconds.
    pub longest_gap_us: u64,
    /// The longest time that it was held by somebody who had its counters copied, in microseconds.
    pub longest_slice_us: u64,
    /// For how much of the last full second it was at work, in thousandths.
    #[serde(default)]
    pub load_permille: u64,
    /// How often it has begun anew after a panic.
    #[serde(default)]
    pub panics: u64,
    /// What is known of what processes of environments use.
    pub processes: Processes,
}

/// How reading what processes use went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// Accounts that are kept.
    pub kept: u64,
    /// Those of one process, since there is no control group.
    pub of_one_process: u64,
    /// Readings of which there was no number.
    pub unread: u64,
    /// Readings that could not follow the one before.
    pub jumped: u64,
    /// Weights that could not be written.
    pub unweighed: u64,
}

/// What the process is confined by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Who it is, for people.
    pub user: String,
    /// What the kernel says of it.
    pub standing: Standing,
    /// What is weaker than it could be.
    pub weaker: Vec<String>,
    /// What its jails lack.
    pub jails_weaker: Vec<String>,
}

/// What a process is, as the kernel says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Real user.
    pub user: u32,
    /// Real group.
    pub group: u32,
    /// Effective capabilities.
    pub capabilities: u64,
    /// Those that it could ever gain.
    pub bounding: u64,
    /// Whether what it executes gains nothing.
    pub no_new_privileges: bool,
    /// Whether its system calls are filtered.
    pub seccomp: bool,
}

/// One worker of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// Its number; the first is 0.
    pub worker: u64,
    /// What became of its frames.
    pub balance: Balance,
    /// Packets that wait for their turn.
    pub waiting: u64,
    /// What it has of a CPU.
    pub cpu: Option<Cpu>,
}

/// Counters as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// The text.
    pub text: String,
    /// Series in it.
    pub series: u64,
    /// Series that found no place: there is a limit.
    pub left_out: u64,
}

/// What one thing of a list is called, whichever list of the counter tree it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Called {
    /// Of a code, for people.
    pub title: Option<String>,
    /// Of a code or a port.
    pub name: Option<String>,
    /// Of a neighbour.
    pub addr: Option<String>,
    /// Of a worker: its number.
    pub worker: Option<u64>,
    /// Of a domain: its codes.
    pub codes: Vec<String>,
}

/// What the codes of the counter tree are called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Codes {
    /// Each of them.
    pub codes: Vec<Called>,
}
